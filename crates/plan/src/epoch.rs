//! The epoch plan: which rows make which split, for each consumer. Computed from a few numbers, stored nowhere.
//!
//! Rows are dealt in **units**: a batch where the plan aligns splits with batches, else a run of rows (or a source
//! block that is read from its start). Unit `u` of an epoch belongs to consumer `u mod n`, so the global sequence of
//! batches is the same for any number of consumers. A split is a run of a consumer's units; a **morsel** is the part
//! of a split that a thread computes at once.
//!
//! Invariants: every unit is in exactly one split; sizes depend on the pipeline and the source alone, so morsels,
//! and with them everything that a user's batched function sees, are the same everywhere.

use std::ops::Range;

use forebay_core::{ConsumerIndex, Epoch, Ordinal, Result, Seed};
use forebay_data::{Kind, Schema};
use serde::{Deserialize, Serialize};

use crate::order::Order;
use crate::stages::{Stages, Work};

/// What is known of a source when a job starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Its rows, if they were counted.
    pub rows: Option<u64>,
    /// Its blocks.
    pub blocks: u64,
    /// Its bytes, as stored.
    pub bytes: u64,
}

/// How an epoch is cut. Fixed once for a job and recorded with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizing {
    /// Rows in a unit; 0 where a unit is a source block of unknown length.
    pub unit_rows: u64,
    /// Units in a morsel; at least 1.
    pub morsel_units: u64,
    /// Units in a split; at least 1.
    pub split_units: u64,
}

/// What a morsel should give at most, unless one unit is more.
const MORSEL_BYTES: u64 = 1 << 20;
/// What a split should give at most, unless one unit is more: recovery costs a few of these.
const SPLIT_BYTES: u64 = 16 << 20;
/// An epoch should have this many splits for each consumer, so that many workers can share it.
const SPLITS_MIN: u64 = 64;
/// The most rows of a morsel: columns of this many numbers stay in the second level cache.
const MORSEL_ROWS: u64 = 16_384;
/// The text that is tokenized at once: a few milliseconds' work.
const MORSEL_TEXT_BYTES: u64 = 128 << 10;
/// The unit of rows that are not batched by the plan.
const UNIT_ROWS: u64 = 64;

impl Sizing {
    /// Chooses sizes for a pipeline over a source.
    pub fn choose(stages: &Stages, extent: Extent, places: Option<u64>, consumers: u32) -> Result<Self> {
        let Some(rows) = extent.rows else { return Ok(Self { unit_rows: 0, morsel_units: 1, split_units: 1 }) };
        let source_row = (extent.bytes / rows.max(1)).max(1);
        let row = row_bytes(&*stages.split_schema()?, source_row).max(1);
        let unit_rows = stages.unit.map_or(UNIT_ROWS, |size| size as u64);
        let units = |bytes: u64| (bytes / row / unit_rows).max(1);
        let rows_max = rows_max(&stages.split, source_row);
        let morsel_units = units(MORSEL_BYTES).min((rows_max / unit_rows).max(1));
        let total = places.map_or(u64::MAX, |p| p.div_ceil(unit_rows));
        let share = (total / SPLITS_MIN / u64::from(consumers.max(1))).max(1);
        let split_units = units(SPLIT_BYTES).min(share).next_multiple_of(morsel_units);
        // A split that is cut short for the sake of sharing need not be a whole number of large morsels.
        let split_units = if share < morsel_units { share } else { split_units };
        Ok(Self { unit_rows, morsel_units: morsel_units.min(split_units), split_units })
    }
}

/// The most rows of a morsel. Work that costs more than a copy comes in small morsels, so that threads share it evenly.
fn rows_max(works: &[Work], source_row: u64) -> u64 {
    let cost = |work: &Work| match work {
        Work::Table(_) => MORSEL_ROWS,
        Work::Tokenize(_) => (MORSEL_TEXT_BYTES / source_row).clamp(UNIT_ROWS, MORSEL_ROWS),
        Work::Image { .. } | Work::Function(_) | Work::Mix(_) => UNIT_ROWS,
    };
    works.iter().map(cost).min().unwrap_or(MORSEL_ROWS)
}

/// Bytes of a row where the schema knows them; guesses from the stored size where it does not.
fn row_bytes(schema: &Schema, source_row: u64) -> u64 {
    let column = |kind: &Kind| match kind.row_bytes() {
        Some(bytes) => bytes as u64,
        // Decoded images are about ten times their files; token ids are about as long as their text.
        None if matches!(kind, Kind::Tensor { shape, .. } if shape.len() > 1) => source_row * 10,
        None => source_row,
    };
    schema.fields().iter().map(|f| column(&f.kind)).sum()
}

/// The part of a split that a thread computes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Morsel {
    /// Units `first..first + count` of the consumer's sequence.
    Units {
        /// The first.
        first: u64,
        /// How many.
        count: u64,
    },
    /// One source block, read from its start.
    Block {
        /// Which one.
        block: u64,
    },
}

/// The plan of a job's epochs.
#[derive(Debug, Clone)]
pub struct EpochPlan {
    order: Option<Order>,
    blocks: u64,
    consumers: u32,
    sizing: Sizing,
    seed: Seed,
    /// Places in the order that are dealt: without the remainder that `drop_remainder` leaves out.
    places: Option<u64>,
}

impl EpochPlan {
    /// Plans the epochs of a pipeline over a source, choosing sizes unless the job has recorded them.
    ///
    /// # Errors
    /// Invalid when the order ops do not go together.
    pub fn new(stages: &Stages, extent: Extent, seed: Seed, consumers: u32, sizing: Option<Sizing>) -> Result<Self> {
        let order = match extent.rows {
            Some(rows) => Some(Order::new(rows, stages.order.iter().map(|s| (&s.node.op, s.random)))?),
            None => None,
        };
        let places = order.as_ref().and_then(Order::len).map(|len| match stages.aligned {
            Some(b) if b.drop_remainder => len - len % b.size as u64,
            _ => len,
        });
        let sizing = match sizing {
            Some(sizing) => sizing,
            None => Sizing::choose(stages, extent, places, consumers)?,
        };
        Ok(Self { order, blocks: extent.blocks, consumers: consumers.max(1), sizing, seed, places })
    }

    /// Returns the sizes, to be recorded with the job.
    pub fn sizing(&self) -> Sizing {
        self.sizing
    }

    /// Returns the number of consumers.
    pub fn consumers(&self) -> u32 {
        self.consumers
    }

    /// Returns the rows that an epoch gives before any filter; `None` when endless or not known.
    pub fn rows(&self) -> Option<u64> {
        self.places
    }

    /// Says whether an epoch never ends.
    pub fn is_endless(&self) -> bool {
        self.order.as_ref().is_some_and(|o| o.len().is_none())
    }

    /// Returns the units of an epoch over all consumers; `None` is endless.
    fn units(&self) -> Option<u64> {
        match &self.order {
            Some(_) => self.places.map(|p| p.div_ceil(self.sizing.unit_rows)),
            None => Some(self.blocks),
        }
    }

    /// Returns the units of one consumer; `None` is endless.
    pub fn consumer_units(&self, consumer: ConsumerIndex) -> Option<u64> {
        let (n, i) = (u64::from(self.consumers), u64::from(consumer.0));
        self.units().map(|u| (u + n - 1 - i) / n)
    }

    /// Returns the splits of one consumer's epoch; `None` is endless.
    pub fn num_splits(&self, consumer: ConsumerIndex) -> Option<u64> {
        self.consumer_units(consumer).map(|u| u.div_ceil(self.sizing.split_units))
    }

    /// Returns the units of the consumer's sequence that a split covers.
    pub fn split_units(&self, consumer: ConsumerIndex, split: Ordinal) -> Range<u64> {
        let end = self.consumer_units(consumer).unwrap_or(u64::MAX);
        let first = split.0.saturating_mul(self.sizing.split_units).min(end);
        first..first.saturating_add(self.sizing.split_units).min(end)
    }

    /// Returns the split that holds a unit of the consumer's sequence.
    pub fn split_of_unit(&self, unit: u64) -> Ordinal {
        Ordinal(unit / self.sizing.split_units)
    }

    /// Returns the morsels of a split, in order.
    pub fn morsels(&self, consumer: ConsumerIndex, split: Ordinal) -> impl Iterator<Item = Morsel> + use<> {
        let units = self.split_units(consumer, split);
        let size = self.sizing.morsel_units;
        let counted = self.order.is_some();
        let (n, i) = (u64::from(self.consumers), u64::from(consumer.0));
        units.clone().step_by(size as usize).map(move |first| match counted {
            true => Morsel::Units { first, count: size.min(units.end - first) },
            false => Morsel::Block { block: first * n + i },
        })
    }

    /// Calls `see` with the source row and the random epoch of each row of a morsel, in order.
    pub fn places(&self, epoch: Epoch, consumer: ConsumerIndex, morsel: Morsel, mut see: impl FnMut(u64, Epoch)) {
        let (Some(order), Morsel::Units { first, count }) = (&self.order, morsel) else { return };
        let mut at = order.of_epoch(self.seed, epoch);
        let end = self.places.unwrap_or(u64::MAX);
        for unit in first..first + count {
            let global = unit * u64::from(self.consumers) + u64::from(consumer.0);
            let start = global * self.sizing.unit_rows;
            for place in start..(start + self.sizing.unit_rows).min(end) {
                let (row, epoch) = at.at(place);
                see(row, epoch);
            }
        }
    }

    /// Returns the seed.
    pub fn seed(&self) -> Seed {
        self.seed
    }
}
