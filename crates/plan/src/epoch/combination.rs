//! Data sets that are read as one: the map from a place of their rows to a row of one of their sources.
//!
//! Source rows are numbered over all parts: those of the first part, then those of the second, and so on. A row of a
//! zip is found by its place, because its parts come in the same order in each epoch.
//!
//! Invariants: the map needs no state but the place and the epoch; each part draws from a seed of its own, so that two
//! parts are never shuffled alike; a part that begins again is in the order of another epoch.

use std::sync::Arc;

use forebay_core::rng::op_key;
use forebay_core::{Epoch, Error, Result, Seed};

use crate::epoch::extent::Extent;
use crate::epoch::mix::{Mix, MixFinder};
use crate::epoch::order::{Blocks, EpochOrder, FOREVER, Order};
use crate::graph::Graph;
use crate::physical::sizing;
use crate::physical::stages::Stages;
use crate::source::{Combined, Combining, Source, Stop};

/// Rows of a block of datasets that are read as one, over which a shuffle behind them may have windows.
const ROWS_IN_BLOCK: u64 = 65_536;
/// The number of the random stream that orders a mix. No op has it.
const MIX_STREAM: u64 = u64::MAX;
/// Distinguishes the seeds of parts from those of jobs.
const PART_SEED: u64 = 0x7061_7274_7365_6564;

/// The first row of each block of a source, and the number of its rows; for datasets that are read as one, those of
/// each.
#[derive(Debug, Clone, Default)]
pub struct BlockStarts {
    /// Those of the source itself. Empty for datasets that are read as one.
    pub starts: Vec<u64>,
    /// Those of the parts.
    pub parts: Vec<BlockStarts>,
}

/// How many rows a source gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowCount {
    /// They are not counted.
    Unknown,
    /// They have no end.
    Endless,
    /// So many.
    Rows(u64),
}

/// Returns how many rows the source of a graph gives to its first op.
///
/// # Errors
/// Those of [`Stages::new`]; Invalid when datasets cannot be read as one.
pub fn rows_of_source(graph: &Graph, extent: &Extent) -> Result<RowCount> {
    let Some(rows) = extent.rows else { return Ok(RowCount::Unknown) };
    if !matches!(graph.source(), Source::Combined(_)) {
        return Ok(RowCount::Rows(rows));
    }
    let source = Graph::new(graph.source().clone(), None)?;
    let combination = Combination::new(&Stages::new(&source)?, extent, None)?;
    let len = combination.map_or(Some(rows), |combination| combination.len());
    Ok(len.map_or(RowCount::Endless, RowCount::Rows))
}

/// The rows of datasets that are read as one.
#[derive(Debug, Clone)]
pub struct Combination {
    how: Places,
    parts: Vec<PartOrder>,
    len: Option<u64>,
    /// The source rows of all parts; the rows themselves of a zip.
    rows: u64,
}

/// Where the rows of each part are.
#[derive(Debug, Clone)]
enum Places {
    Mix(Mix),
    /// The first place of each part, and the number of places.
    Concatenate(Vec<u64>),
    Zip,
}

/// The rows of one part.
#[derive(Debug, Clone)]
struct PartOrder {
    order: Order,
    /// If its source is a combination, too.
    inner: Option<Arc<Combination>>,
    /// The rows of a window of its first shuffle; 0 if it permutes all rows at once.
    window_rows: u64,
    /// The bytes of the windows that are in memory at once.
    window_memory: u64,
    /// The number of its first source row among those of all parts.
    first: u64,
    len: u64,
    /// How often an epoch reads it, or begins to.
    repetitions: u64,
}

impl Combination {
    /// Plans the rows of a source; `None` for a source that is no combination. Without `starts`, it may know no rows.
    ///
    /// # Errors
    /// Invalid when a part of a mix is empty, parts of a strict zip differ in their number of rows, or there are too
    /// many; Internal when the extent is one of another source.
    pub(crate) fn new(stages: &Stages, extent: &Extent, starts: Option<&BlockStarts>) -> Result<Option<Self>> {
        Self::among(stages, extent, starts, 1)
    }

    /// Plans a combination that is one of `sharers` sources with one memory.
    fn among(stages: &Stages, extent: &Extent, starts: Option<&BlockStarts>, sharers: u64) -> Result<Option<Self>> {
        let Source::Combined(combined) = stages.graph.source() else { return Ok(None) };
        let sharers = sharers.max(combined.leaves() as u64);
        if extent.parts.len() != combined.parts.len() || stages.parts.len() != combined.parts.len() {
            return Err(Error::internal("the extent is not one of these datasets"));
        }
        let (mut parts, mut rows) = (Vec::with_capacity(combined.parts.len()), 0u64);
        for (number, part) in combined.parts.iter().enumerate() {
            let starts = starts.map(|starts| starts.parts.get(number).cloned().unwrap_or_default());
            let order = PartOrder::new(&stages.parts[number], &extent.parts[number], starts.as_ref(), sharers);
            let (order, own) = order.map_err(|e| e.with("part", &part.name))?;
            parts.push(PartOrder { first: rows, ..order });
            rows = rows.checked_add(own).ok_or_else(|| too_many(combined))?;
        }
        let lens: Vec<u64> = parts.iter().map(|part| part.len).collect();
        let (how, len) = match &combined.how {
            Combining::Mix { weights, stop } => {
                check_not_empty(combined, *stop, &lens)?;
                let mix = Mix::new(weights, *stop, &lens).ok_or_else(|| too_many(combined))?;
                for (number, part) in parts.iter_mut().enumerate() {
                    part.repetitions = mix.count(number).map_or(FOREVER, |n| n.div_ceil(part.len.max(1)).max(1));
                }
                let len = mix.len();
                (Places::Mix(mix), len)
            }
            Combining::Concatenate => {
                let sum = |sum: &mut u64, len: &u64| {
                    *sum = sum.checked_add(*len)?;
                    Some(*sum)
                };
                let starts: Vec<u64> = [0].into_iter().chain(lens.iter().scan(0, sum)).collect();
                if starts.len() <= lens.len() {
                    return Err(too_many(combined));
                }
                let len = starts.last().copied();
                (Places::Concatenate(starts), len)
            }
            Combining::Zip { strict } => {
                let len = zip_len(combined, *strict, &lens)?;
                rows = len;
                (Places::Zip, Some(len))
            }
        };
        Ok(Some(Self { how, parts, len, rows }))
    }

    /// Returns the source rows of a combination of sources of these sizes.
    ///
    /// # Errors
    /// As [`Stages::new`], and Invalid as when it is planned.
    pub fn source_rows(combined: &Combined, extents: Vec<Extent>) -> Result<u64> {
        let graph = Graph::new(Source::Combined(combined.clone()), None)?;
        let extent = Extent { parts: extents, ..Extent::default() };
        let found = Self::new(&Stages::new(&graph)?, &extent, None)?;
        found.map(|combination| combination.rows).ok_or_else(|| Error::internal("it is no combination"))
    }

    /// Returns its rows; `None` is endless.
    pub fn len(&self) -> Option<u64> {
        self.len
    }

    /// Returns whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len == Some(0)
    }

    /// Returns whether it can map places to rows. It cannot if a part is shuffled over windows and `starts` was `None`.
    pub(crate) fn knows_rows(&self) -> bool {
        let knows =
            |part: &PartOrder| part.order.knows_rows() && part.inner.as_ref().is_none_or(|inner| inner.knows_rows());
        self.parts.iter().all(knows)
    }

    /// Returns of each part: its rows, and how many rows of it an epoch has (`None` is endless).
    pub fn counts(&self) -> impl Iterator<Item = (u64, Option<u64>)> {
        self.parts.iter().enumerate().map(|(number, part)| match &self.how {
            Places::Mix(mix) => (part.len, mix.count(number)),
            Places::Concatenate(_) => (part.len, Some(part.len)),
            Places::Zip => (part.len, self.len),
        })
    }

    /// Returns the combination that is the source of a part, if it is one.
    pub fn inner(&self, part: usize) -> Option<&Arc<Self>> {
        self.parts.get(part)?.inner.as_ref()
    }

    /// Returns the rows of a window of a part's first shuffle; 0 if it permutes all rows at once.
    pub fn window_rows(&self, part: usize) -> u64 {
        self.parts.get(part).map_or(0, |part| part.window_rows)
    }

    /// Returns the approximate bytes of the windows of all parts' shuffles that are in memory at once.
    pub fn window_memory(&self) -> u64 {
        let of = |part: &PartOrder| part.window_memory + part.inner.as_ref().map_or(0, |inner| inner.window_memory());
        self.parts.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Returns the seed of a part's random numbers.
    pub fn part_seed(seed: Seed, part: usize) -> Seed {
        Seed(op_key(Seed(seed.0 ^ PART_SEED), Epoch(0), part as u64))
    }

    /// Returns the first places of blocks for shuffles over windows behind it.
    pub(crate) fn block_starts(&self) -> Vec<u64> {
        let len = self.len.unwrap_or(0);
        (0..len.div_ceil(ROWS_IN_BLOCK)).map(|block| block * ROWS_IN_BLOCK).chain([len]).collect()
    }

    /// Returns the source rows of a part for rows of a zip, which are all below its length.
    pub fn zipped(&self, part: usize, rows: &[u64]) -> Vec<u64> {
        let (mut places, mut epochs) = (rows.to_vec(), vec![0; rows.len()]);
        if let Some(order) = self.parts.get(part) {
            // Without random ops, all seeds and epochs have the same order.
            PartFinder::new(order, Seed(0)).map(&mut places, &mut epochs);
        }
        places
    }

    /// Prepares the map for a seed.
    pub(crate) fn with_seed(&self, seed: Seed) -> RowFinder<'_> {
        RowFinder { of: self, seed, mix: MixFinder::default(), parts: self.parts.iter().map(|_| None).collect() }
    }
}

impl PartOrder {
    /// Returns the order of a part, and the number of its source rows.
    fn new(stages: &Stages, extent: &Extent, starts: Option<&BlockStarts>, sharers: u64) -> Result<(Self, u64)> {
        let inner = Combination::among(stages, extent, starts, sharers)?.map(Arc::new);
        let rows = match &inner {
            Some(inner) => inner.rows,
            None => extent.rows.ok_or_else(|| Error::internal("a part is not counted"))?,
        };
        let starts = starts.map(|starts| match &inner {
            Some(inner) => inner.block_starts(),
            None => starts.starts.clone(),
        });
        let ops = stages.order.iter().map(|step| (&step.node.op, step.random));
        let len = inner.as_ref().map_or(Some(rows), |inner| inner.len());
        let (window_rows, row_bytes) = sizing::window_rows(stages, extent, len, sharers)?;
        // Threads finish one window and begin the next.
        let window_memory = window_rows.saturating_mul(row_bytes).saturating_mul(2);
        let order = Order::new(len, Blocks { window_rows, starts }, ops)?;
        let len = order.len().ok_or_else(|| Error::internal("a part has no end"))?;
        Ok((Self { order, inner, window_rows, window_memory, first: 0, len, repetitions: 1 }, rows))
    }
}

fn check_not_empty(combined: &Combined, stop: Stop, lens: &[u64]) -> Result<()> {
    let empty = combined.parts.iter().zip(lens).find(|(_, len)| **len == 0);
    match empty {
        Some((part, _)) if stop != Stop::Once => {
            Err(Error::invalid(format!("mix: {:?} has no rows", part.name)).hint("leave it out, or use stop=\"once\""))
        }
        _ => Ok(()),
    }
}

fn zip_len(combined: &Combined, strict: bool, lens: &[u64]) -> Result<u64> {
    let first = lens.first().copied().unwrap_or(0);
    if let (true, Some(other)) = (strict, lens.iter().position(|len| *len != first)) {
        let name = |part: usize| &combined.parts[part].name;
        let message = format!("zip: {:?} has {first} rows, and {:?} has {}", name(0), name(other), lens[other]);
        return Err(Error::invalid(message).hint("use strict=False to leave the rest of the longer one out"));
    }
    Ok(lens.iter().copied().min().unwrap_or(0))
}

fn too_many(combined: &Combined) -> Error {
    Error::invalid(format!("{}: an epoch would have 2^63 rows or more", combined.name()))
        .hint("use stop=\"first\", or rows=")
}

/// The map of a job from places of a combination to source rows. Keeps what neighbouring places share.
#[derive(Debug)]
pub(crate) struct RowFinder<'a> {
    of: &'a Combination,
    seed: Seed,
    mix: MixFinder,
    parts: Vec<Option<Box<PartFinder<'a>>>>,
}

#[derive(Debug)]
struct PartFinder<'a> {
    order: EpochOrder<'a>,
    inner: Option<RowFinder<'a>>,
}

impl<'a> PartFinder<'a> {
    fn new(part: &'a PartOrder, seed: Seed) -> Self {
        let inner = part.inner.as_ref().map(|inner| inner.with_seed(seed));
        Self { order: part.order.of_epoch(seed, Epoch(0)), inner }
    }

    fn map(&mut self, places: &mut [u64], epochs: &mut [u64]) {
        self.order.map_in_epochs(places, epochs);
        if let Some(inner) = &mut self.inner {
            inner.map(places, epochs);
        }
    }
}

impl RowFinder<'_> {
    /// Replaces places by their source rows, and their epochs by those that key the randomness of the rows.
    pub(crate) fn map(&mut self, places: &mut [u64], epochs: &mut [u64]) {
        if matches!(self.of.how, Places::Zip) {
            return;
        }
        let mut found: Vec<(usize, usize)> = Vec::with_capacity(places.len());
        // Places of one window of a mix are looked up together.
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|at| (epochs[*at], places[*at]));
        for at in order {
            let (part, row) = self.part_of(places[at], Epoch(epochs[at]));
            let PartOrder { len, repetitions, .. } = &self.of.parts[part];
            let (again, row) = (row / len, row % len);
            (places[at], epochs[at]) = (row, epochs[at].wrapping_mul(*repetitions).wrapping_add(again));
            found.push((part, at));
        }
        found.sort_unstable();
        for of_part in found.chunk_by(|a, b| a.0 == b.0) {
            self.map_part(of_part, places, epochs);
        }
    }

    fn part_of(&mut self, place: u64, epoch: Epoch) -> (usize, u64) {
        match &self.of.how {
            Places::Mix(mix) => self.mix.find(mix, op_key(self.seed, epoch, MIX_STREAM), place),
            Places::Concatenate(starts) => {
                let part = starts.partition_point(|start| *start <= place).saturating_sub(1);
                (part, place - starts[part])
            }
            Places::Zip => (0, place),
        }
    }

    /// Maps the rows of one part: pairs of the part and an index of `places`.
    fn map_part(&mut self, found: &[(usize, usize)], places: &mut [u64], epochs: &mut [u64]) {
        let Some((number, _)) = found.first().copied() else { return };
        let part = &self.of.parts[number];
        let mut own: Vec<u64> = found.iter().map(|(_, at)| places[*at]).collect();
        let mut own_epochs: Vec<u64> = found.iter().map(|(_, at)| epochs[*at]).collect();
        let seed = Combination::part_seed(self.seed, number);
        let finder = self.parts[number].get_or_insert_with(|| Box::new(PartFinder::new(part, seed)));
        finder.map(&mut own, &mut own_epochs);
        for ((_, at), (row, epoch)) in found.iter().zip(own.into_iter().zip(own_epochs)) {
            (places[*at], epochs[*at]) = (part.first + row, epoch);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::epoch::epoch_plan::EpochPlan;
    use crate::graph::Node;
    use crate::ops::{self, Op};
    use crate::source::SourcePart;

    fn range(rows: u64, ops: &[Op]) -> Graph {
        let graph = Graph::new(Source::Range { start: 0, stop: rows as i64, step: 1 }, None).expect("a range");
        ops.iter().fold(graph, |graph, op| graph.then(Node::new(op.clone())).expect("an op"))
    }

    fn combined(how: Combining, parts: &[Graph]) -> Result<Graph> {
        let part =
            |(number, graph): (usize, &Graph)| SourcePart { name: number.to_string(), graph: graph.clone().into() };
        let parts = parts.iter().enumerate().map(part).collect();
        Graph::new(Source::Combined(Combined { how, parts, column: None }), None)
    }

    fn extent(source: &Source) -> Extent {
        let parts: Vec<Extent> = match source {
            Source::Combined(combined) => combined.parts.iter().map(|part| extent(part.graph.source())).collect(),
            _ => Vec::new(),
        };
        let sum = || parts.iter().filter_map(|part| part.rows).sum();
        let rows = Some(source.rows().unwrap_or_else(sum));
        Extent { rows, blocks: 1, bytes: 0, is_compressed: false, parts: parts.clone() }
    }

    /// Returns the source rows of an epoch, with their epochs.
    fn rows(graph: &Graph, seed: u64, epoch: u64, most: u64) -> Vec<(u64, u64)> {
        let stages = Stages::new(graph).expect("stages");
        let plan = EpochPlan::new(&stages, extent(graph.source()), Seed(seed), 1, None).expect("a plan");
        let (consumer, mut rows) = (forebay_core::ConsumerIndex(0), Vec::new());
        for split in 0..plan.num_splits(consumer).unwrap_or(u64::MAX) {
            for morsel in plan.morsels(consumer, forebay_core::Ordinal(split)) {
                plan.places(Epoch(epoch), consumer, morsel, |row, epoch| rows.push((row, epoch.0)));
            }
            if rows.len() as u64 >= most {
                break;
            }
        }
        rows
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            Just(Op::SHUFFLE),
            (1u64..4).prop_map(|n| Op::Repeat(ops::Repeat { count: Some(n) })),
            (20u64..400).prop_map(|count| Op::Take(ops::Take { count })),
            (0u64..10).prop_map(|count| Op::Skip(ops::Skip { count })),
            (1u64..4).prop_flat_map(|count| (0..count).prop_map(move |index| Op::Shard(ops::Shard { count, index }))),
        ]
    }

    fn parts() -> impl Strategy<Value = Vec<(u64, Vec<Op>)>> {
        prop::collection::vec((50u64..500, prop::collection::vec(op(), 0..3)), 2..5)
    }

    /// Returns the rows of one part, by a plan of that part alone.
    fn alone(part: &Graph, number: usize, seed: u64, epoch: u64) -> Vec<(u64, u64)> {
        rows(part, Combination::part_seed(Seed(seed), number).0, epoch, u64::MAX)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn rows_of_each_part_come_as_from_that_part_alone(parts in parts(), seed: u64, epoch in 0u64..9, count in 1u64..4000) {
            let graphs: Vec<Graph> = parts.iter().map(|(rows, ops)| range(*rows, ops)).collect();
            let firsts: Vec<u64> = parts.iter().scan(0, |sum, (rows, _)| { *sum += rows; Some(*sum - rows) }).collect();
            let of = |row: u64| firsts.partition_point(|first| *first <= row) - 1;
            let all = combined(Combining::Concatenate, &graphs).expect("a graph");
            let want: Vec<_> = graphs.iter().enumerate().flat_map(|(number, graph)| {
                alone(graph, number, seed, epoch).into_iter().map(|(row, epoch)| (firsts[number] + row, epoch)).collect::<Vec<_>>()
            }).collect();
            prop_assert_eq!(rows(&all, seed, epoch, u64::MAX), want);

            let weights: Vec<f64> = (1..=graphs.len()).map(|weight| weight as f64).collect();
            let is_empty = |(number, graph): (usize, &Graph)| alone(graph, number, seed, 0).is_empty();
            prop_assume!(!graphs.iter().enumerate().any(is_empty));
            for stop in [Stop::First, Stop::All, Stop::Once, Stop::Rows(count), Stop::Never] {
                let mixed = combined(Combining::Mix { weights: weights.clone(), stop }, &graphs).expect("a graph");
                let got = rows(&mixed, seed, epoch, 2000);
                for (number, graph) in graphs.iter().enumerate() {
                    let own: Vec<_> = got.iter().filter(|(row, _)| of(*row) == number).map(|(row, _)| row - firsts[number]).collect();
                    let once: Vec<u64> = alone(graph, number, seed, epoch).into_iter().map(|(row, _)| row).collect();
                    prop_assert!(own.len() <= once.len() || !matches!(stop, Stop::First | Stop::Once));
                    let mut sorted = once.clone();
                    sorted.sort_unstable();
                    // Each time it is read, it has the same rows; the first time in an epoch that only this part names.
                    for time in own.chunks_exact(once.len()) {
                        let mut time = time.to_vec();
                        time.sort_unstable();
                        prop_assert_eq!(&time, &sorted);
                    }
                    if matches!(stop, Stop::First | Stop::Once) {
                        prop_assert_eq!(&own[..], &once[..own.len()]);
                    }
                }
            }
        }
    }

    #[test]
    fn a_part_that_begins_again_is_shuffled_anew_and_unlike_any_other() {
        let same = range(500, &[Op::SHUFFLE]);
        let mix = Combining::Mix { weights: vec![1.0, 1.0], stop: Stop::Rows(2000) };
        let mixed = combined(mix, &[same.clone(), same]).expect("a graph");
        let got = rows(&mixed, 3, 0, u64::MAX);
        let of = |part: u64| -> Vec<u64> {
            got.iter().filter(|(row, _)| row / 500 == part).map(|(row, _)| row % 500).collect()
        };
        let (first, second) = (of(0), of(1));
        let orders = [&first[..500], &first[500..], &second[..500], &second[500..]];
        for (at, order) in orders.iter().enumerate() {
            assert!(!orders[..at].contains(order), "{at}");
        }
        assert_ne!(rows(&mixed, 3, 1, u64::MAX), got, "another epoch");
    }

    #[test]
    fn combinations_lie_in_each_other() {
        let inner = combined(Combining::Concatenate, &[range(3, &[]), range(4, &[])]).expect("a graph");
        let shard = |index| Node::new(Op::Shard(ops::Shard { count: 2, index }));
        let half = inner.then(shard(1)).expect("an op");
        let zip = combined(Combining::Zip { strict: false }, &[range(2, &[]), half.clone()]);
        assert!(zip.is_err(), "both have a column id");
        let all = combined(Combining::Concatenate, &[range(2, &[]), half, range(1, &[])]).expect("a graph");
        let got: Vec<u64> = rows(&all, 1, 2, u64::MAX).into_iter().map(|(row, _)| row).collect();
        assert_eq!(got, [0, 1, 2 + 1, 2 + 3, 2 + 5, 2 + 7]);
        let again = Graph::from_json(&all.to_json()).expect("its own json");
        assert_eq!((&again, again.dataset_id()), (&all, all.dataset_id()));
    }

    #[test]
    fn graphs_that_cannot_be_parts_are_refused() {
        let mix = |weights: &[f64]| Combining::Mix { weights: weights.to_vec(), stop: Stop::First };
        let two = [range(3, &[]), range(4, &[])];
        for weights in [&[1.0][..], &[0.0, 1.0], &[-1.0, 1.0], &[f64::NAN, 1.0], &[f64::INFINITY, 1.0], &[1e-20, 1.0]] {
            assert!(combined(mix(weights), &two).is_err(), "{weights:?}");
        }
        let batch = Op::Batch(ops::Batch { size: 2, drop_remainder: false });
        let endless = Op::Repeat(ops::Repeat { count: None });
        for op in [batch, endless, Op::Cache(ops::Cache { freeze: false })] {
            let error =
                combined(mix(&[1.0, 1.0]), &[range(3, std::slice::from_ref(&op)), range(3, &[])]).expect_err("refused");
            assert!(error.get("hint").is_some() && error.get("part") == Some("0"), "{error}");
        }
        assert!(combined(mix(&[1.0]), &two[..1]).is_err(), "one dataset");
        let endless = combined(Combining::Mix { weights: vec![1.0; 2], stop: Stop::Never }, &two).expect("a graph");
        assert!(combined(Combining::Concatenate, &[endless, range(3, &[])]).is_err());
        let deep = (0..9).try_fold(range(3, &[]), |graph, _| combined(Combining::Concatenate, &[graph, range(1, &[])]));
        assert!(deep.is_err());
    }
}
