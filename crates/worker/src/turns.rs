//! Whose turn it is: the splits of one reader in their order, readers in turn by the time that was spent on them.
//!
//! Start-time fair queueing (Goyal, Vin and Cheng, 1996): every reader has the time that was spent on it; the one with the
//! least is next, and one that comes anew begins where the others are, so that it neither waits for what they have queued
//! nor makes up for time when it asked for nothing. Time counts the less the more a reader's job weighs. What a piece of work takes is charged when it begins, as much as the
//! last one took, and put right when it ends. Readers of a job of a higher priority come before all of a lower one, from the next piece on:
//! what others have begun is ended. Bounds: a line lives only while it has entries.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A job and its consumer.
pub(crate) type Line = (u64, u32);

/// What is charged for the first piece of a line.
const FIRST: Duration = Duration::from_millis(1);

/// When a line is served beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum When {
    InTurn,
    /// After all that are served in turn.
    Last,
    /// Not now.
    Never,
}

/// What a job is beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Those of a higher one go first.
    pub(crate) priority: u32,
    /// Among those of one priority, how much it gets.
    pub(crate) weight: u32,
}

struct Waiting<T> {
    entries: VecDeque<T>,
    standing: Standing,
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

impl Turn {
    /// Returns whose it is.
    pub(crate) fn line(self) -> Line {
        self.line
    }
}

/// Lines of entries.
pub(crate) struct Turns<T> {
    lines: BTreeMap<Line, Waiting<T>>,
    /// What was spent on the line that was served last, when it was served: of each priority.
    now: BTreeMap<u32, Duration>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), now: BTreeMap::new() }
    }
}

impl<T> Turns<T> {
    /// Adds an entry at the end of its line; with `first`, at its front.
    pub(crate) fn push(&mut self, line: Line, standing: Standing, entry: T, first: bool) {
        let spent = self.now.get(&standing.priority).copied().unwrap_or_default();
        let standing = Standing { weight: standing.weight.max(1), ..standing };
        let new = || Waiting { entries: VecDeque::new(), standing, spent, last: FIRST };
        let entries = &mut self.lines.entry(line).or_insert_with(new).entries;
        if first { entries.push_front(entry) } else { entries.push_back(entry) }
    }

    /// Begins a piece of work of the line whose turn it is. `take` finds it in the line's entries; where it finds none, the line has
    /// ended.
    pub(crate) fn next<R>(
        &mut self,
        when: impl Fn(Line) -> When,
        mut take: impl FnMut(&mut VecDeque<T>) -> Option<R>,
    ) -> Option<(R, Turn)> {
        loop {
            let turn = |(line, waiting): &(&Line, &Waiting<T>)| {
                (when(**line), Reverse(waiting.standing.priority), waiting.spent, **line)
            };
            let (&line, _) = self.lines.iter().filter(|(line, _)| when(**line) != When::Never).min_by_key(turn)?;
            let waiting = self.lines.get_mut(&line)?;
            if let Some(piece) = take(&mut waiting.entries) {
                self.now.insert(waiting.standing.priority, waiting.spent);
                waiting.spent += waiting.last / waiting.standing.weight;
                return Some((piece, Turn { line, charged: waiting.last }));
            }
            self.lines.remove(&line);
        }
    }

    /// The piece has ended.
    pub(crate) fn end(&mut self, turn: Turn, took: Duration) {
        if let Some(waiting) = self.lines.get_mut(&turn.line) {
            let weight = waiting.standing.weight;
            waiting.spent = (waiting.spent + took / weight).saturating_sub(turn.charged / weight);
            waiting.last = took;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(priority: u32, weight: u32) -> Standing {
        Standing { priority, weight }
    }

    const MS: Duration = Duration::from_millis(1);

    /// Serves `n` pieces, each of which takes what its entry says; returns the lines in the order of their turns.
    fn serve(turns: &mut Turns<u32>, n: usize) -> Vec<u64> {
        let mut order = Vec::new();
        for _ in 0..n {
            let Some((cost, turn)) = turns.next(|_| When::InTurn, VecDeque::pop_front) else { break };
            order.push(turn.line.0);
            turns.end(turn, MS * cost);
        }
        order
    }

    #[test]
    fn a_reader_that_comes_later_does_not_wait_for_what_others_have_queued() {
        let mut turns = Turns::default();
        (0..100).for_each(|_| turns.push((1, 0), of(0, 1), 10, false));
        assert_eq!(serve(&mut turns, 5), [1; 5]);
        (0..3).for_each(|_| turns.push((2, 0), of(0, 1), 10, false));
        let order = serve(&mut turns, 6);
        assert_eq!(order.iter().filter(|&&line| line == 2).count(), 3, "{order:?}");
        assert!(order[..2].contains(&2), "{order:?}");
    }

    #[test]
    fn a_reader_of_a_higher_priority_is_served_first_and_others_go_on_where_they_were() {
        let mut turns = Turns::default();
        [1, 2].into_iter().for_each(|line| (0..50).for_each(|_| turns.push((line, 0), of(0, 1), 10, false)));
        assert_eq!(serve(&mut turns, 4), [1, 2, 1, 2]);
        (0..5).for_each(|_| turns.push((3, 0), of(1, 1), 100, false));
        (0..2).for_each(|_| turns.push((4, 0), of(2, 1), 100, false));
        assert_eq!(serve(&mut turns, 7), [4, 4, 3, 3, 3, 3, 3], "from the next piece on");
        (0..50).for_each(|_| turns.push((5, 0), of(0, 1), 10, false));
        let order = serve(&mut turns, 9);
        let each = [1, 2, 5].map(|line| order.iter().filter(|&&l| l == line).count());
        assert_eq!(each, [3, 3, 3], "what the urgent took is nobody's debt: {order:?}");
    }

    #[test]
    fn a_line_that_is_last_comes_after_all_others_and_one_that_is_not_served_waits() {
        let mut turns = Turns::default();
        (1..4).for_each(|line| turns.push((line, 0), of(9 - line as u32, 1), 10, false));
        let when = |line: Line| [When::Last, When::Never, When::InTurn][line.0 as usize - 1];
        let mut taken = std::iter::from_fn(|| turns.next(when, VecDeque::pop_front).map(|(_, turn)| turn.line.0));
        assert_eq!(taken.by_ref().collect::<Vec<_>>(), [3, 1]);
        assert_eq!(serve(&mut turns, 9), [2]);
    }

    #[test]
    fn time_is_shared_not_pieces_and_entries_of_a_line_keep_their_order() {
        let mut turns = Turns::default();
        (0..40).for_each(|_| turns.push((1, 0), of(0, 1), 30, false));
        (0..400).for_each(|_| turns.push((2, 0), of(0, 1), 3, false));
        let order = serve(&mut turns, 110);
        let [slow, fast] = [1, 2].map(|line| order.iter().filter(|&&l| l == line).count());
        assert!((8..=12).contains(&slow) && slow + fast == 110, "{slow} {fast}");
        // With three times the weight, it has three times the time.
        let mut turns = Turns::default();
        (0..400).for_each(|_| turns.push((1, 0), of(0, 3), 10, false));
        (0..400).for_each(|_| turns.push((2, 0), of(0, 1), 10, false));
        let order = serve(&mut turns, 100);
        let heavy = order.iter().filter(|&&l| l == 1).count();
        assert!((74..=76).contains(&heavy), "{heavy}");
        let mut turns = Turns::default();
        [3, 4].into_iter().for_each(|entry| turns.push((1, 0), of(0, 1), entry, false));
        turns.push((1, 0), of(0, 1), 2, true);
        let taken: Vec<u32> =
            std::iter::from_fn(|| turns.next(|_| When::InTurn, VecDeque::pop_front).map(|(e, _)| e)).collect();
        assert_eq!(taken, [2, 3, 4]);
        assert!(turns.lines.is_empty());
    }
}
