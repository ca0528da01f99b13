//! One consumer's place in its job: what it needs next, what it has consumed. No I/O, no clock, no waiting.
//!
//! `stream` drives it for the user's thread, the simulation for its own. A split is acknowledged once its rows were
//! handed out and the user came back for more; or, when nothing can be handed out before more comes, once all of it is
//! in this process (a batch may need rows of more splits than the window has). Nobody is asked where an epoch ends.

use forebay_core::Result;
use forebay_exec::{Delivery, Lost, Merge, Position};

use crate::window::{Front, Place};

/// What comes next.
pub(crate) enum Next {
    /// The user gets this.
    Delivery(Box<Delivery>),
    /// The front split must give something ([`Reader::take`]).
    Front,
    /// An epoch is over, and named where its rest is not needed; the front is at `at` now.
    Epoch { ended: Option<u64>, at: Place },
    /// The last epoch is over.
    Over,
}

pub(crate) struct Reader {
    merge: Merge,
    /// Splits of an epoch; `None` is without end.
    splits: Option<u64>,
    /// The epoch to end before; `None` is never.
    end_epoch: Option<u64>,
    /// The split whose chunks are being merged.
    at: Place,
    /// The last split that was merged as a whole, and how many chunks it had: a position after all of them is past it.
    merged: Option<(Place, u64)>,
    /// Chunks of the split at `at` that were merged.
    chunks: u64,
    /// What was acknowledged.
    acked: Place,
    /// Where the user is once it comes back.
    delivered: Option<Position>,
}

impl Reader {
    /// Starts at `from`, where `merge` was made.
    pub(crate) fn new(merge: Merge, from: &Position, splits: Option<u64>, end_epoch: Option<u64>) -> Self {
        let at = Place { epoch: from.epoch, ordinal: from.split };
        let (merged, chunks, acked, delivered) = (None, from.chunk, at, None);
        Self { merge, splits, end_epoch, at, merged, chunks, acked, delivered }
    }

    pub(crate) fn at(&self) -> Place {
        self.at
    }

    /// The user came back: returns what is to be acknowledged now.
    pub(crate) fn returned(&mut self) -> Option<Place> {
        let position = self.delivered.take()?;
        self.acknowledge(self.consumed(&position))
    }

    /// Nothing can be handed out before more comes: returns what is to be acknowledged now.
    pub(crate) fn waits(&mut self) -> Option<Place> {
        // Every split before this one is in this process as a whole.
        self.acknowledge(self.at)
    }

    /// Everything was handed out: returns what is to be acknowledged, also where it was before; nothing else tells a dispatcher that
    /// the job is over.
    pub(crate) fn over(&mut self) -> Place {
        self.acked = self.at;
        self.at
    }

    /// Says what comes next.
    ///
    /// # Errors
    /// Whatever an op of the tail gives.
    pub(crate) fn next(&mut self) -> Result<Next> {
        if let Some(delivery) = self.merge.pop() {
            self.delivered = Some(delivery.position_after(delivery.chunk.num_rows()));
            return Ok(Next::Delivery(Box::new(delivery)));
        }
        if self.splits == Some(0) {
            // Every epoch is empty, however many there are.
            self.at = Place { epoch: self.end_epoch.unwrap_or(self.at.epoch), ordinal: 0 };
            return Ok(Next::Over);
        }
        if self.end_epoch.is_some_and(|end| self.at.epoch >= end) {
            return Ok(Next::Over);
        }
        // A `take` has its rows: nothing more of this epoch is needed.
        let ended = self.merge.is_satisfied().then_some(self.at.epoch);
        if ended.is_none() && self.splits != Some(self.at.ordinal) {
            return Ok(Next::Front);
        }
        (self.at, self.chunks) = (Place { epoch: self.at.epoch + 1, ordinal: 0 }, 0);
        self.merge.end_epoch()?;
        Ok(Next::Epoch { ended, at: self.at })
    }

    /// Merges what the front split has next.
    ///
    /// # Errors
    /// What the split failed with, or whatever an op of the tail gives.
    pub(crate) fn take(&mut self, front: Front) -> Result<()> {
        match front {
            Front::Chunk(index, chunk) => {
                self.chunks = index + 1;
                self.merge.push(self.at.ordinal, index, chunk)
            }
            Front::End => {
                self.merged = Some((self.at, self.chunks));
                (self.at.ordinal, self.chunks) = (self.at.ordinal + 1, 0);
                Ok(())
            }
            Front::Failed(error) => Err(error),
            Front::Empty => Ok(()),
        }
    }

    /// Returns the samples that were left out of what was merged since this was last asked for.
    pub(crate) fn take_losses(&mut self) -> Vec<Lost> {
        self.merge.take_losses()
    }

    /// Returns the first split that a position still needs.
    fn consumed(&self, position: &Position) -> Place {
        let place = Place { epoch: position.epoch, ordinal: position.split };
        match self.merged {
            Some((merged, chunks)) if merged == place && position.chunk >= chunks => {
                Place { ordinal: place.ordinal + 1, ..place }
            }
            _ => place,
        }
    }

    fn acknowledge(&mut self, place: Place) -> Option<Place> {
        (place > self.acked).then(|| {
            self.acked = place;
            place
        })
    }
}
