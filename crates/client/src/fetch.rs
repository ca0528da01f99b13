//! Fetches one split from one worker, chunk by chunk, into the window.
//!
//! A stream that breaks is taken up once more at the chunk where it broke; a worker that is gone, or that holds the
//! split no more, is reported, and whoever gets the split next continues at that chunk. Only an error that the split
//! itself ended in is kept, to be raised when its turn comes.

use std::sync::Arc;

use arrow_flight::{FlightData, Ticket as FlightTicket};
use arrow_schema::SchemaRef;
use forebay_core::{ConsumerIndex, Error, ErrorKind, Result};
use forebay_data::{Chunk, Loss, Schema};
use forebay_proto::{ChunkHead, Lent, READER_HEADER, Ticket, Unreachable, to_error};
use tonic::{Request, Status};

use crate::borrower::{Borrower, Borrowing};
use crate::decode;
use crate::link::Link;
use crate::options::BUFFER_BYTES_MAX;
use crate::window::Fetch;
use crate::workers::{Peer, Workers};

/// Chunks below this are decoded where they arrive; larger ones on threads that may take their time.
const DECODE_INLINE_MAX: usize = 256 << 10;

/// What every fetch of a stream needs.
pub(crate) struct Fetcher {
    pub(crate) link: Arc<Link>,
    pub(crate) workers: Workers,
    pub(crate) schema: Arc<Schema>,
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
        for _ in 0..2 {
            let start = fetch.from_chunk;
            match self.stream(&fetch).await {
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

    async fn stream(&self, fetch: &Fetch) -> Result<(), Ended> {
        let failed = |status: Status| classify(&status, &fetch.address);
        let ticket = Ticket {
            job: self.job,
            epoch: fetch.place.epoch,
            consumer: self.consumer.0,
            ordinal: fetch.place.ordinal,
            token: fetch.token,
            from_chunk: fetch.from_chunk,
        };
        let Peer { mut flight, borrower } = self.workers.peer(&fetch.address).await.map_err(Ended::Worker)?;
        let mut request = Request::new(FlightTicket::new(ticket.to_bytes()));
        let mut borrowing = borrower.as_ref().map(Borrower::stream);
        if let Some(header) = borrowing.as_ref().and_then(|b| b.header().parse().ok()) {
            request.metadata_mut().insert(READER_HEADER, header);
        }
        let mut messages = flight.do_get(request).await.map_err(failed)?.into_inner();
        let first = messages.message().await.map_err(failed)?;
        let first = first.ok_or_else(|| Ended::Worker(Error::unavailable("the worker's stream was empty")))?;
        let wire = decode::schema(&first).map_err(Ended::Worker)?;
        let mut parts: Vec<FlightData> = Vec::new();
        loop {
            self.wait_for_room(fetch).await?;
            let Some(message) = messages.message().await.map_err(failed)? else {
                return match parts.is_empty() {
                    true => Ok(()),
                    false => Err(Ended::Worker(Error::unavailable("the worker's stream ended within a chunk"))),
                };
            };
            let head = ChunkHead::open(&message).map_err(Ended::Worker)?;
            let (chunk, bytes) = if let Some(lent) = &head.lent {
                self.borrow(message, lent, borrowing.as_mut(), &wire).map_err(Ended::Worker)?
            } else {
                parts.push(message);
                if head.more {
                    continue;
                }
                let bytes = decode::num_bytes(&parts);
                (self.decode(std::mem::take(&mut parts), &wire, bytes).await.map_err(Ended::Worker)?, bytes)
            };
            let chunk = chunk.with_losses(Loss::from_bytes(head.losses).map_err(Ended::Worker)?);
            let taken = self.link.update(|s| s.window.chunk(fetch, head.index, chunk, bytes));
            if !taken.map_err(Ended::Worker)? {
                return Err(Ended::Unwanted);
            }
        }
    }

    /// The front split is never held up, so that what waits behind it always gets its turn.
    async fn wait_for_room(&self, fetch: &Fetch) -> Result<(), Ended> {
        loop {
            let room = self.link.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            {
                let state = self.link.lock();
                if fetch.place < state.window.front() {
                    return Err(Ended::Unwanted);
                }
                if state.window.has_room(fetch.place, BUFFER_BYTES_MAX) {
                    return Ok(());
                }
            }
            room.await;
        }
    }

    fn borrow(
        &self,
        rest: FlightData,
        lent: &Lent,
        borrowing: Option<&mut Borrowing>,
        wire: &SchemaRef,
    ) -> Result<(Chunk, usize)> {
        let borrowing = borrowing.ok_or_else(|| Error::data("a worker lent to a reader that did not ask"))?;
        let columns = borrowing.take(lent)?;
        let chunk = decode::lent_chunk(rest, columns, wire, &self.schema)?;
        let bytes = chunk.num_bytes();
        Ok((chunk, bytes))
    }

    async fn decode(&self, parts: Vec<FlightData>, wire: &SchemaRef, bytes: usize) -> Result<Chunk> {
        if bytes < DECODE_INLINE_MAX {
            return decode::chunk(parts, wire, &self.schema);
        }
        let (wire, schema) = (wire.clone(), self.schema.clone());
        let decoded = tokio::task::spawn_blocking(move || decode::chunk(parts, &wire, &schema)).await;
        decoded.unwrap_or_else(|e| Err(Error::internal(format!("decoding a chunk failed: {e}"))))
    }
}

/// An error that came with its details was written by the worker: it is the split's own, unless it says that the lease
/// is gone (context `ticket`), or that something did not answer there. Anything else is the connection's.
fn classify(status: &Status, address: &str) -> Ended {
    let error = to_error(status, address);
    let of_worker = status.details().is_empty()
        || error.get("ticket").is_some()
        || matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Closed);
    if of_worker { Ended::Worker(error) } else { Ended::Split(error) }
}
