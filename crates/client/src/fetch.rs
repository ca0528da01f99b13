//! Fetches one split from one worker, chunk by chunk, into the window.
//!
//! A stream that breaks is taken up once more at the chunk where it broke; a worker that is gone, or that holds the
//! split no more, is reported, and whoever gets the split next continues at that chunk. Only an error that the split
//! itself ended in is kept, to be raised when its turn comes.

use std::sync::Arc;

use arrow_flight::{FlightData, Ticket as FlightTicket};
use arrow_schema::SchemaRef;
use forebay_core::{ConsumerIndex, Error, ErrorKind, Result};
use forebay_data::{Chunk, Schema};
use forebay_proto::{ChunkHead, Lent, READER_HEADER, Ticket, Unreachable, to_error};
use tonic::{Request, Status};

use crate::borrower::{Borrower, Borrowing};
use crate::decode;
use crate::link::{Link, State};
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
        let mut trial = Trial::new(fetch);
        loop {
            let ended = self.stream(&trial.fetch).await;
            if matches!(ended, Err(Ended::Worker(_))) {
                self.workers.forget(&trial.fetch.address);
            }
            match self.link.update(|s| trial.after(s, ended)) {
                After::Again => {}
                After::Stop => return,
                After::Complain => return self.link.to_say.notify_one(),
            }
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
            let taken = self.link.update(|s| s.window.chunk(fetch, head.index, chunk, bytes));
            if !taken.map_err(Ended::Worker)? {
                return Err(Ended::Unwanted);
            }
        }
    }

    async fn wait_for_room(&self, fetch: &Fetch) -> Result<(), Ended> {
        loop {
            let room = self.link.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            match self.link.lock().room_for(fetch) {
                None => return Err(Ended::Unwanted),
                Some(true) => return Ok(()),
                Some(false) => {}
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
pub(crate) fn classify(status: &Status, address: &str) -> Ended {
    let error = to_error(status, address);
    let of_worker = status.details().is_empty()
        || error.get("ticket").is_some()
        || matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Closed);
    if of_worker { Ended::Worker(error) } else { Ended::Split(error) }
}
