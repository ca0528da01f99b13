//! A reader's place in a split: the chunks from the one that was asked for on, waiting for those that are computed.
//!
//! Invariant: what a reader is told last is the split's end, or its own error, or that the lease is gone; in that order
//! after every chunk before.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_proto::Ticket;
use tokio_util::sync::CancellationToken;

use crate::cursor::{Cursor, Step, not_held};
use crate::held::Made;
use crate::jobs::Prepared;
use crate::shelf::Shelf;

/// One stream of a split's chunks.
pub(crate) struct Reading {
    cursor: Cursor,
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
        Ok(Self { cursor: Cursor::new(shelf.clone(), split, job, ticket), stop: stop.clone() })
    }

    /// Returns the next chunk and its index; `None` at the end. With `take`, the chunk's memory is the reader's.
    ///
    /// # Errors
    /// As [`Reading::open`]; the split's own.
    ///
    /// # Cancel safety
    /// Safe, but for a chunk that was taken: it is computed again when somebody asks.
    pub(crate) async fn next(&mut self, take: bool) -> Result<Option<(u64, Made)>> {
        loop {
            let seen = tokio::select! {
                () = self.stop.cancelled() => return Err(stopping()),
                seen = self.cursor.seen(take) => seen,
            };
            match self.cursor.after(seen)? {
                Step::Chunk(index, made) => return Ok(Some((index, made))),
                Step::End => return Ok(None),
                Step::Wait => {}
            }
        }
    }

    /// Returns the job.
    pub(crate) fn job(&self) -> &Arc<Prepared> {
        &self.cursor.job
    }
}

pub(crate) fn stopping() -> Error {
    Error::unavailable("this worker stops")
}
