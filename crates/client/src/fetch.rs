//! Fetches one split from one worker, chunk by chunk, into the window.
//!
//! A stream that breaks is taken up once more at the chunk where it broke; a worker that is gone, or that holds the
//! split no more, is reported, and whoever gets the split next continues at that chunk. Only an error that the split
//! itself ended in is kept, to be raised when its turn comes.

use std::sync::Arc;

use arrow_flight::FlightData;
use arrow_schema::SchemaRef;
use forebay_core::{ConsumerIndex, Error, ErrorKind, Result};
use forebay_data::{Chunk, Memory};
use forebay_exec::Executable;
use forebay_proto::{ApartColumn, ChunkHead, Large, Lent, Request, Ticket, Unreachable};

use crate::borrower::{Borrower, Borrowing};
use crate::connection::{Connection, Received};
use crate::decode;
use crate::link::Link;
use crate::options::BUFFER_BYTES_MAX;
use crate::window::{Fetch, Window};
use crate::workers::Workers;

/// Chunks below this are decoded and finished where they arrive; larger ones on threads that may take their time.
const DECODE_INLINE_MAX: usize = 256 << 10;

/// What every fetch of a stream needs.
pub(crate) struct Fetcher {
    pub(crate) link: Arc<Link>,
    pub(crate) workers: Workers,
    /// What the worker left to do.
    pub(crate) executable: Arc<Executable>,
    /// The schema of a chunk's message.
    pub(crate) wire: SchemaRef,
    /// Where chunks are received.
    pub(crate) memory: Memory,
    pub(crate) job: u64,
    pub(crate) consumer: ConsumerIndex,
}

/// Why a stream ended before its end.
enum Ended {
    /// The split failed: another worker would find the same.
    Split(Error),
    /// The worker or the way to it failed: another may do.
    Worker(Error),
    /// Nobody wants it any more.
    Unwanted,
}

impl Fetcher {
    /// Fetches a split until it is complete, or reports who could not give it.
    pub(crate) async fn fetch(&self, mut fetch: Fetch) {
        let mut error = None;
        // Twice: a connection that broke (the worker is alive, its host reset it) is worth one more.
        for again in [false, true] {
            let start = fetch.from_chunk;
            match self.stream(&fetch, again).await {
                Ok(()) => return self.link.update(|s| s.window.end(&fetch, Ok(()))),
                Err(Ended::Split(e)) => return self.link.update(|s| s.window.end(&fetch, Err(e))),
                Err(Ended::Unwanted) => return,
                Err(Ended::Worker(e)) => {
                    self.workers.forget(&fetch.address);
                    error = Some(e);
                }
            }
            match self.link.lock().window.again(&fetch) {
                None => return,
                Some(again) if again.from_chunk > start => fetch = again,
                Some(_) => break,
            }
        }
        self.report(&fetch, error.unwrap_or_else(|| Error::unavailable("the stream broke")));
    }

    fn report(&self, fetch: &Fetch, error: Error) {
        tracing::info!(worker = fetch.address, place = ?fetch.place, error = error.message(), "asking for another worker");
        let complaint = Unreachable {
            epoch: fetch.place.epoch,
            ordinal: fetch.place.ordinal,
            token: fetch.token,
            error: error.to_json(),
        };
        let needed = self.link.update(|s| {
            let needed = s.window.lost(fetch);
            if needed {
                s.say.unreachable.push(complaint);
            }
            needed
        });
        if needed {
            self.link.to_say.notify_one();
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
            let message = match connection.receive(&self.memory).await.map_err(Ended::Worker)? {
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
            let chunk = match &head.large {
                Large::Lent(lent) => self.borrow(message, lent, borrowing.as_mut()),
                Large::Apart(columns) => self.collect(message, columns, &mut connection).await,
                Large::Inside => {
                    parts.push(message);
                    if head.more {
                        continue;
                    }
                    self.decode(std::mem::take(&mut parts)).await
                }
            };
            let chunk = self.finish(chunk.map_err(Ended::Worker)?).await.map_err(Ended::Split)?;
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
        }
    }

    /// Waits until nobody wants a split any more: it was consumed, or is another worker's.
    async fn unwanted(&self, fetch: &Fetch) {
        self.changed(|window| !window.is_wanted(fetch)).await;
    }

    /// The front split is never held up, so that what waits behind it always gets its turn.
    async fn wait_for_room(&self, fetch: &Fetch) {
        self.changed(|window| window.has_room(fetch.place, BUFFER_BYTES_MAX)).await;
    }

    async fn changed(&self, is_so: impl Fn(&Window) -> bool) {
        loop {
            let room = self.link.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if is_so(&self.link.lock().window) {
                return;
            }
            room.await;
        }
    }

    fn borrow(&self, rest: FlightData, lent: &Lent, borrowing: Option<&mut Borrowing>) -> Result<Chunk> {
        let borrowing = borrowing.ok_or_else(|| Error::data("a worker lent to a reader that did not ask"))?;
        let columns = borrowing.take(lent)?;
        let elsewhere: Vec<usize> = columns.iter().map(|(column, _)| *column).collect();
        let rest = decode::rest(rest, &elsewhere, &self.wire, self.executable.input())?;
        decode::assemble(&rest, &columns, self.executable.input())
    }

    /// Reads the columns that follow a message into memory that is used again.
    async fn collect(&self, rest: FlightData, apart: &[ApartColumn], from: &mut Connection) -> Result<Chunk> {
        let elsewhere: Vec<usize> = apart.iter().map(|c| c.column as usize).collect();
        let rest = decode::rest(rest, &elsewhere, &self.wire, self.executable.input())?;
        let mut columns = Vec::with_capacity(apart.len());
        for column in apart {
            let place = column.column as usize;
            let bytes = decode::bytes_of(place, rest.num_rows(), self.executable.input())?;
            if bytes as u64 != column.len {
                let len = column.len;
                return Err(Error::data(format!("column {place} of a chunk has {len} bytes, not {bytes}")));
            }
            columns.push((place, from.column(bytes, &self.memory).await?));
        }
        decode::assemble(&rest, &columns, self.executable.input())
    }

    /// Does what the worker left to do.
    async fn finish(&self, chunk: Chunk) -> Result<Chunk> {
        if self.executable.is_finished() {
            return Ok(chunk);
        }
        if chunk.num_bytes() < DECODE_INLINE_MAX {
            return self.executable.finish(chunk);
        }
        let executable = self.executable.clone();
        let finished = tokio::task::spawn_blocking(move || executable.finish(chunk)).await;
        finished.unwrap_or_else(|e| Err(Error::internal(format!("finishing a chunk failed: {e}"))))
    }

    async fn decode(&self, parts: Vec<FlightData>) -> Result<Chunk> {
        if decode::num_bytes(&parts) < DECODE_INLINE_MAX {
            return decode::chunk(parts, &self.wire, self.executable.input());
        }
        let (wire, schema) = (self.wire.clone(), self.executable.input().clone());
        let decoded = tokio::task::spawn_blocking(move || decode::chunk(parts, &wire, &schema)).await;
        decoded.unwrap_or_else(|e| Err(Error::internal(format!("decoding a chunk failed: {e}"))))
    }
}

/// What a worker says of a split is the split's own, unless it says that the lease is gone (context `ticket`), or that
/// something did not answer there.
fn classify(error: Error) -> Ended {
    let of_worker = error.get("ticket").is_some() || matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Closed);
    if of_worker { Ended::Worker(error) } else { Ended::Split(error) }
}
