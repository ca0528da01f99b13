//! A reader's place in a split: the chunks from the one that was asked for on, waiting for those that are computed.
//!
//! Invariant: what a reader is told last is the split's end, or its own error, or that the lease is gone; in that order
//! after every chunk before.

use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result};
use forebay_data::Chunk;
use forebay_proto::Ticket;
use tokio_util::sync::CancellationToken;

use crate::held::{Held, Seen};
use crate::jobs::Prepared;
use crate::shelf::Shelf;

/// Where one stream is in its split.
pub(crate) struct Reading {
    pub(crate) job: Arc<Prepared>,
    shelf: Arc<Shelf>,
    split: Arc<Held>,
    token: u64,
    next: u64,
    stop: CancellationToken,
}

impl Reading {
    /// Finds the split that a ticket names, and waits until its job is ready. `stop` ends the stream, so that consumers
    /// go elsewhere at once.
    ///
    /// # Errors
    /// NotFound with the context `ticket` when this worker does not hold it; Unavailable when the worker stops;
    /// whatever preparing the job gave.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn open(shelf: &Arc<Shelf>, stop: &CancellationToken, ticket: &Ticket) -> Result<Self> {
        let open = async {
            let (split, job) = shelf.find(ticket).await.ok_or_else(not_held)?;
            Ok::<_, Error>((split, job.prepared().await?))
        };
        let (split, job) = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(stopping()),
            found = open => found?,
        };
        let (shelf, stop) = (shelf.clone(), stop.clone());
        Ok(Self { job, shelf, split, token: ticket.token, next: ticket.from_chunk, stop })
    }

    /// Returns the next chunk and its index; `None` at the end. With `take`, the chunk's memory is the reader's.
    ///
    /// # Errors
    /// As [`Reading::open`]; the split's own.
    ///
    /// # Cancel safety
    /// Safe, but for a chunk that was taken: it is computed again when somebody asks.
    pub(crate) async fn next(&mut self, take: bool) -> Result<Option<(u64, Chunk)>> {
        loop {
            let seen = tokio::select! {
                () = self.stop.cancelled() => return Err(stopping()),
                seen = self.split.at(self.token, self.next, take) => seen,
            };
            match seen {
                Seen::Chunk(chunk) => {
                    self.next += 1;
                    return Ok(Some((self.next - 1, chunk)));
                }
                Seen::Dropped => self.shelf.recompute(&self.split, self.job.clone(), self.next),
                Seen::Failed(error) => return Err(error),
                Seen::End => return Ok(None),
                Seen::Gone => return Err(not_held()),
                Seen::Beyond(total) => {
                    let next = self.next;
                    return Err(Error::invalid(format!("chunk {next} of a split of {total} chunks was asked for")));
                }
                Seen::NotYet => {}
            }
        }
    }
}

/// The context `ticket` tells a consumer that the lease is gone, and not that the split failed with NotFound.
pub(crate) fn not_held() -> Error {
    Error::new(ErrorKind::NotFound, "this worker does not hold that split under that token")
        .with("ticket", "refused")
        .hint("the lease has ended or was given to another worker; ask the dispatcher")
}

pub(crate) fn stopping() -> Error {
    Error::unavailable("this worker stops")
}
