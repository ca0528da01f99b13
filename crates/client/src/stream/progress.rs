//! One consumer's progress in its job: its next delivery, and its acknowledgements. No I/O, no clock, no waiting.
//!
//! `service_stream` drives it on the user's thread, the simulation on its own. A split is acknowledged once its rows
//! were delivered and the user requested more. If no delivery is ready before more chunks arrive, all splits that are
//! merged are acknowledged: one batch may need rows of more splits than the window has. The end of an epoch follows
//! from the plan.

use std::collections::BTreeSet;

use forebay_core::Result;
use forebay_exec::{Delivery, Merge, Position, SkippedSample};
use forebay_plan::{Count, Ending, Floor};

use crate::stream::pending_steps::{NextStep, PendingSteps};
use crate::stream::reorder_buffer::{Head, SplitKey};

/// The next action of the stream.
pub(crate) enum Next {
    /// Deliver this to the user.
    Delivery(Box<Delivery>),
    /// Take the next item from the reorder buffer ([`ConsumerProgress::merge`]).
    Head,
    /// Wait until all consumers are known to have another step. A starved consumer has none itself, so it also needs
    /// the next item of the reorder buffer.
    WaitForOthers { is_starved: bool },
    /// Move to the next epoch, which begins at `at`. `ended` names the epoch before if its rest is not needed.
    EpochEnd { ended: Option<u64>, at: SplitKey },
    /// The last epoch is over.
    Finished,
}

pub(crate) struct ConsumerProgress {
    merge: Merge,
    /// The merged steps that were not delivered, if all consumers of the job end epochs together.
    pending: Option<PendingSteps>,
    /// Splits of an epoch; `None` if an epoch has no end.
    splits: Option<u64>,
    /// The stream ends before this epoch; `None` if it has no end.
    end_epoch: Option<u64>,
    /// The first split that is not merged entirely.
    at: SplitKey,
    /// Ordinals behind `at` of splits that are merged entirely, if splits come in any order.
    merged_behind: BTreeSet<u64>,
    /// The last split that was merged entirely, and its number of chunks: a position after these is past the split.
    last_merged: Option<(SplitKey, u64)>,
    /// All splits before this one are acknowledged.
    acked: SplitKey,
    /// The position after the last delivery, until the user requests more.
    delivered: Option<Position>,
}

impl ConsumerProgress {
    /// Starts at `from`, where `merge` was created.
    pub(crate) fn new(mut merge: Merge, from: &Position, splits: Option<u64>, end_epoch: Option<u64>) -> Self {
        if end_epoch.is_none() {
            merge.set_endless_epochs();
        }
        let at = SplitKey { epoch: from.epoch, ordinal: from.split };
        Self {
            merge,
            pending: None,
            splits,
            end_epoch,
            at,
            merged_behind: BTreeSet::new(),
            last_merged: None,
            acked: at,
            delivered: None,
        }
    }

    /// Sets how the consumers of the job end epochs together.
    pub(crate) fn with_ending(mut self, ending: Ending, consumers: u32, from: &Position) -> Self {
        if ending != Ending::Apart {
            self.merge.keep_given();
            self.pending = Some(PendingSteps::new(ending, consumers, from));
        }
        self
    }

    /// If epochs end together, ends the epoch's count if this consumer has no more splits in it. To be called before
    /// [`ConsumerProgress::step_counts`].
    pub(crate) fn find_end(&mut self) {
        let is_at_end = self.is_at_end() && !self.is_over();
        let Some(pending) = self.pending.as_mut().filter(|pending| is_at_end && !pending.is_done()) else { return };
        match self.merge.end_epoch() {
            Ok(()) => pending.end(),
            Err(error) => pending.fail(error),
        }
        std::iter::from_fn(|| self.merge.pop()).for_each(|delivery| pending.push(delivery));
    }

    /// Returns the epoch, the count of merged steps, and the number of delivered steps, if epochs end together.
    pub(crate) fn step_counts(&self) -> Option<(u64, Count, u64)> {
        let pending = self.pending.as_ref().filter(|_| !self.is_over())?;
        Some((self.at.epoch, pending.count(), pending.given()))
    }

    /// Returns the current epoch, if epochs end together.
    pub(crate) fn shared_epoch(&self) -> Option<u64> {
        self.pending.as_ref().map(|_| self.at.epoch)
    }

    /// Returns whether to merge the next item of the reorder buffer before anything else, if epochs end together.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.as_ref().is_some_and(PendingSteps::has_room) && !self.is_at_end() && !self.is_over()
    }

    fn is_at_end(&self) -> bool {
        self.merge.is_satisfied() || self.splits == Some(self.at.ordinal)
    }

    fn is_over(&self) -> bool {
        self.end_epoch.is_some_and(|end| self.at.epoch >= end)
    }

    pub(crate) fn at(&self) -> SplitKey {
        self.at
    }

    /// Notes that the user requests more, so it has consumed the last delivery. Returns the acknowledgement to send.
    pub(crate) fn consume(&mut self) -> Option<SplitKey> {
        let position = self.delivered.take()?;
        self.acknowledge(self.first_needed(&position))
    }

    /// Acknowledges all merged splits when no delivery is ready before more chunks arrive. Returns the acknowledgement
    /// to send.
    pub(crate) fn acknowledge_merged(&mut self) -> Option<SplitKey> {
        // Every split before this one is merged entirely.
        self.acknowledge(self.at)
    }

    /// Returns the last acknowledgement, even if it was sent before: only this message tells the dispatcher that the
    /// job is over.
    pub(crate) fn finish(&mut self) -> SplitKey {
        self.acked = self.at;
        self.at
    }

    /// Returns the next action of the stream. If epochs end together, `floor` is the number of steps of this epoch that
    /// all consumers are known to have.
    ///
    /// # Errors
    /// The errors of the tail's ops; Invalid if the epoch ends with an error (see [`PendingSteps::next`]).
    pub(crate) fn next(&mut self, floor: Floor) -> Result<Next> {
        if self.pending.is_some() {
            return self.next_pending(floor);
        }
        if let Some(delivery) = self.merge.pop() {
            self.delivered = Some(delivery.position_after(delivery.chunk.num_rows()));
            return Ok(Next::Delivery(Box::new(delivery)));
        }
        if self.splits == Some(0) {
            // Every epoch is empty, for any number of epochs.
            self.at = SplitKey { epoch: self.end_epoch.unwrap_or(self.at.epoch), ordinal: 0 };
            return Ok(Next::Finished);
        }
        if self.is_over() {
            return Ok(Next::Finished);
        }
        // A satisfied `take` needs no more splits of this epoch.
        let ended = self.merge.is_satisfied().then_some(self.at.epoch);
        if ended.is_none() && self.splits != Some(self.at.ordinal) {
            return Ok(Next::Head);
        }
        self.begin_epoch();
        self.merge.end_epoch()?;
        Ok(Next::EpochEnd { ended, at: self.at })
    }

    fn next_pending(&mut self, floor: Floor) -> Result<Next> {
        if self.is_over() {
            return Ok(Next::Finished);
        }
        let Some(pending) = &mut self.pending else { return Ok(Next::Finished) };
        match pending.next(floor)? {
            NextStep::Deliver(delivery, end) => {
                self.delivered = Some(*end);
                Ok(Next::Delivery(delivery))
            }
            NextStep::Wait { is_starved } => Ok(Next::WaitForOthers { is_starved }),
            NextStep::EpochEnd => {
                let ended = (self.splits != Some(self.at.ordinal)).then_some(self.at.epoch);
                if !pending.count().ended {
                    self.merge.leave_epoch();
                }
                pending.begin_epoch();
                self.begin_epoch();
                Ok(Next::EpochEnd { ended, at: self.at })
            }
        }
    }

    fn begin_epoch(&mut self) {
        self.at = SplitKey { epoch: self.at.epoch + 1, ordinal: 0 };
        self.merged_behind.clear();
    }

    /// Merges the next item of the reorder buffer.
    ///
    /// # Errors
    /// The error of a failed split; the errors of the tail's ops.
    pub(crate) fn merge(&mut self, head: Head) -> Result<()> {
        let merged = self.merge_head(head);
        let Some(pending) = &mut self.pending else { return merged };
        // The steps that were merged before the error come first.
        std::iter::from_fn(|| self.merge.pop()).for_each(|delivery| pending.push(delivery));
        merged.unwrap_or_else(|error| pending.fail(error));
        Ok(())
    }

    fn merge_head(&mut self, head: Head) -> Result<()> {
        match head {
            Head::Chunk { ordinal, index, chunk } if self.merge.wants(ordinal, index) => {
                self.merge.push(ordinal, index, chunk)
            }
            // According to a state that was saved out of order, this chunk was delivered.
            Head::Chunk { .. } => Ok(()),
            Head::SplitEnd { ordinal, chunks } => {
                self.merge.end_split(ordinal, chunks);
                self.last_merged = Some((SplitKey { ordinal, ..self.at }, chunks));
                self.merged_behind.insert(ordinal);
                while self.merged_behind.remove(&self.at.ordinal) {
                    self.at.ordinal += 1;
                }
                Ok(())
            }
            Head::Failed(error) => Err(error),
            Head::Empty => Ok(()),
        }
    }

    /// Returns the samples that were skipped in the merged chunks since the last call.
    pub(crate) fn take_losses(&mut self) -> Vec<SkippedSample> {
        self.merge.take_skipped()
    }

    /// Returns the first split that a position still needs, or that has not ended: a worker drops an acknowledged
    /// split, and could not report its end any more.
    fn first_needed(&self, position: &Position) -> SplitKey {
        let split = SplitKey { epoch: position.epoch, ordinal: position.split }.min(self.at);
        match self.last_merged {
            Some((merged, chunks)) if merged == split && position.chunk >= chunks => {
                SplitKey { ordinal: split.ordinal + 1, ..split }
            }
            _ => split,
        }
    }

    fn acknowledge(&mut self, split: SplitKey) -> Option<SplitKey> {
        // Until all consumers have ended an epoch, this one may have to restart within it.
        let is_end = split.epoch > self.at.epoch || self.splits.is_some_and(|splits| split.ordinal >= splits);
        if self.pending.is_some() && is_end {
            return None;
        }
        (split > self.acked).then(|| {
            self.acked = split;
            split
        })
    }
}
