//! Serves chunks to Forebay's own consumers (see `forebay_proto`'s `transfer`): large columns go to the socket from the
//! memory where they were computed, or are lent there. Other workers get cached blocks (`peers::server`).
//!
//! A consumer that disconnects, or sends during an answer, ends its connection. Bounds: [`CONSUMERS_MAX`] connections;
//! a consumer that does not receive holds one chunk.

#![expect(clippy::disallowed_methods, reason = "a consumer hears now and then that its rows are computed")]

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arrow_flight::FlightData;
use forebay_core::{Error, Result};
use forebay_proto::{
    COMPUTING_EVERY, ChunkHead, ConsumerStream, Frame, FrameHead, GREETING_MAX, GreetingSlot, JobKey, Payload, Request,
    ThreadTime, Ticket, TrailingColumn, metered, send_column, to_json,
};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::peers::server::{BlockServer, RowsRequest};
use crate::serve::chunk_stream::{ChunkStream, stopping};
use crate::serve::columns::{LargeColumn, large_columns, without};
use crate::serve::encode::{Encoder, told};
use crate::serve::shm::{Lender, StreamLender};
use crate::splits::chunk::ProducedChunk;
use crate::splits::lease_table::LeaseTable;

/// Connections at one time. A consumer has one for each split that it fetches.
const CONSUMERS_MAX: usize = 4096;
/// Chunks with less to copy are prepared on the sending thread, others on threads that may block.
const COPY_INLINE_MAX: usize = 256 << 10;

/// Serves Forebay's own protocol.
pub(crate) struct Transfer {
    lease_table: Arc<LeaseTable>,
    /// Lends memory, if the system supports it.
    lender: Option<Arc<Lender>>,
    blocks: BlockServer,
    stop: CancellationToken,
    room: Semaphore,
}

/// A chunk that is ready to be sent: messages, and the columns that follow the last one.
struct OutgoingChunk {
    messages: Vec<FlightData>,
    trailing: Vec<LargeColumn>,
    /// Bytes that are lent instead of sent.
    lent: usize,
}

impl OutgoingChunk {
    /// Returns how many bytes are sent.
    fn sent(&self) -> usize {
        let messages = self.messages.iter().map(|message| message.data_header.len() + message.data_body.len());
        messages.sum::<usize>() + self.trailing.iter().map(LargeColumn::len).sum::<usize>()
    }
}

/// Why the answer to a request ends early.
enum Ended {
    /// The other side has disconnected, so it gets no error.
    Gone,
    /// An error that is sent as the answer; the connection stays open.
    Error(Error),
}

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Self {
        Ended::Gone
    }
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Ended::Error(error)
    }
}

/// Ends when a connection has sent no request in time, or was evicted from its slot; never after its first request.
async fn no_request_in_time(slot: Option<&mut GreetingSlot>) {
    match slot {
        Some(slot) => _ = tokio::time::timeout(GREETING_MAX, slot.evicted()).await,
        None => std::future::pending().await,
    }
}

impl Transfer {
    pub(crate) fn new(
        lease_table: Arc<LeaseTable>,
        lender: Option<Arc<Lender>>,
        blocks: BlockServer,
        stop: CancellationToken,
    ) -> Self {
        Self { lease_table, lender, blocks, stop, room: Semaphore::new(CONSUMERS_MAX) }
    }

    /// Serves one connection, after its preface, until the other side disconnects or this worker stops.
    pub(crate) async fn serve(&self, socket: impl AsyncRead + AsyncWrite, slot: GreetingSlot) {
        let Ok(_place) = self.room.try_acquire() else {
            return tracing::warn!("{CONSUMERS_MAX} connections are open; refused another one");
        };
        let (from, mut to) = tokio::io::split(Box::pin(socket));
        let mut from = BufReader::new(from);
        let mut slot = Some(slot);
        loop {
            let request = tokio::select! {
                () = self.stop.cancelled() => return,
                () = no_request_in_time(slot.as_mut()) => return,
                request = Request::read(&mut from) => request,
            };
            slot = None;
            let answered = match request {
                Ok(Some(Request::Local)) => self.send_socket_name(&mut to).await,
                Ok(Some(Request::Read { ticket, reader: consumer })) => {
                    self.read(&ticket, consumer, &mut from, &mut to).await
                }
                Ok(Some(Request::Blocks { prefix, key })) => self.send_block_list(&prefix, &key, &mut to).await,
                Ok(Some(Request::Parts { parts, key })) => {
                    self.blocks.send(&mut to, parts, &key).await.map_err(Ended::from)
                }
                Ok(Some(Request::Rows { prefix, rows, rank, wait_ms, key })) => {
                    let request = RowsRequest { prefix, rows, rank, wait_ms };
                    self.blocks.give(&mut to, request, &key).await.map_err(Ended::from)
                }
                Ok(None) => return,
                Err(error) => return tracing::debug!(error = error.message(), "a request could not be read"),
            };
            match answered {
                Ok(()) => {}
                Err(Ended::Gone) => return,
                Err(Ended::Error(error)) => {
                    if send_body(&mut to, Frame::Failed, to_json(&error).as_bytes()).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    async fn send_socket_name(&self, to: &mut (impl AsyncWrite + Unpin)) -> Result<(), Ended> {
        let name = self.lender.as_ref().map_or("", |l| l.socket());
        Ok(send_body(to, Frame::Socket, name.as_bytes()).await?)
    }

    async fn send_block_list(
        &self,
        prefix: &str,
        key: &JobKey,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), Ended> {
        let blocks = self.blocks.list(prefix, key).await?;
        Ok(send_body(to, Frame::Blocks, blocks.as_bytes()).await?)
    }

    async fn read<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        ticket: &Ticket,
        consumer: Option<ConsumerStream>,
        from: &mut BufReader<ReadHalf<S>>,
        to: &mut WriteHalf<S>,
    ) -> Result<(), Ended> {
        if self.stop.is_cancelled() {
            return Err(stopping().into());
        }
        let mut chunk_stream =
            keep_alive_until(from, to, ChunkStream::open(&self.lease_table, &self.stop, ticket)).await?;
        let lending =
            self.lender.as_ref().zip(consumer).and_then(|(lender, consumer)| lender.stream(consumer)).map(Arc::new);
        let mut encoder = Encoder::default();
        let _traced = ticket.trace.then(|| self.lease_table.stats.trace());
        loop {
            let next = keep_alive_until(from, to, chunk_stream.next(lending.is_some())).await?;
            let Some((index, mut produced)) = next else {
                return Ok(send_body(to, Frame::End, &[]).await?);
            };
            produced.spans = produced.spans.filter(|_| ticket.trace);
            let outgoing = prepare(&mut encoder, lending.clone(), produced, index, chunk_stream.job().with_ids).await?;
            let (sent, nanos) = metered(&ThreadTime, send(to, &outgoing)).await;
            sent?;
            let (stats, bytes) = (&self.lease_table.stats, outgoing.sent() as u64);
            stats.bytes_sent.fetch_add(bytes, Relaxed);
            stats.bytes_lent.fetch_add(outgoing.lent as u64, Relaxed);
            if outgoing.lent == 0 {
                stats.send_costs.add(ticket.job, bytes, nanos);
                stats.send_ns.fetch_add(nanos, Relaxed);
            }
        }
    }
}

/// Waits for `next` and sends keep-alives meanwhile; ends early when the consumer disconnects.
async fn keep_alive_until<S: AsyncRead + AsyncWrite + Unpin, T>(
    from: &mut BufReader<ReadHalf<S>>,
    to: &mut WriteHalf<S>,
    next: impl Future<Output = Result<T>>,
) -> Result<T, Ended> {
    let mut next = pin!(next);
    loop {
        tokio::select! {
            _ = from.fill_buf() => return Err(Ended::Gone),
            next = &mut next => return Ok(next?),
            () = tokio::time::sleep(COMPUTING_EVERY) => send_body(to, Frame::Computing, &[]).await?,
        }
    }
}

/// Prepares a chunk to be sent.
async fn prepare(
    encoder: &mut Encoder,
    lending: Option<Arc<StreamLender>>,
    produced: ProducedChunk,
    index: u64,
    with_ids: bool,
) -> Result<OutgoingChunk> {
    let large = large_columns(&produced.chunk)?;
    let trailing_bytes = || large.iter().map(LargeColumn::len).sum::<usize>();
    let copied = match &lending {
        Some(lending) => lending.bytes_to_copy(&large),
        None => produced.chunk.num_bytes().saturating_sub(trailing_bytes()),
    };
    let mut used = std::mem::take(encoder);
    let make = move || (encode(&mut used, lending.as_deref(), &produced, large, index, with_ids), used);
    let (outgoing, used) = if copied < COPY_INLINE_MAX {
        make()
    } else {
        let produced = tokio::task::spawn_blocking(make).await;
        produced.map_err(|e| Error::internal(format!("encoding a chunk failed: {e}")))?
    };
    *encoder = used;
    outgoing
}

fn encode(
    encoder: &mut Encoder,
    lending: Option<&StreamLender>,
    produced: &ProducedChunk,
    large: Vec<LargeColumn>,
    index: u64,
    with_ids: bool,
) -> Result<OutgoingChunk> {
    let ProducedChunk { chunk, ops_on_worker, shared, .. } = produced;
    let whole = |messages: VecDeque<_>| OutgoingChunk { messages: messages.into(), trailing: Vec::new(), lent: 0 };
    let one = |message| OutgoingChunk { messages: vec![message], trailing: Vec::new(), lent: 0 };
    if large.is_empty() {
        return Ok(whole(encoder.encode(produced, index, with_ids)?));
    }
    let head = |payload| {
        let (losses, spans) = told(produced);
        ChunkHead { index, more: false, ops_on_worker: *ops_on_worker, payload, losses, spans }
    };
    if let Some((lent, rest)) = lending.map(|l| l.lend(chunk, &large, *shared)).transpose()?.flatten() {
        let bytes = lent.columns.iter().map(|column| column.len as usize).sum();
        return Ok(OutgoingChunk {
            lent: bytes,
            ..one(encoder.encode_rest(&rest, &head(Payload::SharedMemory(lent)), with_ids)?)
        });
    }
    let rest = without(chunk, large.iter().map(|c| c.column))?;
    if !encoder.fits(&rest) {
        return Ok(whole(encoder.encode(produced, index, with_ids)?));
    }
    let columns = large.iter().map(|c| TrailingColumn { column: c.column as u32, len: c.len() as u64 }).collect();
    Ok(OutgoingChunk {
        trailing: large,
        ..one(encoder.encode_rest(&rest, &head(Payload::Trailing(columns)), with_ids)?)
    })
}

async fn send(to: &mut (impl AsyncWrite + Unpin), outgoing: &OutgoingChunk) -> io::Result<()> {
    for message in &outgoing.messages {
        let (metadata, header, body) = (&message.app_metadata, &message.data_header, &message.data_body);
        let head = FrameHead {
            frame: Frame::Chunk,
            metadata: metadata.len() as u32,
            header: header.len() as u32,
            body: body.len() as u64,
        };
        to.write_all(&[&head.to_bytes()[..], metadata, header].concat()).await?;
        to.write_all(body).await?;
    }
    for column in &outgoing.trailing {
        send_column(to, &column.values).await?;
    }
    to.flush().await
}

async fn send_body(to: &mut (impl AsyncWrite + Unpin), frame: Frame, body: &[u8]) -> io::Result<()> {
    to.write_all(&[&FrameHead::of_body(frame, body.len()).to_bytes()[..], body].concat()).await?;
    to.flush().await
}
