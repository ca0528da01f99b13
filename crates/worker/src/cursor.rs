//! Where one reader is in its split, and what follows from what it finds there.

use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::Ticket;

use crate::engine::{Engine, Threads};
use crate::held::{Held, Made, Seen};
use crate::shelf::Shelf;

/// One reader's place.
pub(crate) struct Cursor<E: Engine = Threads> {
    shelf: Arc<Shelf<E>>,
    split: Arc<Held>,
    pub(crate) job: Arc<E::Prepared>,
    token: u64,
    next: u64,
}

/// What a reader is to be sent.
pub(crate) enum Step {
    /// A chunk, and its index.
    Chunk(u64, Made),
    /// Nothing more: the split is complete.
    End,
    /// Nothing yet: look again when the split changes.
    Wait,
}

impl<E: Engine> Cursor<E> {
    pub(crate) fn new(shelf: Arc<Shelf<E>>, split: Arc<Held>, job: Arc<E::Prepared>, ticket: &Ticket) -> Self {
        Self { shelf, split, job, token: ticket.token, next: ticket.from_chunk }
    }

    /// Waits for what comes next; with `take`, the chunk is given away.
    ///
    /// # Cancel safety
    /// Safe: what is found is returned without waiting again.
    pub(crate) async fn seen(&self, take: bool) -> Seen {
        self.split.at(self.token, self.next, take).await
    }

    /// As [`Cursor::seen`], without waiting.
    pub(crate) fn look(&self, take: bool) -> Seen {
        self.split.look(self.token, self.next, take)
    }

    /// Moves on by what was found.
    ///
    /// # Errors
    /// What the split failed with; NotFound when the lease is gone; Invalid when the split has fewer chunks.
    pub(crate) fn after(&mut self, seen: Seen) -> Result<Step> {
        let next = self.next;
        match seen {
            Seen::Chunk(made) => {
                self.next += 1;
                Ok(Step::Chunk(next, made))
            }
            Seen::Dropped => {
                self.shelf.recompute(&self.split, self.job.clone(), next);
                Ok(Step::Wait)
            }
            Seen::NotYet => Ok(Step::Wait),
            Seen::End => Ok(Step::End),
            Seen::Failed(error) => Err(error),
            Seen::Gone => Err(not_held()),
            Seen::Beyond(total) => {
                Err(Error::invalid(format!("chunk {next} of a split of {total} chunks was asked for")))
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
