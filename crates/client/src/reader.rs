//! One consumer's place in its job: what it needs next, what it has consumed. No I/O, no clock, no waiting.
//!
//! `stream` drives it for the user's thread, the simulation for its own. A split is acknowledged once its rows were
//! handed out and the user came back for more; or, when nothing can be handed out before more comes, once all of it is
//! in this process (a batch may need rows of more splits than the window has). Nobody is asked where an epoch ends.

use std::collections::BTreeSet;

use forebay_core::Result;
use forebay_exec::{Delivery, Merge, Position, SkippedSample};
use forebay_plan::{Count, Ending, Floor};

use crate::ahead::{Ahead, Step};
use crate::window::{Front, Place};

/// What comes next.
pub(crate) enum Next {
    /// The user gets this.
    Delivery(Box<Delivery>),
    /// The front split must give something ([`Reader::take`]).
    Front,
    /// All readers must be known to have more; where this one is starved, it must have more itself.
    Others { is_starved: bool },
    /// An epoch is over, and named where its rest is not needed; the front is at `at` now.
    Epoch { ended: Option<u64>, at: Place },
    /// The last epoch is over.
    Over,
}

pub(crate) struct Reader {
    merge: Merge,
    /// Where all readers of the job end epochs together: what this one has ready.
    ahead: Option<Ahead>,
    /// Splits of an epoch; `None` is without end.
    splits: Option<u64>,
    /// The epoch to end before; `None` is never.
    end_epoch: Option<u64>,
    /// The first split that was not merged as a whole.
    at: Place,
    /// Splits behind it that were, where they come in any order.
    ended: BTreeSet<u64>,
    /// The last split that was merged as a whole, and how many chunks it had: a position after all of them is past it.
    merged: Option<(Place, u64)>,
    /// What was acknowledged.
    acked: Place,
    /// Where the user is once it comes back.
    delivered: Option<Position>,
}

impl Reader {
    /// Starts at `from`, where `merge` was made.
    pub(crate) fn new(merge: Merge, from: &Position, splits: Option<u64>, end_epoch: Option<u64>) -> Self {
        let at = Place { epoch: from.epoch, ordinal: from.split };
        let (merged, acked, delivered) = (None, at, None);
        Self { merge, ahead: None, splits, end_epoch, at, ended: BTreeSet::new(), merged, acked, delivered }
    }

    /// So many readers end epochs together.
    pub(crate) fn ending(mut self, ending: Ending, consumers: u32, from: &Position) -> Self {
        if ending != Ending::Apart {
            self.merge.keep_given();
            self.ahead = Some(Ahead::new(ending, consumers, from));
        }
        self
    }

    /// Where epochs end together, finds out whether this one has no more for this reader: before it says how far it is.
    pub(crate) fn find_end(&mut self) {
        let is_at_end = self.is_at_end() && !self.is_over();
        let Some(ahead) = self.ahead.as_mut().filter(|ahead| is_at_end && !ahead.is_done()) else { return };
        match self.merge.end_epoch() {
            Ok(()) => ahead.end(),
            Err(error) => ahead.fail(error),
        }
        std::iter::from_fn(|| self.merge.pop()).for_each(|delivery| ahead.push(delivery));
    }

    /// Returns how far it is in an epoch that all end together: the epoch, what it has merged, and what it gave out.
    pub(crate) fn progress(&self) -> Option<(u64, Count, u64)> {
        let ahead = self.ahead.as_ref().filter(|_| !self.is_over())?;
        Some((self.at.epoch, ahead.count(), ahead.given()))
    }

    /// Returns where it is, if it ends epochs together with others.
    pub(crate) fn epoch_of_all(&self) -> Option<u64> {
        self.ahead.as_ref().map(|_| self.at.epoch)
    }

    /// Says whether the front split is to give more before anything else is done.
    pub(crate) fn has_room(&self) -> bool {
        self.ahead.as_ref().is_some_and(Ahead::has_room) && !self.is_at_end() && !self.is_over()
    }

    fn is_at_end(&self) -> bool {
        self.merge.is_satisfied() || self.splits == Some(self.at.ordinal)
    }

    fn is_over(&self) -> bool {
        self.end_epoch.is_some_and(|end| self.at.epoch >= end)
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

    /// Says what comes next; where epochs end together, with what all readers are known to have of this one.
    ///
    /// # Errors
    /// Whatever an op of the tail gives; what ends an epoch with an error.
    pub(crate) fn next(&mut self, floor: Floor) -> Result<Next> {
        if self.ahead.is_some() {
            return self.next_of_all(floor);
        }
        if let Some(delivery) = self.merge.pop() {
            self.delivered = Some(delivery.position_after(delivery.chunk.num_rows()));
            return Ok(Next::Delivery(Box::new(delivery)));
        }
        if self.splits == Some(0) {
            // Every epoch is empty, however many there are.
            self.at = Place { epoch: self.end_epoch.unwrap_or(self.at.epoch), ordinal: 0 };
            return Ok(Next::Over);
        }
        if self.is_over() {
            return Ok(Next::Over);
        }
        // A `take` has its rows: nothing more of this epoch is needed.
        let ended = self.merge.is_satisfied().then_some(self.at.epoch);
        if ended.is_none() && self.splits != Some(self.at.ordinal) {
            return Ok(Next::Front);
        }
        self.begin_epoch();
        self.merge.end_epoch()?;
        Ok(Next::Epoch { ended, at: self.at })
    }

    fn next_of_all(&mut self, floor: Floor) -> Result<Next> {
        if self.is_over() {
            return Ok(Next::Over);
        }
        let Some(ahead) = &mut self.ahead else { return Ok(Next::Over) };
        match ahead.next(floor)? {
            Step::Give(delivery, end) => {
                self.delivered = Some(*end);
                Ok(Next::Delivery(delivery))
            }
            Step::Wait { is_starved } => Ok(Next::Others { is_starved }),
            Step::End => {
                let ended = (self.splits != Some(self.at.ordinal)).then_some(self.at.epoch);
                if !ahead.count().ended {
                    self.merge.leave_epoch();
                }
                ahead.begin();
                self.begin_epoch();
                Ok(Next::Epoch { ended, at: self.at })
            }
        }
    }

    fn begin_epoch(&mut self) {
        self.at = Place { epoch: self.at.epoch + 1, ordinal: 0 };
        self.ended.clear();
    }

    /// Merges what comes next.
    ///
    /// # Errors
    /// What the split failed with, or whatever an op of the tail gives.
    pub(crate) fn take(&mut self, front: Front) -> Result<()> {
        let merged = self.merge_front(front);
        let Some(ahead) = &mut self.ahead else { return merged };
        // What was merged before comes first.
        std::iter::from_fn(|| self.merge.pop()).for_each(|delivery| ahead.push(delivery));
        merged.unwrap_or_else(|error| ahead.fail(error));
        Ok(())
    }

    fn merge_front(&mut self, front: Front) -> Result<()> {
        match front {
            Front::Chunk(ordinal, index, chunk) if self.merge.wants(ordinal, index) => {
                self.merge.push(ordinal, index, chunk)
            }
            // A state that was saved out of order says that it was delivered.
            Front::Chunk(..) => Ok(()),
            Front::End(ordinal, chunks) => {
                self.merge.end_split(ordinal, chunks);
                self.merged = Some((Place { ordinal, ..self.at }, chunks));
                self.ended.insert(ordinal);
                while self.ended.remove(&self.at.ordinal) {
                    self.at.ordinal += 1;
                }
                Ok(())
            }
            Front::Failed(error) => Err(error),
            Front::Empty => Ok(()),
        }
    }

    /// Returns the samples that were left out of what was merged since this was last asked for.
    pub(crate) fn take_losses(&mut self) -> Vec<SkippedSample> {
        self.merge.take_skipped()
    }

    /// Returns the first split that a position still needs, or that has not ended: a worker lets go of what is acknowledged, and would not say
    /// any more that the split is complete.
    fn consumed(&self, position: &Position) -> Place {
        let place = Place { epoch: position.epoch, ordinal: position.split }.min(self.at);
        match self.merged {
            Some((merged, chunks)) if merged == place && position.chunk >= chunks => {
                Place { ordinal: place.ordinal + 1, ..place }
            }
            _ => place,
        }
    }

    fn acknowledge(&mut self, place: Place) -> Option<Place> {
        // Before all have ended an epoch, this reader may have to begin anew in it.
        let is_end = place.epoch > self.at.epoch || self.splits.is_some_and(|splits| place.ordinal >= splits);
        if self.ahead.is_some() && is_end {
            return None;
        }
        (place > self.acked).then(|| {
            self.acked = place;
            place
        })
    }
}
