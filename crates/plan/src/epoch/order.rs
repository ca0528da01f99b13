//! The order ops as one map from a place in the epoch to a row of the source. Computed, never stored.
//!
//! Each step maps a place after it to a place before it, so an epoch of any length costs no memory. `repeat` also
//! yields the number of the repetition, which keys all randomness before it: shuffles and augmentations differ between
//! repetitions exactly as they do between epochs.

use std::ops::Range;
use std::sync::Arc;

use forebay_core::{Epoch, Error, Result, Seed, rng::op_key};

use crate::epoch::parts::PartRows;
use crate::epoch::permute::Permutation;
use crate::epoch::window::Windows;
use crate::ops::{self, Op};

/// The number of repetitions that an infinite repeat counts as.
pub(crate) const FOREVER: u64 = 1 << 32;
/// The number of places that are mapped together.
const BLOCK: usize = 256;

#[derive(Debug, Clone)]
enum Step {
    Shuffle {
        random: u64,
        len: u64,
    },
    /// A shuffle over windows; `None` if the first rows of blocks are not known, in a plan that is not used to read
    /// rows.
    Windows {
        random: u64,
        windows: Option<Arc<Windows>>,
    },
    Repeat {
        count: u64,
        len: u64,
    },
    /// Rows are numbered by their places here.
    Number,
    /// Several rows of each row.
    FanOut {
        count: u64,
    },
    Skip {
        count: u64,
    },
    Shard {
        count: u64,
        index: u64,
    },
    Select {
        rows: Arc<[u64]>,
    },
    Part(PartRows),
}

/// The blocks over which the first shuffle permutes rows within windows.
#[derive(Debug, Clone, Default)]
pub struct Blocks {
    /// The rows of a window; 0 if the shuffle permutes all rows at once.
    pub window_rows: u64,
    /// The first row of each block of the source, and the number of rows. `None` in a plan that is not used to read
    /// rows.
    pub starts: Option<Vec<u64>>,
}

/// The order ops of a pipeline over a source of known length.
#[derive(Debug, Clone)]
pub struct Order {
    steps: Vec<Step>,
    len: Option<u64>,
    repetitions: u64,
}

impl Blocks {
    /// Applies an op that keeps the order of rows: `of` maps the first row of a block to its first place after the op.
    fn each(&mut self, of: impl Fn(u64) -> u64) {
        self.starts.iter_mut().flatten().for_each(|start| *start = of(*start));
    }
}

impl Order {
    /// Builds the map for a source of `rows` (`None` is endless); each op comes with its number among the random ops.
    ///
    /// # Errors
    /// Invalid when an op is no order op of the plan, or comes after an endless repeat.
    pub fn new<'a>(
        rows: impl Into<Option<u64>>,
        mut blocks: Blocks,
        ops: impl IntoIterator<Item = (&'a Op, u64)>,
    ) -> Result<Self> {
        let mut order = Self { steps: Vec::new(), len: rows.into(), repetitions: 1 };
        let is_endless = order.len.is_none();
        for (op, random) in ops {
            let endless = || match is_endless {
                true => Error::invalid(format!("{} comes after a mix without end", op.name()))
                    .hint("give mix stop= or rows=, or put it into the datasets that are mixed"),
                false => Error::invalid(format!("{} comes after an endless repeat", op.name()))
                    .hint("put it before repeat, or give repeat a count"),
            };
            match op {
                Op::Shuffle(_) => {
                    let len = order.len.ok_or_else(endless)?;
                    let window_rows = std::mem::take(&mut blocks.window_rows);
                    order.steps.push(match window_rows {
                        0 => Step::Shuffle { random, len },
                        _ => {
                            let starts = blocks.starts.take();
                            Step::Windows { random, windows: starts.map(|s| Arc::new(Windows::new(s, window_rows))) }
                        }
                    });
                }
                Op::Repeat(ops::Repeat { count }) => {
                    let len = order.len.ok_or_else(endless)?;
                    order.steps.push(Step::Repeat { count: count.unwrap_or(FOREVER), len });
                    order.repetitions = order.repetitions.saturating_mul(count.unwrap_or(FOREVER));
                    // An endless repeat of no rows has no rows.
                    order.len = match count {
                        _ if len == 0 => Some(0),
                        Some(n) => Some(len.checked_mul(*n).ok_or_else(|| {
                            Error::invalid(format!("repeat: {len} rows {n} times is more than 2^64"))
                        })?),
                        None => None,
                    };
                }
                Op::Take(ops::Take { count }) => {
                    order.len = Some(order.len.map_or(*count, |len| len.min(*count)));
                    blocks.each(|start| start.min(*count));
                }
                Op::Skip(ops::Skip { count }) => {
                    blocks.each(|start| start.saturating_sub(*count));
                    order.len = order.len.map(|len| len.saturating_sub(*count));
                    order.steps.push(Step::Skip { count: *count });
                }
                Op::Shard(ops::Shard { count, index }) => {
                    blocks.each(|start| start.saturating_sub(*index).div_ceil(*count));
                    order.len = order.len.map(|len| (len + count - 1 - index) / count);
                    order.steps.push(Step::Shard { count: *count, index: *index });
                }
                Op::Enumerate(_) => order.steps.push(Step::Number),
                Op::FlatMap(ops::FlatMap { count: Some(count), .. }) => {
                    let count = u64::from(*count);
                    let too_many = || Error::invalid(format!("flat_map: {count} rows of each row are more than 2^64"));
                    order.len = order.len.map(|len| len.checked_mul(count).ok_or_else(too_many)).transpose()?;
                    blocks.each(|start| start.saturating_mul(count));
                    order.steps.push(Step::FanOut { count });
                }
                Op::SelectRows(ops::SelectRows { rows }) => {
                    let len = order.len.ok_or_else(endless)?;
                    if let Some(row) = rows.iter().find(|row| **row >= len) {
                        return Err(Error::invalid(format!("select_rows: there is no row {row}, for there are {len}"))
                            .hint("rows are counted from 0; len() of the dataset is how many there are"));
                    }
                    order.steps.push(Step::Select { rows: rows.clone() });
                    order.len = Some(rows.len() as u64);
                }
                Op::Part(part) => {
                    let mut part = PartRows::new(part.clone(), order.len.ok_or_else(endless)?);
                    blocks.starts.iter_mut().flatten().for_each(|start| *start = part.place_of(*start));
                    order.len = Some(part.len());
                    order.steps.push(Step::Part(part));
                }
                other => return Err(Error::internal(format!("{} is no order op", other.name()))),
            }
        }
        Ok(order)
    }

    /// Returns whether it can map places to rows. It cannot if a shuffle is over windows and `starts` was `None`.
    pub fn knows_rows(&self) -> bool {
        !self.steps.iter().any(|step| matches!(step, Step::Windows { windows: None, .. }))
    }

    /// Returns the places of an epoch; `None` is endless.
    pub fn len(&self) -> Option<u64> {
        self.len
    }

    /// Returns whether an epoch has no row.
    pub fn is_empty(&self) -> bool {
        self.len == Some(0)
    }

    /// Prepares the map of one epoch.
    pub fn of_epoch(&self, seed: Seed, epoch: Epoch) -> EpochOrder<'_> {
        let parts = self.steps.iter().map(|step| if let Step::Part(part) = step { Some(part.clone()) } else { None });
        let parts = parts.collect();
        EpochOrder { order: self, seed, epoch, permutations: vec![None; self.steps.len()], parts }
    }
}

/// A place of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The row of the source.
    pub row: u64,
    /// The epoch that keys its randomness.
    pub epoch: Epoch,
    /// Its number among the rows that ops make of the source row.
    pub part: u64,
    /// Its number in the epoch, at the op that numbers rows; 0 without one.
    pub number: u64,
}

/// The map of one epoch. Keeps its latest permutations, because neighbouring places mostly share them.
#[derive(Debug)]
pub struct EpochOrder<'a> {
    order: &'a Order,
    seed: Seed,
    epoch: Epoch,
    permutations: Vec<Option<(Epoch, Permutation)>>,
    parts: Vec<Option<PartRows>>,
}

impl EpochOrder<'_> {
    /// Calls `see` with the source row at each of these places, and the epoch that keys its randomness.
    pub fn for_each(&mut self, places: Range<u64>, mut see: impl FnMut(u64, Epoch)) {
        self.for_each_placed(places, |placed| see(placed.row, placed.epoch));
    }

    /// As [`EpochOrder::for_each`], with all facts about each place.
    pub fn for_each_placed(&mut self, places: Range<u64>, mut see: impl FnMut(Placed)) {
        let base = self.epoch.0.wrapping_mul(self.order.repetitions);
        let (mut rows, mut repetitions, mut parts, mut numbers) = ([0; BLOCK], [0; BLOCK], [0; BLOCK], [0; BLOCK]);
        for start in places.clone().step_by(BLOCK) {
            let count = (places.end - start).min(BLOCK as u64) as usize;
            let (rows, repetitions) = (&mut rows[..count], &mut repetitions[..count]);
            rows.iter_mut().zip(start..).for_each(|(row, place)| *row = place);
            repetitions.fill(0);
            parts.fill(0);
            self.map(base, rows, repetitions, &mut parts[..count], &mut numbers[..count]);
            for at in 0..count {
                let epoch = Epoch(base.wrapping_add(repetitions[at]));
                see(Placed { row: rows[at], epoch, part: parts[at], number: numbers[at] });
            }
        }
    }

    /// Maps places back through all steps; each place has an epoch of its own, which becomes the one that keys the
    /// randomness of its row.
    pub(crate) fn map_in_epochs(&mut self, places: &mut [u64], epochs: &mut [u64]) {
        let mut rest = places;
        let (mut parts, mut numbers) = (Vec::new(), Vec::new());
        for run in epochs.chunk_by_mut(|a, b| a == b) {
            let (places, after) = rest.split_at_mut(run.len());
            rest = after;
            let base = run[0].wrapping_mul(self.order.repetitions);
            run.fill(0);
            parts.resize(run.len(), 0);
            numbers.resize(run.len(), 0);
            self.map(base, places, run, &mut parts, &mut numbers);
            run.iter_mut().for_each(|n| *n = base.wrapping_add(*n));
        }
    }

    /// Maps places, their repetitions and parts back through all steps, and finds the numbers of rows.
    fn map(&mut self, base: u64, places: &mut [u64], repetitions: &mut [u64], parts: &mut [u64], numbers: &mut [u64]) {
        // The number of rows that the steps after this one make of each row.
        let mut made = 1u64;
        let kept = self.permutations.iter_mut().zip(&mut self.parts);
        for (step, (kept, part)) in self.order.steps.iter().zip(kept).rev() {
            match step {
                Step::Select { rows } => places.iter_mut().for_each(|place| *place = rows[*place as usize]),
                Step::Part(_) => {
                    if let Some(part) = part {
                        places.iter_mut().for_each(|place| *place = part.row_at(*place));
                    }
                }
                Step::Shuffle { random, len } => {
                    let mut rest = &mut *places;
                    for run in repetitions.chunk_by(|a, b| a == b) {
                        let (of_run, after) = rest.split_at_mut(run.len());
                        rest = after;
                        let epoch = Epoch(base.wrapping_add(run[0]));
                        if kept.as_ref().is_none_or(|(e, _)| *e != epoch) {
                            *kept = Some((epoch, Permutation::new(*len, op_key(self.seed, epoch, *random))));
                        }
                        if let Some((_, permutation)) = kept {
                            permutation.map(of_run);
                        }
                    }
                }
                Step::Windows { random, windows } => {
                    let mut rest = &mut *places;
                    for run in repetitions.chunk_by(|a, b| a == b) {
                        let (of_run, after) = rest.split_at_mut(run.len());
                        rest = after;
                        let epoch = Epoch(base.wrapping_add(run[0]));
                        if let Some(windows) = windows {
                            windows.of_epoch(op_key(self.seed, epoch, *random)).map(of_run);
                        }
                    }
                }
                Step::Repeat { count, len } => {
                    let mut time = Time { number: 0, first: 0, len: *len };
                    for (place, repetition) in places.iter_mut().zip(&mut *repetitions) {
                        time.find(*place);
                        *place -= time.first;
                        *repetition = repetition.wrapping_mul(*count).wrapping_add(time.number);
                    }
                }
                Step::Number => numbers.copy_from_slice(places),
                Step::FanOut { count } => {
                    for (place, part) in places.iter_mut().zip(&mut *parts) {
                        *part = part.wrapping_add((*place % count).wrapping_mul(made));
                        *place /= count;
                    }
                    made = made.wrapping_mul(*count);
                }
                Step::Skip { count } => places.iter_mut().for_each(|place| *place += *count),
                Step::Shard { count, index } => places.iter_mut().for_each(|place| *place = *place * *count + *index),
            }
        }
    }
}

/// One repetition of a repeat: its number, and its first place. Neighbouring places are mostly in the same one, so that
/// a division is rare.
struct Time {
    number: u64,
    first: u64,
    len: u64,
}

impl Time {
    fn find(&mut self, place: u64) {
        if place.wrapping_sub(self.first) >= self.len {
            self.number = place / self.len;
            self.first = self.number * self.len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(n: u64, ops: &[Op], seed: u64, epoch: u64) -> Vec<u64> {
        let order = Order::new(n, Blocks::default(), ops.iter().zip(0..)).expect("legal");
        let mut rows = Vec::new();
        order.of_epoch(Seed(seed), Epoch(epoch)).for_each(0..order.len().expect("finite"), |row, _| rows.push(row));
        rows
    }

    /// Returns the result of the ops, on lists.
    fn model(n: u64, ops: &[Op], shuffled: impl Fn(usize, Vec<u64>) -> Vec<u64>) -> Vec<u64> {
        ops.iter().enumerate().fold((0..n).collect(), |list: Vec<u64>, (i, op)| match op {
            Op::Shuffle(_) => shuffled(i, list),
            Op::Repeat(ops::Repeat { count }) => list.repeat(count.unwrap_or(1) as usize),
            Op::Take(ops::Take { count }) => list.into_iter().take(*count as usize).collect(),
            Op::Skip(ops::Skip { count }) => list.into_iter().skip(*count as usize).collect(),
            Op::Shard(ops::Shard { count, index }) => {
                list.into_iter().skip(*index as usize).step_by(*count as usize).collect()
            }
            _ => list,
        })
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (1u64..4).prop_map(|n| Op::Repeat(ops::Repeat { count: Some(n) })),
            (0u64..40).prop_map(|count| Op::Take(ops::Take { count })),
            (0u64..10).prop_map(|count| Op::Skip(ops::Skip { count })),
            (1u64..4).prop_flat_map(|count| (0..count).prop_map(move |index| Op::Shard(ops::Shard { count, index }))),
        ]
    }

    proptest! {
        #[test]
        fn without_shuffle_it_equals_operations_on_lists(n in 0u64..30, ops in prop::collection::vec(op(), 0..5)) {
            prop_assert_eq!(rows(n, &ops, 1, 2), model(n, &ops, |_, l| l));
        }

        #[test]
        fn a_shuffle_only_permutes(n in 0u64..200, after in prop::collection::vec(op(), 0..2), seed: u64, epoch in 0u64..1 << 40) {
            let mut got = rows(n, &[&after[..], &[Op::SHUFFLE]].concat(), seed, epoch);
            let mut want = model(n, &after, |_, l| l);
            got.sort_unstable();
            want.sort_unstable();
            prop_assert_eq!(got, want);
        }
    }

    proptest! {
        #[test]
        fn it_does_not_matter_which_places_are_asked_for_together(
            n in 1u64..300, ops in prop::collection::vec(prop_oneof![op(), Just(Op::SHUFFLE)], 0..5), cuts in prop::collection::vec(0u64..2000, 0..5),
        ) {
            let order = Order::new(n, Blocks::default(), ops.iter().zip(0..)).expect("legal");
            let end = order.len().expect("finite");
            let seen = |mut cuts: Vec<u64>| {
                cuts.extend([0, end]);
                cuts.sort_unstable();
                let mut seen = Vec::new();
                let mut at = order.of_epoch(Seed(5), Epoch(6));
                cuts.windows(2).for_each(|w| at.for_each(w[0]..w[1], |row, epoch| seen.push((row, epoch))));
                seen
            };
            let cuts = cuts.into_iter().map(|cut| cut.min(end)).collect();
            prop_assert_eq!(seen(cuts), seen((0..end).collect()));
        }
    }

    #[test]
    fn epochs_and_repetitions_are_shuffled_differently() {
        let once = |epoch| rows(50, &[Op::SHUFFLE], 3, epoch);
        assert_ne!(once(0), once(1));
        let twice = rows(50, &[Op::SHUFFLE, Op::Repeat(ops::Repeat { count: Some(2) })], 3, 0);
        assert_ne!(twice[..50], twice[50..]);
    }

    #[test]
    fn an_endless_repeat_takes_no_order_op_but_take() {
        let endless = Op::Repeat(ops::Repeat { count: None });
        assert!(Order::new(3, Blocks::default(), [(&endless, 0), (&Op::SHUFFLE, 1)]).is_err());
        let taken =
            Order::new(3, Blocks::default(), [(&endless, 0), (&Op::Take(ops::Take { count: 7 }), 0)]).expect("legal");
        assert_eq!(taken.len(), Some(7));
        assert_eq!(Order::new(0, Blocks::default(), [(&endless, 0)]).expect("legal").len(), Some(0));
    }
}
