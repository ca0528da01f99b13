//! Decides which blocks of a file the reader requests. Pure.
//!
//! A read is sequential if it begins at the start of the file, or near the end of the last read; reads of several
//! threads may overtake each other by [`SLACK`]. For sequential reads the window requests blocks ahead, twice as many
//! bytes each time, up to [`AHEAD_MAX`]. Any other read gets one block. Invariant: the blocks of a window are adjacent.

use std::collections::VecDeque;
use std::ops::Range;

/// Alignment of blocks, which is the size of a cache page.
const GRAIN: u64 = 1 << 20;
/// Longest block.
const BLOCK_MAX: u64 = 4 << 20;
/// First number of bytes ahead of a sequential read.
const AHEAD_MIN: u64 = 2 << 20;
/// Most bytes ahead of a sequential read.
const AHEAD_MAX: u64 = 32 << 20;
/// How far sequential reads may be out of order; the window keeps blocks for so many bytes behind the last read.
const SLACK: u64 = 2 << 20;

/// The blocks of an open file.
#[derive(Debug)]
pub(super) struct Window<B> {
    size: u64,
    /// End of the sequential reads so far; `None` before the first read.
    end: Option<u64>,
    /// Bytes to request ahead of `end`.
    ahead: u64,
    blocks: VecDeque<(Range<u64>, B)>,
}

impl<B: Clone> Window<B> {
    pub(super) fn new(size: u64) -> Self {
        Self { size, end: None, ahead: 0, blocks: VecDeque::new() }
    }

    /// Records a read, drops blocks behind it, and returns the ranges to request, in order: first the ranges that the
    /// read needs, then the read-ahead.
    pub(super) fn plan(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let end = self.end.unwrap_or(0);
        let is_run = range.start <= end + SLACK && range.start + SLACK >= end;
        if !is_run {
            self.clear();
            self.end = Some(range.end);
            return vec![range];
        }
        self.end = Some(end.max(range.end));
        let keep = self.end.unwrap_or(0).saturating_sub(SLACK);
        while self.blocks.front().is_some_and(|(block, _)| block.end <= keep) {
            self.blocks.pop_front();
        }
        if self.end == Some(self.size) && self.blocks.back().is_some_and(|(block, _)| block.end >= self.size) {
            return Vec::new();
        }
        let first = self.blocks.front().map_or(range.start, |(block, _)| block.start);
        if range.start < first {
            // Later reads have dropped the blocks of this range.
            return Vec::new();
        }
        // A later read may have overtaken the first one of the sequence.
        let mut at = self.blocks.back().map_or(range.start.min(end), |(block, _)| block.end);
        let block = (self.ahead / 2).clamp(GRAIN, BLOCK_MAX);
        let mut wanted = Vec::new();
        // One more block fits into the read-ahead, so the store always has a request to answer.
        if at < range.end || at + block <= range.end + self.ahead {
            self.ahead = (self.ahead * 2).clamp(AHEAD_MIN, AHEAD_MAX);
            let until = (range.end + self.ahead).min(self.size);
            while at < until {
                let next = ((at / GRAIN * GRAIN) + block).min(self.size);
                wanted.push(at..next);
                at = next;
            }
        }
        wanted
    }

    /// Adds a requested block.
    pub(super) fn add(&mut self, range: Range<u64>, block: B) {
        self.blocks.push_back((range, block));
    }

    /// Returns the blocks that cover a range; empty if they do not cover all of it.
    pub(super) fn of(&self, range: Range<u64>) -> Vec<B> {
        let overlap = |block: &Range<u64>| block.start < range.end && block.end > range.start;
        let found: Vec<_> = self.blocks.iter().filter(|(block, _)| overlap(block)).collect();
        let held: u64 = found.iter().map(|(block, _)| block.end.min(range.end) - block.start.max(range.start)).sum();
        if held == range.end - range.start { found.into_iter().map(|(_, b)| b.clone()).collect() } else { Vec::new() }
    }

    /// Drops the blocks, and resets the read-ahead.
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.ahead = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a range; returns what was asked for.
    fn read(window: &mut Window<u64>, range: Range<u64>) -> Vec<Range<u64>> {
        let wanted = window.plan(range.clone());
        wanted.iter().for_each(|block| window.add(block.clone(), block.start));
        let needs = window.of(range);
        assert!(!needs.is_empty());
        wanted
    }

    #[test]
    fn a_file_from_front_to_back_is_asked_for_once_and_ahead() {
        let size = (100 << 20) + 777;
        let mut window = Window::new(size);
        let (mut asked, mut at, mut most) = (0, 0, 0);
        while at < size {
            let end = (at + (128 << 10)).min(size);
            for block in read(&mut window, at..end) {
                assert_eq!(block.start, asked, "side by side");
                asked = block.end;
            }
            most = most.max(asked - end);
            at = end;
        }
        assert_eq!(asked, size);
        assert!((AHEAD_MAX / 2..=AHEAD_MAX + BLOCK_MAX).contains(&most), "{most}");
    }

    #[test]
    fn reads_that_overtake_each_other_are_one_run() {
        let size = 64 << 20;
        let mut window = Window::new(size);
        let mut asked = 0;
        for run in 0..64u64 {
            let mut parts: Vec<u64> = (0..4).collect();
            parts.swap(run as usize % 4, 3 - run as usize % 4);
            for part in parts {
                let at = (run << 20) + (part << 18);
                asked += read(&mut window, at..at + (1 << 18)).iter().map(|block| block.end - block.start).sum::<u64>();
            }
        }
        assert_eq!(asked, size);
    }

    #[test]
    fn reads_in_any_order_get_what_they_ask_for() {
        let mut window = Window::new(1 << 40);
        let mut at = 12_345_678_901;
        for _ in 0..100 {
            at = (at * 6_364_136_223_846_793_005_u128 + 1) % (1 << 39) + (1 << 30);
            let range = at as u64..at as u64 + 4096;
            assert_eq!(read(&mut window, range.clone()), [range]);
            assert_eq!(window.blocks.len(), 1);
        }
    }

    #[test]
    fn a_run_may_begin_anywhere() {
        let (mut window, from) = (Window::new(1 << 30), 500_000_000);
        assert_eq!(read(&mut window, from..from + 1000).last(), Some(&(from..from + 1000)));
        let ahead = read(&mut window, from + 1000..from + 2000);
        assert!(ahead.last().is_some_and(|last| last.end >= from + AHEAD_MIN), "{ahead:?}");
    }

    #[test]
    fn a_small_file_is_one_block() {
        let mut window = Window::new(5000);
        assert_eq!(read(&mut window, 0..4096).last(), Some(&(0..5000)));
        assert_eq!(read(&mut window, 4096..5000), []);
    }
}
