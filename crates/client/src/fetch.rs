//! Fetches one split from one worker, chunk by chunk, into the window.
//!
//! A stream that breaks is taken up once more at the chunk where it broke; a worker that is gone, or that holds the
//! split no more, is reported, and whoever gets the split next continues at that chunk. Only an error that the split
//! itself ended in is kept, to be raised when its turn comes.

use std::sync::Arc;

use arrow_flight::FlightData;
use arrow_schema::SchemaRef;
use forebay_core::{ConsumerIndex, Error, ErrorKind, Result};
use forebay_data::{Chunk, Loss, Memory, Schema, SharedMemory};
use forebay_exec::Executable;
use forebay_proto::{
    ApartColumn, ChunkHead, JobKey, Large, Lent, OpSpent, Request, ThreadTime, Ticket, Unreachable, metered,
};

use crate::borrower::{Borrower, Borrowing};
use crate::connection::{Connection, Received};
use crate::decode;
use crate::finish::{columns, finish};
use crate::link::{Link, State};
use crate::window::Fetch;
use crate::workers::Workers;

/// Ops that a heartbeat says something of; the rest is in the next ones.
const OPS_MAX: usize = 256;
/// Chunks below this are decoded and finished where they arrive; larger ones on threads that may take their time.
const DECODE_INLINE_MAX: usize = 256 << 10;

/// What every fetch of a stream needs.
pub(crate) struct Fetcher {
    pub(crate) link: Arc<Link>,
    pub(crate) workers: Workers,
    /// What workers leave to do.
    pub(crate) executable: Arc<Executable>,
    /// Whether chunks carry the names of their rows.
    pub(crate) with_ids: bool,
    /// Where chunks are received.
    pub(crate) memory: Memory,
    pub(crate) job: u64,
    /// What the job's workers ask for.
    pub(crate) key: JobKey,
    pub(crate) consumer: ConsumerIndex,
}

/// The columns of a chunk that travels, and of its message.
struct Columns {
    schema: Arc<Schema>,
    wire: SchemaRef,
}

/// Why a stream ended before its end.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The split failed: another worker would find the same.
    Split(Error),
    /// The worker or the way to it failed: another may do.
    Worker(Error),
    /// Nobody wants it any more.
    Unwanted,
}

/// One assignment, as it is fetched. No I/O: says what follows from how a stream ended.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) fetch: Fetch,
    /// A connection that broke (the worker is alive, its host reset it) is worth one more.
    again: bool,
}

/// What follows from how a stream ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum After {
    Stop,
    /// Open another stream, for what is missing.
    Again,
    /// There is a complaint to say.
    Complain,
}

impl Trial {
    pub(crate) fn new(fetch: Fetch) -> Self {
        Self { fetch, again: true }
    }

    pub(crate) fn after(&mut self, state: &mut State, ended: Result<(), Ended>) -> After {
        let end = match ended {
            Ok(()) => Ok(()),
            Err(Ended::Split(error)) => Err(error),
            Err(Ended::Unwanted) => return After::Stop,
            Err(Ended::Worker(error)) => return self.lost(state, &error),
        };
        state.window.end(&self.fetch, end);
        After::Stop
    }

    fn lost(&mut self, state: &mut State, error: &Error) -> After {
        let start = self.fetch.from_chunk;
        match state.window.again(&self.fetch) {
            None => return After::Stop,
            Some(again) => self.fetch = again,
        }
        if self.fetch.from_chunk > start && std::mem::take(&mut self.again) {
            return After::Again;
        }
        let Fetch { place, token, address, .. } = &self.fetch;
        tracing::info!(worker = address, ?place, error = error.message(), "asking for another worker");
        if !state.window.lost(&self.fetch) {
            return After::Stop;
        }
        let unavailable = |address| Error::unavailable(format!("the worker at {address} does not hold the split"));
        // Should it be the last one, the user is not told to look for something that does not exist.
        let error = if error.get("ticket").is_some() { unavailable(address) } else { error.clone() };
        let (epoch, ordinal, error) = (place.epoch, place.ordinal, error.to_json());
        state.say.unreachable.push(Unreachable { epoch, ordinal, token: *token, error });
        After::Complain
    }
}

impl Fetcher {
    /// Fetches a split until it is complete, or reports who could not give it.
    pub(crate) async fn fetch(&self, fetch: Fetch) {
        let (mut trial, mut again) = (Trial::new(fetch), false);
        loop {
            let ended = self.stream(&trial.fetch, again).await;
            if matches!(ended, Err(Ended::Worker(_))) {
                self.workers.forget(&trial.fetch.address);
            }
            match self.link.update(|s| trial.after(s, ended)) {
                After::Again => again = true,
                // Another worker may have been at it, too.
                After::Stop => return self.link.room.notify_waiters(),
                After::Complain => return self.link.to_say.notify_one(),
            }
        }
    }

    async fn stream(&self, fetch: &Fetch, again: bool) -> Result<(), Ended> {
        tokio::select! {
            biased;
            () = self.unwanted(fetch) => Err(Ended::Unwanted),
            ended = self.chunks(fetch, again) => ended,
        }
    }

    async fn chunks(&self, fetch: &Fetch, again: bool) -> Result<(), Ended> {
        let connected = match again {
            false => self.workers.connection(&fetch.address).await,
            true => self.workers.connection_again(&fetch.address).await,
        };
        let (peer, mut connection) = connected.map_err(Ended::Worker)?;
        let mut borrowing = peer.borrower.as_ref().map(Borrower::stream);
        let request = Request::Read { ticket: self.ticket(fetch), reader: borrowing.as_ref().map(Borrowing::reader) };
        connection.ask(&request).await.map_err(Ended::Worker)?;
        let mut parts: Vec<FlightData> = Vec::new();
        loop {
            self.wait_for_room(fetch).await;
            let (received, nanos) = metered(&ThreadTime, connection.receive(&self.memory)).await;
            let message = match received.map_err(Ended::Worker)? {
                Received::Chunk(message) => message,
                Received::End => {
                    peer.give_back(connection);
                    return match parts.is_empty() {
                        true => Ok(()),
                        false => Err(Ended::Worker(Error::unavailable("the worker's stream ended within a chunk"))),
                    };
                }
                Received::Failed(error) => {
                    peer.give_back(connection);
                    return Err(classify(error));
                }
                Received::Socket(_) => return Err(Ended::Worker(Error::data("a worker answered something else"))),
            };
            let head = ChunkHead::open(&message).map_err(Ended::Worker)?;
            let columns = self.columns(&head).map_err(Ended::Worker)?;
            if !matches!(head.large, Large::Lent(_)) {
                self.link.lock().meter.receive(message.data_body.len(), nanos);
            }
            let chunk = match &head.large {
                Large::Lent(lent) => self.borrow(message, lent, borrowing.as_mut(), &columns),
                Large::Apart(apart) => self.collect(message, apart, &mut connection, &columns).await,
                Large::Inside => {
                    parts.push(message);
                    if head.more {
                        continue;
                    }
                    self.decode(std::mem::take(&mut parts), &columns).await
                }
            };
            let losses = Loss::from_bytes(head.losses).map_err(Ended::Worker)?;
            let chunk = chunk.map_err(Ended::Worker)?.with_losses(losses);
            let shared = peer.borrower.as_ref().filter(|_| head.large.is_shared()).map(|b| b.shared().clone());
            let chunk = self.finish(chunk, head.ops, shared).await.map_err(Ended::Split)?;
            let bytes = chunk.num_bytes();
            let taken = self.link.update(|s| s.window.chunk(fetch, head.index, chunk, bytes));
            if !taken.map_err(Ended::Worker)? {
                return Err(Ended::Unwanted);
            }
        }
    }

    fn ticket(&self, fetch: &Fetch) -> Ticket {
        Ticket {
            job: self.job,
            epoch: fetch.place.epoch,
            consumer: self.consumer.0,
            ordinal: fetch.place.ordinal,
            token: fetch.token,
            from_chunk: fetch.from_chunk,
            key: self.key,
        }
    }

    /// Waits until nobody wants a split any more: it was consumed, or is another worker's.
    async fn unwanted(&self, fetch: &Fetch) {
        self.changed(|state| state.room_for(fetch).is_none()).await;
    }

    /// Waits until a split may take in more, or is not wanted.
    async fn wait_for_room(&self, fetch: &Fetch) {
        self.changed(|state| state.room_for(fetch) != Some(false)).await;
    }

    async fn changed(&self, is_so: impl Fn(&State) -> bool) {
        loop {
            let room = self.link.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if is_so(&self.link.lock()) {
                return;
            }
            room.await;
        }
    }

    /// Returns the columns of a chunk: which they are depends on where it is cut.
    fn columns(&self, head: &ChunkHead) -> Result<Columns> {
        let schema = columns(&self.executable, head.ops)?.clone();
        Ok(Columns { wire: Chunk::wire_schema(&schema, self.with_ids), schema })
    }

    fn borrow(
        &self,
        rest: FlightData,
        lent: &Lent,
        borrowing: Option<&mut Borrowing>,
        Columns { schema, wire }: &Columns,
    ) -> Result<Chunk> {
        let borrowing = borrowing.ok_or_else(|| Error::data("a worker lent to a reader that did not ask"))?;
        let columns = borrowing.take(lent)?;
        let elsewhere: Vec<usize> = columns.iter().map(|(column, _)| *column).collect();
        let rest = decode::rest(rest, &elsewhere, wire, schema)?;
        decode::assemble(&rest, &columns, schema)
    }

    /// Reads the columns that follow a message into memory that is used again.
    async fn collect(
        &self,
        rest: FlightData,
        apart: &[ApartColumn],
        from: &mut Connection,
        Columns { schema, wire }: &Columns,
    ) -> Result<Chunk> {
        let elsewhere: Vec<usize> = apart.iter().map(|c| c.column as usize).collect();
        let rest = decode::rest(rest, &elsewhere, wire, schema)?;
        let mut columns = Vec::with_capacity(apart.len());
        for column in apart {
            let place = column.column as usize;
            let bytes = decode::bytes_of(place, rest.num_rows(), schema)?;
            if bytes as u64 != column.len {
                let len = column.len;
                return Err(Error::data(format!("column {place} of a chunk has {len} bytes, not {bytes}")));
            }
            let (received, nanos) = metered(&ThreadTime, from.column(bytes, &self.memory)).await;
            columns.push((place, received?));
            self.link.lock().meter.receive(bytes, nanos);
        }
        decode::assemble(&rest, &columns, schema)
    }

    /// Returns what ops did in this process since this was last asked.
    pub(crate) fn ops(&self) -> Vec<OpSpent> {
        self.executable.meter().take(OPS_MAX).into_iter().map(OpSpent::from).collect()
    }

    /// Does what the worker left to do. What is then still in memory that others read is copied: batches may be written to.
    async fn finish(&self, chunk: Chunk, ops: u32, shared: Option<Arc<SharedMemory>>) -> Result<Chunk> {
        if self.executable.is_finished(ops) && shared.is_none() {
            return Ok(chunk);
        }
        let small = chunk.num_bytes() < DECODE_INLINE_MAX;
        let (executable, memory) = (self.executable.clone(), self.memory.clone());
        let finish = move || {
            let chunk = finish(&executable, chunk, ops)?;
            let Some(shared) = shared else { return Ok(chunk) };
            chunk.without_foreign(&|buffer| shared.contains(buffer), &memory)
        };
        if small {
            return finish();
        }
        let finished = tokio::task::spawn_blocking(finish).await;
        finished.unwrap_or_else(|e| Err(Error::internal(format!("finishing a chunk failed: {e}"))))
    }

    async fn decode(&self, parts: Vec<FlightData>, Columns { schema, wire }: &Columns) -> Result<Chunk> {
        if decode::num_bytes(&parts) < DECODE_INLINE_MAX {
            return decode::chunk(parts, wire, schema);
        }
        let (wire, schema) = (wire.clone(), schema.clone());
        let decoded = tokio::task::spawn_blocking(move || decode::chunk(parts, &wire, &schema)).await;
        decoded.unwrap_or_else(|e| Err(Error::internal(format!("decoding a chunk failed: {e}"))))
    }
}

/// What a worker says of a split is the split's own, unless it says that the lease is gone (context `ticket`), or that
/// something did not answer there.
pub(crate) fn classify(error: Error) -> Ended {
    let of_worker = error.get("ticket").is_some() || matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Closed);
    if of_worker { Ended::Worker(error) } else { Ended::Split(error) }
}
