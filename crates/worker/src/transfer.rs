//! Serves chunks to Forebay's own readers (see `forebay_proto`'s `transfer`): large columns go from where they were made to
//! the socket, or are lent where they are. Other workers are served what is kept (`blocks`).
//!
//! A reader that leaves, or speaks while it is answered, ends its connection. Bounds: [`READERS_MAX`] connections; a
//! reader that does not take what is sent holds one chunk.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arrow_flight::FlightData;
use forebay_core::{Error, Result};
use forebay_data::Loss;
use forebay_proto::{
    ApartColumn, COMPUTING_EVERY, ChunkHead, Frame, FrameHead, GREETING_MAX, JobKey, Large, Place, Reader, Request,
    ThreadTime, Ticket, metered, send_column, to_json,
};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::blocks::{Blocks, Wanted};
use crate::columns::{LargeColumn, large_columns, without};
use crate::encode::Encoder;
use crate::held::Made;
use crate::lender::{Lender, Lending};
use crate::reading::{Reading, stopping};
use crate::shelf::Shelf;

/// Connections at one time: a reader has one for each split that it fetches.
const READERS_MAX: usize = 4096;
/// Chunks of which less is to be copied are made ready where they are sent; others on threads that may take their time.
const COPY_INLINE_MAX: usize = 256 << 10;

/// What serves readers of ours.
pub(crate) struct Transfer {
    shelf: Arc<Shelf>,
    /// Lends memory, where the system can.
    lender: Option<Arc<Lender>>,
    blocks: Blocks,
    stop: CancellationToken,
    room: Semaphore,
}

/// A chunk that is ready to be sent: messages, and the columns that follow the last one.
struct Parcel {
    messages: Vec<FlightData>,
    apart: Vec<LargeColumn>,
    /// Bytes that are lent instead.
    lent: usize,
}

impl Parcel {
    /// Returns how many bytes are sent.
    fn sent(&self) -> usize {
        let messages = self.messages.iter().map(|message| message.data_header.len() + message.data_body.len());
        messages.sum::<usize>() + self.apart.iter().map(LargeColumn::len).sum::<usize>()
    }
}

/// Why a connection ends.
enum Left {
    /// The other side: there is nobody to tell.
    Reader,
    /// Something that the reader can be told; the connection goes on.
    Told(Error),
}

impl From<io::Error> for Left {
    fn from(_: io::Error) -> Self {
        Left::Reader
    }
}

impl From<Error> for Left {
    fn from(error: Error) -> Self {
        Left::Told(error)
    }
}

/// Ends when a connection has not begun in time, or its place was taken; never once it has begun.
async fn has_not_begun(place: Option<&mut Place>) {
    match place {
        Some(place) => _ = tokio::time::timeout(GREETING_MAX, place.taken()).await,
        None => std::future::pending().await,
    }
}

impl Transfer {
    pub(crate) fn new(shelf: Arc<Shelf>, lender: Option<Arc<Lender>>, blocks: Blocks, stop: CancellationToken) -> Self {
        Self { shelf, lender, blocks, stop, room: Semaphore::new(READERS_MAX) }
    }

    /// Serves one connection, after its preface, until the reader leaves or this worker stops.
    pub(crate) async fn serve(&self, socket: impl AsyncRead + AsyncWrite, place: Place) {
        let Ok(_place) = self.room.try_acquire() else {
            return tracing::warn!("{READERS_MAX} readers are connected; one more was turned away");
        };
        let (from, mut to) = tokio::io::split(Box::pin(socket));
        let mut from = BufReader::new(from);
        let mut place = Some(place);
        loop {
            let request = tokio::select! {
                () = self.stop.cancelled() => return,
                () = has_not_begun(place.as_mut()) => return,
                request = Request::read(&mut from) => request,
            };
            place = None;
            let answered = match request {
                Ok(Some(Request::Local)) => self.tell_socket(&mut to).await,
                Ok(Some(Request::Read { ticket, reader })) => self.read(&ticket, reader, &mut from, &mut to).await,
                Ok(Some(Request::Blocks { prefix, key })) => self.tell_blocks(&prefix, &key, &mut to).await,
                Ok(Some(Request::Parts { parts, key })) => {
                    self.blocks.send(&mut to, parts, &key).await.map_err(Left::from)
                }
                Ok(Some(Request::Rows { prefix, rows, rank, wait_ms, key })) => {
                    let wanted = Wanted { prefix, rows, rank, wait_ms };
                    self.blocks.give(&mut to, wanted, &key).await.map_err(Left::from)
                }
                Ok(None) => return,
                Err(error) => return tracing::debug!(error = error.message(), "a reader was not understood"),
            };
            match answered {
                Ok(()) => {}
                Err(Left::Reader) => return,
                Err(Left::Told(error)) => {
                    if send_body(&mut to, Frame::Failed, to_json(&error).as_bytes()).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    async fn tell_socket(&self, to: &mut (impl AsyncWrite + Unpin)) -> Result<(), Left> {
        let name = self.lender.as_ref().map_or("", |l| l.socket());
        Ok(send_body(to, Frame::Socket, name.as_bytes()).await?)
    }

    async fn tell_blocks(&self, prefix: &str, key: &JobKey, to: &mut (impl AsyncWrite + Unpin)) -> Result<(), Left> {
        let blocks = self.blocks.list(prefix, key).await?;
        Ok(send_body(to, Frame::Blocks, blocks.as_bytes()).await?)
    }

    async fn read<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        ticket: &Ticket,
        reader: Option<Reader>,
        from: &mut BufReader<ReadHalf<S>>,
        to: &mut WriteHalf<S>,
    ) -> Result<(), Left> {
        if self.stop.is_cancelled() {
            return Err(stopping().into());
        }
        let mut reading = patiently(from, to, Reading::open(&self.shelf, &self.stop, ticket)).await?;
        let lending = self.lender.as_ref().zip(reader).and_then(|(lender, reader)| lender.stream(reader)).map(Arc::new);
        let mut encoder = Encoder::default();
        loop {
            let next = patiently(from, to, reading.next(lending.is_some())).await?;
            let Some((index, made)) = next else {
                return Ok(send_body(to, Frame::End, &[]).await?);
            };
            let parcel = parcel(&mut encoder, lending.clone(), made, index, reading.job().with_ids).await?;
            let (sent, nanos) = metered(&ThreadTime, send(to, &parcel)).await;
            sent?;
            let (meter, bytes) = (&self.shelf.meter, parcel.sent() as u64);
            meter.bytes_sent.fetch_add(bytes, Relaxed);
            meter.bytes_lent.fetch_add(parcel.lent as u64, Relaxed);
            if parcel.lent == 0 {
                meter.wire.add(ticket.job, bytes, nanos);
                meter.send_ns.fetch_add(nanos, Relaxed);
            }
        }
    }
}

/// Waits for what is to be sent next, saying meanwhile that this worker lives; or until the reader leaves.
async fn patiently<S: AsyncRead + AsyncWrite + Unpin, T>(
    from: &mut BufReader<ReadHalf<S>>,
    to: &mut WriteHalf<S>,
    next: impl Future<Output = Result<T>>,
) -> Result<T, Left> {
    let mut next = pin!(next);
    loop {
        tokio::select! {
            _ = from.fill_buf() => return Err(Left::Reader),
            next = &mut next => return Ok(next?),
            () = tokio::time::sleep(COMPUTING_EVERY) => send_body(to, Frame::Computing, &[]).await?,
        }
    }
}

/// Makes a chunk ready to be sent.
async fn parcel(
    encoder: &mut Encoder,
    lending: Option<Arc<Lending>>,
    made: Made,
    index: u64,
    with_ids: bool,
) -> Result<Parcel> {
    let large = large_columns(&made.chunk)?;
    let apart = || large.iter().map(LargeColumn::len).sum::<usize>();
    let copied = match &lending {
        Some(lending) => lending.bytes_to_copy(&large),
        None => made.chunk.num_bytes().saturating_sub(apart()),
    };
    let mut used = std::mem::take(encoder);
    let make = move || (make(&mut used, lending.as_deref(), &made, large, index, with_ids), used);
    let (made, used) = if copied < COPY_INLINE_MAX {
        make()
    } else {
        let made = tokio::task::spawn_blocking(make).await;
        made.map_err(|e| Error::internal(format!("encoding a chunk failed: {e}")))?
    };
    *encoder = used;
    made
}

fn make(
    encoder: &mut Encoder,
    lending: Option<&Lending>,
    made: &Made,
    large: Vec<LargeColumn>,
    index: u64,
    with_ids: bool,
) -> Result<Parcel> {
    let Made { chunk, ops, shared } = made;
    let whole = |messages: VecDeque<_>| Parcel { messages: messages.into(), apart: Vec::new(), lent: 0 };
    let one = |message| Parcel { messages: vec![message], apart: Vec::new(), lent: 0 };
    if large.is_empty() {
        return Ok(whole(encoder.encode(made, index, with_ids)?));
    }
    let head = |large| ChunkHead { index, more: false, ops: *ops, large, losses: Loss::to_bytes(chunk.losses()) };
    if let Some((lent, rest)) = lending.map(|l| l.lend(chunk, &large, *shared)).transpose()?.flatten() {
        let bytes = lent.columns.iter().map(|column| column.len as usize).sum();
        return Ok(Parcel { lent: bytes, ..one(encoder.encode_rest(&rest, &head(Large::Lent(lent)), with_ids)?) });
    }
    let rest = without(chunk, large.iter().map(|c| c.column))?;
    if !encoder.fits(&rest) {
        return Ok(whole(encoder.encode(made, index, with_ids)?));
    }
    let columns = large.iter().map(|c| ApartColumn { column: c.column as u32, len: c.len() as u64 }).collect();
    Ok(Parcel { apart: large, ..one(encoder.encode_rest(&rest, &head(Large::Apart(columns)), with_ids)?) })
}

async fn send(to: &mut (impl AsyncWrite + Unpin), parcel: &Parcel) -> io::Result<()> {
    for message in &parcel.messages {
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
    for column in &parcel.apart {
        send_column(to, &column.values).await?;
    }
    to.flush().await
}

async fn send_body(to: &mut (impl AsyncWrite + Unpin), frame: Frame, body: &[u8]) -> io::Result<()> {
    to.write_all(&[&FrameHead::of_body(frame, body.len()).to_bytes()[..], body].concat()).await?;
    to.flush().await
}
