//! The position of one consumer in its split, and the action that follows from the split's state there. No I/O.

use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::Ticket;

use crate::compute::engine::{Engine, PoolEngine};
use crate::splits::chunk::ProducedChunk;
use crate::splits::lease_table::LeaseTable;
use crate::splits::split_buffer::{ReadOutcome, SplitBuffer};

/// The position of one consumer.
pub(crate) struct Cursor<E: Engine = PoolEngine> {
    lease_table: Arc<LeaseTable<E>>,
    split: Arc<SplitBuffer>,
    pub(crate) job: Arc<E::Prepared>,
    token: u64,
    next: u64,
}

/// The next action for the consumer.
pub(crate) enum NextAction {
    /// Send this chunk, which has this index.
    Send(u64, ProducedChunk),
    /// Nothing more: the split is complete.
    End,
    /// Wait until the split changes, then read again.
    Wait,
}

impl<E: Engine> Cursor<E> {
    pub(crate) fn new(
        lease_table: Arc<LeaseTable<E>>,
        split: Arc<SplitBuffer>,
        job: Arc<E::Prepared>,
        ticket: &Ticket,
    ) -> Self {
        Self { lease_table, split, job, token: ticket.token, next: ticket.from_chunk }
    }

    /// Waits for the next chunk; with `take`, the consumer gets its memory.
    ///
    /// # Cancel safety
    /// Safe: a result is returned as soon as it is found.
    pub(crate) async fn read(&self, take: bool) -> ReadOutcome {
        self.split.read(self.token, self.next, take).await
    }

    /// As [`Cursor::read`], without waiting.
    pub(crate) fn try_read(&self, take: bool) -> ReadOutcome {
        self.split.try_read(self.token, self.next, take)
    }

    /// Advances by the result of a read.
    ///
    /// # Errors
    /// The split's own error; NotFound when this worker does not hold the lease any more; Invalid when the split has
    /// fewer chunks.
    pub(crate) fn advance(&mut self, outcome: ReadOutcome) -> Result<NextAction> {
        let next = self.next;
        match outcome {
            ReadOutcome::Chunk(produced) => {
                self.next += 1;
                Ok(NextAction::Send(next, produced))
            }
            ReadOutcome::Dropped => {
                self.lease_table.recompute(&self.split, self.job.clone(), next);
                Ok(NextAction::Wait)
            }
            ReadOutcome::NotYet => Ok(NextAction::Wait),
            ReadOutcome::End => Ok(NextAction::End),
            ReadOutcome::Failed(error) => Err(error),
            ReadOutcome::NotHeld => Err(not_held()),
            ReadOutcome::Beyond(total) => {
                Err(Error::invalid(format!("chunk {next} of a split of {total} chunks was asked for")))
            }
        }
    }
}

/// The context `ticket` distinguishes an ended lease from a split that failed with NotFound.
pub(crate) fn not_held() -> Error {
    Error::new(ErrorKind::NotFound, "this worker does not hold that split under that token")
        .with("ticket", "refused")
        .hint("the lease has ended or was given to another worker; ask the dispatcher")
}
