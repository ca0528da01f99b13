//! `take` and `skip` of batches of `bucket_by_length`, because the plan does not know their numbers of rows.
//!
//! Invariant: a batch is chosen by its number in the epoch of its consumer. So a resumed stream chooses the same
//! batches if it knows the number of earlier batches ([`Position::batches`](crate::Position)).

use std::ops::Range;

/// The batches of an epoch that are delivered.
#[derive(Debug, Clone)]
pub(crate) struct ChosenBatches {
    /// The numbers of the batches to deliver.
    chosen: Range<u64>,
    /// The number of batches so far in this epoch.
    seen: u64,
}

impl ChosenBatches {
    /// Delivers all batches after the first `seen` ones of an epoch.
    pub(crate) fn new(seen: u64) -> Self {
        Self { chosen: 0..u64::MAX, seen }
    }

    /// Keeps the first `count` of the batches that were kept so far.
    pub(crate) fn take(&mut self, count: u64) {
        self.chosen.end = self.chosen.end.min(self.chosen.start.saturating_add(count));
    }

    /// Leaves out the first `count` of the batches that were kept so far.
    pub(crate) fn skip(&mut self, count: u64) {
        self.chosen.start = self.chosen.start.saturating_add(count).min(self.chosen.end);
    }

    /// Counts a batch, and says whether it is delivered.
    pub(crate) fn next(&mut self) -> bool {
        let number = self.seen;
        self.seen += 1;
        self.chosen.contains(&number)
    }

    /// Says whether no further batch of the epoch is delivered.
    pub(crate) fn is_full(&self) -> bool {
        self.seen >= self.chosen.end
    }

    /// Returns the number of batches so far; 0 if all batches are delivered, because the number then decides nothing.
    pub(crate) fn counted(&self) -> u64 {
        if self.chosen == (0..u64::MAX) { 0 } else { self.seen }
    }

    /// Begins an epoch.
    pub(crate) fn begin_epoch(&mut self) {
        self.seen = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_and_skips_choose_what_slices_of_a_list_choose() {
        let mut chosen = ChosenBatches::new(0);
        chosen.skip(1);
        chosen.take(5);
        chosen.skip(2);
        chosen.take(9);
        let kept: Vec<u64> = (0..10).filter(|_| chosen.next()).collect();
        let list: Vec<u64> = (0..10).collect();
        assert_eq!(kept, list[1..][..5][2..]);
        assert!(chosen.is_full() && chosen.counted() == 10);
    }
}
