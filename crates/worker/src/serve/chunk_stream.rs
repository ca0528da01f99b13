//! The chunks of a split in order, from a given index on; it waits for chunks that are not computed yet.
//!
//! Invariant: after all chunks before it, a stream ends with the end of the split, with the split's error, or with the
//! end of the lease.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_proto::Ticket;
use tokio_util::sync::CancellationToken;

use crate::splits::chunk::ProducedChunk;
use crate::splits::cursor::{Cursor, NextAction, not_held};
use crate::splits::jobs::Prepared;
use crate::splits::lease_table::LeaseTable;

/// The stream of one consumer.
pub(crate) struct ChunkStream {
    cursor: Cursor,
    stop: CancellationToken,
}

impl ChunkStream {
    /// Finds the split of a ticket, and waits until its job is prepared. `stop` ends the stream, so that consumers use
    /// other workers at once.
    ///
    /// # Errors
    /// NotFound with the context `ticket` when this worker does not hold the lease; Unavailable when the worker stops;
    /// the error of preparing the job.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn open(lease_table: &Arc<LeaseTable>, stop: &CancellationToken, ticket: &Ticket) -> Result<Self> {
        let open = async {
            let (split, job) = lease_table.find(ticket).await.ok_or_else(not_held)?;
            Ok::<_, Error>((split, job.prepared().await?))
        };
        let (split, job) = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(stopping()),
            found = open => found?,
        };
        Ok(Self { cursor: Cursor::new(lease_table.clone(), split, job, ticket), stop: stop.clone() })
    }

    /// Returns the next chunk and its index; `None` at the end. With `take`, the chunk's memory becomes the consumer's.
    ///
    /// # Errors
    /// As [`ChunkStream::open`]; the split's own.
    ///
    /// # Cancel safety
    /// Safe. A chunk that was taken and lost is computed again when it is requested.
    pub(crate) async fn next(&mut self, take: bool) -> Result<Option<(u64, ProducedChunk)>> {
        loop {
            let outcome = tokio::select! {
                () = self.stop.cancelled() => return Err(stopping()),
                outcome = self.cursor.read(take) => outcome,
            };
            match self.cursor.advance(outcome)? {
                NextAction::Send(index, produced) => return Ok(Some((index, produced))),
                NextAction::End => return Ok(None),
                NextAction::Wait => {}
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
