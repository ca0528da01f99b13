//! Datasets that are read as one: the map from a place of their rows to a row of one of their sources.
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
use crate::epoch::mix::interleave::Interleaving;
use crate::epoch::mix::{Mix, MixFinder, NoPlan};
use crate::epoch::order::{Blocks, EpochOrder, FOREVER, Order};
use crate::epoch::window;
use crate::graph::Graph;
use crate::physical::sizing;
use crate::physical::stages::Stages;
use crate::source::windows;
use crate::source::{Combined, Combining, Source, Stop};

/// Rows of a block of datasets that are read as one, over which a shuffle behind them may have windows.
const ROWS_IN_BLOCK: u64 = 65_536;
/// The number of the random stream that orders a mix. No op has it.
pub(super) const MIX_STREAM: u64 = u64::MAX;
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
    /// The source rows of all parts; the rows themselves of a zip, and windows.
    rows: u64,
}

/// Where the rows of each part are.
#[derive(Debug, Clone)]
enum Places {
    Mix(Mix),
    /// The first place of each part, and the number of places.
    Concatenate(Vec<u64>),
    Interleave(Interleaving),
    Zip,
    Window {
        size: u64,
        stride: u64,
    },
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
            Combining::Mix { weights, stop, changes, per_batch } => {
                check_not_empty(combined, *stop, &lens)?;
                let mix = Mix::new(weights, changes.as_ref(), *stop, &lens);
                let mix = mix.map_err(|why| match why {
                    NoPlan::TooMany => too_many(combined),
                    NoPlan::NeverRead(part) => never_read(&combined.parts[part].name),
                })?;
                let mix = mix.per_batch(*per_batch);
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
            Combining::Interleave { cycle, block } => {
                let plan = Interleaving::new(*cycle, *block, &lens).ok_or_else(|| too_many(combined))?;
                let len = plan.len();
                (Places::Interleave(plan), Some(len))
            }
            Combining::Window { size, stride, drop_remainder } => {
                let of = lens.first().copied().unwrap_or(0);
                rows = windows::count(of, *size, *stride, *drop_remainder);
                (Places::Window { size: *size, stride: *stride }, Some(rows))
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
            Places::Concatenate(_) | Places::Interleave(_) | Places::Window { .. } => (part.len, Some(part.len)),
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

    /// Returns the source rows of a part for rows of a zip, or of a window's dataset, which are all below its length.
    pub fn zipped(&self, part: usize, rows: &[u64]) -> Vec<u64> {
        let (mut places, mut epochs) = (rows.to_vec(), vec![0; rows.len()]);
        if let Some(order) = self.parts.get(part) {
            // Without random ops, all seeds and epochs have the same order.
            PartFinder::new(order, Seed(0)).map(&mut places, &mut epochs);
        }
        places
    }

    /// Returns the rows of a window, by their places in the dataset that it is of; `None` for other combinations.
    pub fn window(&self, number: u64) -> Option<std::ops::Range<u64>> {
        let Places::Window { size, stride } = self.how else { return None };
        let (first, len) = (number.checked_mul(stride)?, self.parts.first()?.len);
        Some(first.min(len)..first.saturating_add(size).min(len))
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
        let window_memory = match window_rows {
            0 => 0,
            _ => window::rows_of_two_windows(window_rows, sizing::block_rows(extent)).saturating_mul(row_bytes),
        };
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

/// Returns the error for a dataset that should be read whole, and has rows left where its weight is 0 to the end.
pub fn never_read(name: &str) -> Error {
    Error::invalid(format!("mix: the weight of {name:?} is 0 before it has been read whole, and stays 0"))
        .hint("give it a weight at the last row of the schedule, or use rows=, stop=\"first\" or stop=None")
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
    /// Replaces places by their source rows, and their epochs by the epochs that key the randomness of the rows.
    pub(crate) fn map(&mut self, places: &mut [u64], epochs: &mut [u64]) {
        if matches!(self.of.how, Places::Zip | Places::Window { .. }) {
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
            Places::Interleave(plan) => plan.find(place),
            Places::Zip | Places::Window { .. } => (0, place),
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
mod tests;
