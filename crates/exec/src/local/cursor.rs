//! The morsels of a consumer's epochs, in order.

use std::collections::VecDeque;

use forebay_core::{ConsumerIndex, Ordinal};
use forebay_plan::Morsel;

use crate::executable::Executable;
use crate::tail::position::Position;

/// One morsel to compute.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    pub(super) epoch: u64,
    pub(super) split: u64,
    /// The index in its split of the first chunk that it yields.
    pub(super) chunk: u64,
    pub(super) morsel: Morsel,
}

impl Task {
    /// Returns the first chunk to compute of a source block, whose chunks before it were delivered.
    pub(super) fn first_of_block(&self) -> u64 {
        if let Morsel::Block { .. } = self.morsel { self.chunk } else { 0 }
    }
}

/// Walks the tasks of all epochs in order, without the tasks whose chunks a saved position counts as delivered.
pub(super) struct Cursor {
    epoch: u64,
    split: u64,
    morsels: VecDeque<(u64, Morsel)>,
    end_epoch: Option<u64>,
    from: Position,
}

impl Cursor {
    pub(super) fn new(from: Position, end_epoch: Option<u64>) -> Self {
        Self { epoch: from.epoch, split: from.split, morsels: VecDeque::new(), end_epoch, from }
    }

    pub(super) fn is_past_end(&self, epoch: u64) -> bool {
        self.end_epoch.is_some_and(|end| epoch >= end)
    }

    /// Says whether no task is left.
    pub(super) fn has_ended(&self, executable: &Executable, consumer: ConsumerIndex) -> bool {
        let empty = executable.plan().num_splits(consumer) == Some(0);
        self.morsels.is_empty() && (self.is_past_end(self.epoch) || empty)
    }

    /// Skips the rest of an epoch.
    pub(super) fn abandon(&mut self, epoch: u64) {
        if self.epoch <= epoch {
            (self.epoch, self.split) = (epoch + 1, 0);
            self.morsels.clear();
        }
    }

    /// Returns the next task; `None` when there is none.
    pub(super) fn next(&mut self, executable: &Executable, consumer: ConsumerIndex) -> Option<Task> {
        let mut empty_epochs = 0;
        while self.morsels.is_empty() {
            if self.is_past_end(self.epoch) || empty_epochs > 1 {
                return None;
            }
            let splits = executable.plan().num_splits(consumer);
            if splits.is_some_and(|n| self.split >= n) {
                empty_epochs += 1;
                (self.epoch, self.split) = (self.epoch + 1, 0);
            } else {
                self.fill(executable, consumer);
            }
        }
        let (chunk, morsel) = self.morsels.pop_front()?;
        Some(Task { epoch: self.epoch, split: self.split - 1, chunk, morsel })
    }

    fn fill(&mut self, executable: &Executable, consumer: ConsumerIndex) {
        let split = self.split;
        let morsels = executable.plan().morsels(consumer, Ordinal(split));
        self.split += 1;
        let is_resumed = self.epoch == self.from.epoch;
        let missing = |(chunk, morsel)| match morsel {
            _ if !is_resumed => Some((chunk, morsel)),
            Morsel::Units { .. } => (!self.from.has_passed(split, chunk)).then_some((chunk, morsel)),
            // The number of its chunks is known only after it was read.
            Morsel::Block { .. } if self.from.has_passed_all_of(split) => None,
            // A split has one block, whose chunks before this one were delivered.
            Morsel::Block { .. } => Some((self.from.first_missing(split), morsel)),
        };
        self.morsels = (0..).zip(morsels).filter_map(missing).collect();
    }
}
