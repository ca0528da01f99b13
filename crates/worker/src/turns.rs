//! Whose turn it is: the splits of one reader in their order, readers in turn by the time that was spent on them.
//!
//! Start-time fair queueing (Goyal, Vin and Cheng, 1996): every reader has the time that was spent on it; the one with the
//! least is next, and one that comes anew begins where the others are, so that it neither waits for what they have queued
//! nor makes up for time when it asked for nothing. Time counts the less the more a reader's job weighs. What a piece of work takes is charged when it begins, as much as the
//! last one took, and put right when it ends. Bounds: a line lives only while it has entries.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A job and its consumer.
pub(crate) type Line = (u64, u32);

/// What is charged for the first piece of a line.
const FIRST: Duration = Duration::from_millis(1);

struct Waiting<T> {
    entries: VecDeque<T>,
    /// What its job weighs.
    weight: u32,
    /// The time that was spent on it, for its weight.
    spent: Duration,
    /// What the last piece took.
    last: Duration,
}

/// A piece of work that was begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    line: Line,
    charged: Duration,
}

/// Lines of entries.
pub(crate) struct Turns<T> {
    lines: BTreeMap<Line, Waiting<T>>,
    /// What was spent on the line that was served last, when it was served.
    now: Duration,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), now: Duration::ZERO }
    }
}

impl<T> Turns<T> {
    /// Adds an entry at the end of its line, whose job weighs `weight`; with `first`, at its front.
    pub(crate) fn push(&mut self, line: Line, weight: u32, entry: T, first: bool) {
        let new = || Waiting { entries: VecDeque::new(), weight: weight.max(1), spent: self.now, last: FIRST };
        let entries = &mut self.lines.entry(line).or_insert_with(new).entries;
        if first { entries.push_front(entry) } else { entries.push_back(entry) }
    }

    /// Begins a piece of work of the line whose turn it is. `take` finds it in the line's entries; where it finds none, the
    /// line has ended.
    pub(crate) fn next<R>(&mut self, mut take: impl FnMut(&mut VecDeque<T>) -> Option<R>) -> Option<(R, Turn)> {
        loop {
            let (&line, _) = self.lines.iter().min_by_key(|(line, waiting)| (waiting.spent, **line))?;
            let waiting = self.lines.get_mut(&line)?;
            if let Some(piece) = take(&mut waiting.entries) {
                self.now = waiting.spent;
                waiting.spent += waiting.last / waiting.weight;
                return Some((piece, Turn { line, charged: waiting.last }));
            }
            self.lines.remove(&line);
        }
    }

    /// The piece has ended.
    pub(crate) fn end(&mut self, turn: Turn, took: Duration) {
        if let Some(waiting) = self.lines.get_mut(&turn.line) {
            waiting.spent = (waiting.spent + took / waiting.weight).saturating_sub(turn.charged / waiting.weight);
            waiting.last = took;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Serves `n` pieces, each of which takes what its entry says; returns the lines in the order of their turns.
    fn serve(turns: &mut Turns<u32>, n: usize) -> Vec<u64> {
        let mut order = Vec::new();
        for _ in 0..n {
            let Some((cost, turn)) = turns.next(VecDeque::pop_front) else { break };
            order.push(turn.line.0);
            turns.end(turn, MS * cost);
        }
        order
    }

    #[test]
    fn a_reader_that_comes_later_does_not_wait_for_what_others_have_queued() {
        let mut turns = Turns::default();
        (0..100).for_each(|_| turns.push((1, 0), 1, 10, false));
        assert_eq!(serve(&mut turns, 5), [1; 5]);
        (0..3).for_each(|_| turns.push((2, 0), 1, 10, false));
        let order = serve(&mut turns, 6);
        assert_eq!(order.iter().filter(|&&line| line == 2).count(), 3, "{order:?}");
        assert!(order[..2].contains(&2), "{order:?}");
    }

    #[test]
    fn time_is_shared_not_pieces_and_entries_of_a_line_keep_their_order() {
        let mut turns = Turns::default();
        (0..40).for_each(|_| turns.push((1, 0), 1, 30, false));
        (0..400).for_each(|_| turns.push((2, 0), 1, 3, false));
        let order = serve(&mut turns, 110);
        let [slow, fast] = [1, 2].map(|line| order.iter().filter(|&&l| l == line).count());
        assert!((8..=12).contains(&slow) && slow + fast == 110, "{slow} {fast}");
        // With three times the weight, it has three times the time.
        let mut turns = Turns::default();
        (0..400).for_each(|_| turns.push((1, 0), 3, 10, false));
        (0..400).for_each(|_| turns.push((2, 0), 1, 10, false));
        let order = serve(&mut turns, 100);
        let heavy = order.iter().filter(|&&l| l == 1).count();
        assert!((74..=76).contains(&heavy), "{heavy}");
        let mut turns = Turns::default();
        [3, 4].into_iter().for_each(|entry| turns.push((1, 0), 1, entry, false));
        turns.push((1, 0), 1, 2, true);
        let taken: Vec<u32> = std::iter::from_fn(|| turns.next(VecDeque::pop_front).map(|(e, _)| e)).collect();
        assert_eq!(taken, [2, 3, 4]);
        assert!(turns.lines.is_empty());
    }
}
