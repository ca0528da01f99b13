//! The chunks of an epoch that were delivered before an earlier chunk, where chunks come as they are computed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::tail::position::Position;

/// A set of numbers as ordered ranges that do not touch each other.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    fn contains(&self, number: u64) -> bool {
        self.0.iter().any(|(first, end)| (*first..*end).contains(&number))
    }

    fn add(&mut self, number: u64) {
        if self.contains(number) {
            return;
        }
        let place = self.0.partition_point(|(_, end)| *end < number);
        let touches_before = self.0.get(place).is_some_and(|(_, end)| *end == number);
        let next = place + usize::from(touches_before);
        let touches_next = self.0.get(next).is_some_and(|(first, _)| *first == number + 1);
        match (touches_before, touches_next) {
            (true, true) => {
                self.0[place].1 = self.0[next].1;
                self.0.remove(next);
            }
            (true, false) => self.0[place].1 += 1,
            (false, true) => self.0[next].0 = number,
            (false, false) => self.0.insert(place, (number, number + 1)),
        }
    }

    /// Removes the first range if it begins at `number` or before; returns its end.
    fn take_first(&mut self, number: u64) -> Option<u64> {
        let (_, end) = *self.0.first().filter(|(first, _)| *first <= number)?;
        self.0.remove(0);
        Some(end)
    }
}

/// The chunks of a split that were delivered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct SplitProgress {
    #[serde(default, skip_serializing_if = "is_empty")]
    chunks: Ranges,
    /// The number of its chunks, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

impl SplitProgress {
    fn is_first(&self, count: u64) -> bool {
        if count == 0 { is_empty(&self.chunks) } else { self.chunks.0 == [(0, count)] }
    }

    fn is_whole(&self) -> bool {
        self.count.is_some_and(|count| self.is_first(count))
    }
}

/// The splits and chunks after a position that were already delivered. Bound: the chunks that a stream has ahead at one
/// time, times one more than the number of resumes from there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeliveredAhead {
    /// Splits that were delivered completely.
    #[serde(default, skip_serializing_if = "is_empty")]
    splits: Ranges,
    /// Chunks of other splits, by split.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    chunks: BTreeMap<u64, SplitProgress>,
    /// Chunks that were delivered in part: split, chunk, and the number of delivered first rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<(u64, u64, u64)>,
}

fn is_empty(ranges: &Ranges) -> bool {
    ranges.0.is_empty()
}

impl DeliveredAhead {
    /// Says whether nothing after the position was delivered.
    pub fn is_empty(&self) -> bool {
        is_empty(&self.splits) && self.chunks.is_empty() && self.parts.is_empty()
    }

    /// Changes the progress of a split that was not completely delivered.
    fn change(&mut self, split: u64, change: impl FnOnce(&mut SplitProgress)) {
        if self.splits.contains(split) {
            return;
        }
        let passed = self.chunks.entry(split).or_default();
        change(passed);
        if passed.is_whole() {
            self.chunks.remove(&split);
            self.splits.add(split);
        }
    }

    /// Says whether some chunk was delivered in part.
    pub(crate) fn has_parts(&self) -> bool {
        !self.parts.is_empty()
    }
}

impl Position {
    /// Says whether a chunk of its epoch was delivered completely.
    pub fn has_passed(&self, split: u64, chunk: u64) -> bool {
        (split, chunk) < (self.split, self.chunk)
            || self.passed.splits.contains(split)
            || self.passed.chunks.get(&split).is_some_and(|passed| passed.chunks.contains(chunk))
    }

    /// Says whether a split of its epoch was delivered completely.
    pub fn has_passed_all_of(&self, split: u64) -> bool {
        split < self.split || self.passed.splits.contains(split)
    }

    /// Returns the first chunk of a split of its epoch that was not delivered.
    pub(crate) fn first_missing(&self, split: u64) -> u64 {
        if split == self.split {
            return self.chunk;
        }
        let first = self.passed.chunks.get(&split).and_then(|passed| passed.chunks.0.first());
        first.filter(|(first, _)| *first == 0).map_or(0, |(_, end)| *end)
    }

    /// Says whether exactly the first `count` chunks of a split of its epoch were delivered.
    pub(crate) fn has_passed_first(&self, split: u64, count: u64) -> bool {
        let passed = self.passed.chunks.get(&split);
        match split == self.split {
            true => passed.is_none() && self.chunk == count,
            false => passed.is_some_and(|passed| passed.is_first(count)),
        }
    }

    /// Records that a chunk of its epoch was delivered completely.
    pub(crate) fn pass(&mut self, split: u64, chunk: u64) {
        if (split, chunk) == (self.split, self.chunk) {
            self.chunk += 1;
        } else if !self.has_passed(split, chunk) {
            self.passed.change(split, |passed| passed.chunks.add(chunk));
        }
        self.advance();
    }

    /// Records that a split of its epoch has this many chunks, and that all of them were delivered.
    pub(crate) fn end_split(&mut self, split: u64, count: u64) {
        if split == self.split && count == self.chunk {
            (self.split, self.chunk) = (self.split + 1, 0);
        } else if split >= self.split {
            self.passed.change(split, |passed| passed.count = Some(count));
        }
        self.advance();
    }

    /// Removes the part of a chunk; returns how many rows of it were delivered.
    pub(crate) fn take_part(&mut self, split: u64, chunk: u64) -> u64 {
        let place = self.passed.parts.iter().position(|part| (part.0, part.1) == (split, chunk));
        place.map_or(0, |place| self.passed.parts.swap_remove(place).2)
    }

    /// Moves its own rows into the parts.
    pub(crate) fn with_rows_as_part(mut self) -> Self {
        let (split, chunk) = self.inside.take().unwrap_or((self.split, self.chunk));
        if self.rows > 0 {
            self.passed.parts.push((split, chunk, std::mem::take(&mut self.rows)));
        }
        self
    }

    /// Advances over splits and chunks that were already delivered.
    fn advance(&mut self) {
        loop {
            if let Some(end) = self.passed.splits.take_first(self.split) {
                (self.split, self.chunk) = (end, 0);
                continue;
            }
            let Some(passed) = self.passed.chunks.get_mut(&self.split) else { return };
            if let Some(end) = passed.chunks.take_first(self.chunk) {
                self.chunk = self.chunk.max(end);
            } else if passed.count == Some(self.chunk) {
                self.passed.chunks.remove(&self.split);
                (self.split, self.chunk) = (self.split + 1, 0);
            } else {
                if *passed == SplitProgress::default() {
                    self.passed.chunks.remove(&self.split);
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After chunks in any order the position names exactly these chunks. After all chunks it equals the position of a
    /// delivery in order.
    #[test]
    fn a_position_names_the_delivered_chunks_in_any_order_of_delivery() {
        let counts = [3u64, 0, 1, 4, 2];
        let chunks: Vec<(u64, u64)> = (0..).zip(counts).flat_map(|(s, n)| (0..n).map(move |c| (s, c))).collect();
        for seed in 0..500u64 {
            let mut left: Vec<(u64, Option<u64>)> =
                chunks.iter().map(|(s, c)| (*s, Some(*c))).chain((0..5).map(|s| (s, None))).collect();
            let (mut at, mut seen) = (Position::default(), Vec::new());
            let mut random = seed;
            while !left.is_empty() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (split, chunk) = left.swap_remove((random >> 33) as usize % left.len());
                match chunk {
                    Some(chunk) => {
                        at.pass(split, chunk);
                        seen.push((split, chunk));
                    }
                    None => at.end_split(split, counts[split as usize]),
                }
                let json = serde_json::to_string(&at).expect("json");
                assert_eq!(serde_json::from_str::<Position>(&json).expect("a position"), at);
                for (split, chunk) in &chunks {
                    let is_seen = seen.contains(&(*split, *chunk));
                    assert_eq!(at.has_passed(*split, *chunk), is_seen, "{split}/{chunk} of {at:?}");
                    let missing = (0..).find(|c| !seen.contains(&(*split, *c)));
                    let has_passed = at.has_passed_all_of(*split);
                    assert!(has_passed || missing == Some(at.first_missing(*split)), "{split} of {at:?}");
                    let has_ended = !left.contains(&(*split, None));
                    let all = (0..counts[*split as usize]).all(|c| seen.contains(&(*split, c)));
                    assert_eq!(at.has_passed_all_of(*split), has_ended && all, "{split} of {at:?}");
                }
            }
            assert_eq!(at, Position { split: 5, ..Position::default() });
        }
    }
}
