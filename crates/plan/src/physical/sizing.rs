//! The sizes of units, morsels and splits. They depend on the pipeline and the source alone.

use forebay_core::{Error, Result};
use forebay_data::{Kind, Schema};
use serde::{Deserialize, Serialize};

use crate::epoch::extent::Extent;
use crate::epoch::window;
use crate::physical::stages::Stages;
use crate::physical::steps::FusedOp;
use crate::source::{Combining, Source, SourcePart};

/// The sizes of a job's units, morsels and splits. Fixed once for a job and recorded with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizing {
    /// Rows in a unit; 0 if a unit is a source block of unknown length.
    pub unit_rows: u64,
    /// Units in a morsel; at least 1.
    pub morsel_units: u64,
    /// Units in a split; at least 1.
    pub split_units: u64,
    /// Rows in a window of the first shuffle; 0 if it permutes all rows at once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub window_rows: u64,
    /// Bytes of a window of a shuffle whose rows are not counted: as stored, or the content of compressed files; 0 if there
    /// is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub window_bytes: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The most output of a morsel, unless one unit has more.
const MORSEL_BYTES: u64 = 1 << 20;
/// The most output of a split, unless one unit has more: recovery recomputes a few splits.
const SPLIT_BYTES: u64 = 16 << 20;
/// An epoch should have this many splits for each consumer, so that many workers can share it.
const SPLITS_MIN: u64 = 64;
/// The most rows of a morsel: columns of this many numbers stay in the second level cache.
const MORSEL_ROWS: u64 = 16_384;
/// The most rows of a morsel of which each becomes several.
const EXPANDED_ROWS: u64 = 256;
/// As [`EXPANDED_ROWS`], where a Python function makes the rows: clips of videos, or documents, may be large.
const FLAT_MAP_ROWS: u64 = 8;
/// The most rows of a morsel of sound: minutes of it may have a hundred megabytes. Threads share the rows of a morsel.
const SOUND_ROWS: u64 = 16;
/// The text that is tokenized at once: a few milliseconds of work.
const MORSEL_TEXT_BYTES: u64 = 128 << 10;
/// The unit of rows that are not batched by the plan, in an epoch that is long enough.
const UNIT_ROWS: u64 = 64;
/// A shorter epoch of such rows has at least as many units as this, or one for each row: the rows that even shares
/// drop, less than a unit for each consumer, should be few.
const UNITS_MIN: u64 = 4096;

impl Sizing {
    /// Returns the sizes, if they fit this pipeline.
    ///
    /// # Errors
    /// Invalid if they do not.
    pub(crate) fn check(self, stages: &Stages, counted: bool) -> Result<Self> {
        let unit = stages.unit.map(|size| size as u64).filter(|_| counted);
        let is_streamed = window::lane_window_bytes(&stages.graph).is_some();
        let fits = (self.unit_rows > 0) == counted
            && unit.is_none_or(|unit| unit == self.unit_rows)
            && (self.window_bytes > 0) == is_streamed;
        if !fits || self.morsel_units == 0 || self.split_units == 0 {
            return Err(Error::invalid("the recorded sizes are not those of this pipeline")
                .hint("a saved state fits the pipeline that it was saved with"));
        }
        Ok(self)
    }

    /// Returns the first unit of a chunk in its consumer's epoch, if rows are counted.
    pub fn first_unit(&self, split: u64, chunk: u64) -> u64 {
        split.saturating_mul(self.split_units).saturating_add(chunk.saturating_mul(self.morsel_units))
    }

    /// Returns the rows of the source in a chunk of a full split, if rows are counted; 0 behind its end.
    pub fn chunk_rows(&self, chunk: u64) -> u64 {
        let before = chunk.saturating_mul(self.morsel_units);
        self.morsel_units.min(self.split_units.saturating_sub(before)).saturating_mul(self.unit_rows)
    }

    /// Returns the split and the chunk of a unit in a consumer's epoch, and the unit's index in the chunk.
    pub fn find_unit(&self, unit: u64) -> (u64, u64, u64) {
        let (split, inside) = (unit / self.split_units, unit % self.split_units);
        (split, inside / self.morsel_units, inside % self.morsel_units)
    }

    /// Returns the approximate bytes of the windows that are in memory at once, regardless of the memory limit; 0 if
    /// all rows are shuffled at once, or not at all.
    pub fn window_memory(&self, stages: &Stages, extent: &Extent) -> Result<u64> {
        let stored = stored_row(&stages.source, extent);
        let decoded = stored.saturating_mul(stages.source.facts().expansion);
        let row = row_bytes(&stages.source.schema()?, decoded).max(1);
        // Threads finish one window and begin the next; windows of files are read whole before that.
        let counted = match self.window_rows {
            0 => 0,
            window_rows => window::rows_of_two_windows(window_rows, block_rows(extent)).saturating_mul(row),
        };
        Ok(counted.max(self.window_bytes.saturating_mul(window::STREAMED_AT_ONCE)))
    }

    /// Chooses sizes for a pipeline over a source, which gives `given` rows to its first op (`None` is endless).
    pub(crate) fn choose(
        stages: &Stages,
        extent: &Extent,
        given: Option<u64>,
        places: Option<u64>,
        consumers: u32,
    ) -> Result<Self> {
        if extent.rows.is_none() {
            let window_bytes = window::lane_window_bytes(&stages.graph).unwrap_or(0);
            return Ok(Self { unit_rows: 0, morsel_units: 1, split_units: 1, window_rows: 0, window_bytes });
        }
        let source_row = stored_row(&stages.source, extent);
        let (window_rows, _) = window_rows(stages, extent, given, 1)?;
        let row = row_bytes(&*stages.split_schema()?, source_row).max(1);
        let unit_rows =
            stages.unit.map_or_else(|| unit_rows(places).min(rows_max(&stages.split, source_row)), |size| size as u64);
        let units = |bytes: u64| (bytes / row / unit_rows).max(1);
        let rows_max = stages.all_ops().map(|ops| rows_max(ops, source_row)).min().unwrap_or(MORSEL_ROWS);
        // Rows that are made of one row are computed together.
        let rows_max = rows_max.saturating_mul(stages.fan_out().map_or(1, |(_, made)| made));
        let morsel_units = units(MORSEL_BYTES).min((rows_max / unit_rows).max(1));
        let total = places.map_or(u64::MAX, |p| p.div_ceil(unit_rows));
        let least = if stages.unit.is_some() { 1 } else { UNIT_ROWS / unit_rows };
        let share = (total / SPLITS_MIN / u64::from(consumers.max(1))).max(least);
        let split_units = units(SPLIT_BYTES).min(share).next_multiple_of(morsel_units);
        // A split that is shortened for sharing among consumers need not be a whole number of large morsels.
        let split_units = if share < morsel_units { share } else { split_units };
        let of_ordinal = unit_rows.saturating_mul(u64::from(consumers.max(1)));
        let split_units = dividing(split_units, window_rows, of_ordinal);
        Ok(Self { unit_rows, morsel_units: morsel_units.min(split_units), split_units, window_rows, window_bytes: 0 })
    }
}

/// Returns the units of a split, at most `wanted`, so that splits divide a window. `of_ordinal` is the rows of one unit of
/// each consumer. If no number from half of `wanted` on divides the window, returns `wanted`.
fn dividing(wanted: u64, window_rows: u64, of_ordinal: u64) -> u64 {
    let units = window_rows / of_ordinal.max(1);
    if units == 0 || !window_rows.is_multiple_of(of_ordinal) {
        return wanted;
    }
    let most = wanted.min(units);
    (most.div_ceil(2)..=most).rev().find(|split| units.is_multiple_of(*split)).unwrap_or(wanted)
}

/// Returns the rows of a window of the first shuffle over a counted source, which gives `given` rows to it (`None` is
/// endless); 0 if it permutes all rows at once. Also returns the bytes of a row in memory. The source shares the memory
/// for windows with others: `sharers` is the number of all.
///
/// # Errors
/// As [`window::rows`].
pub(crate) fn window_rows(stages: &Stages, extent: &Extent, given: Option<u64>, sharers: u64) -> Result<(u64, u64)> {
    if extent.rows.is_none() {
        return Ok((0, 0));
    }
    let source_row = stored_row(&stages.source, extent);
    let decoded_row = source_row.saturating_mul(stages.source.facts().expansion);
    let read_row = row_bytes(&stages.source.schema()?, decoded_row).max(1);
    let rows = window::rows(&stages.order, &stages.source, given.unwrap_or(u64::MAX), read_row, sharers)?;
    Ok((rows, read_row))
}

/// Returns the rows of a block, on average.
pub(crate) fn block_rows(extent: &Extent) -> u64 {
    extent.rows.unwrap_or(0).div_ceil(extent.blocks.max(1))
}

/// Returns the bytes of a row of a source, as stored. Rows that windows share count for each of them.
fn stored_row(source: &Source, extent: &Extent) -> u64 {
    let stored = (extent.bytes / extent.rows.unwrap_or(0).max(1)).max(1);
    let Source::Combined(combined) = source else { return stored };
    if !combined.has_windows() {
        return stored;
    }
    let of = |(part, extent): (&SourcePart, &Extent)| stored_row(part.graph.source(), extent);
    let most = combined.parts.iter().zip(&extent.parts).map(of).max().unwrap_or(stored);
    match (&combined.how, combined.parts.first()) {
        (Combining::Window { size, .. }, Some(part)) => {
            let fields = part.graph.schema().fields().iter();
            let known: usize = fields.filter_map(|field| field.kind.row_bytes()).sum();
            most.max(known as u64).saturating_mul(*size)
        }
        _ => most,
    }
}

/// Returns the unit of rows that the plan does not batch: a power of two, so that saved states still fit a source that
/// has grown.
fn unit_rows(places: Option<u64>) -> u64 {
    let most = places.map_or(UNIT_ROWS, |p| (p / UNITS_MIN).clamp(1, UNIT_ROWS));
    1 << most.ilog2()
}

/// Returns the most rows of a morsel. Ops that cost more than a copy get small morsels, so that threads share the work
/// evenly.
fn rows_max(fused_ops: &[FusedOp], source_row: u64) -> u64 {
    let cost = |fused: &FusedOp| match fused {
        FusedOp::Table(_) | FusedOp::Pad(_) | FusedOp::Number(_) => MORSEL_ROWS,
        FusedOp::Tokenize(_) | FusedOp::TrainingForm(_) => {
            (MORSEL_TEXT_BYTES / source_row).clamp(UNIT_ROWS, MORSEL_ROWS)
        }
        FusedOp::FlatMap(_) => FLAT_MAP_ROWS,
        FusedOp::Audio(_) => SOUND_ROWS,
        FusedOp::Image { .. } | FusedOp::Function(_) | FusedOp::Mix(_) => UNIT_ROWS,
    };
    let cost = |fused: &FusedOp| if fused.makes_rows() { cost(fused).min(EXPANDED_ROWS) } else { cost(fused) };
    fused_ops.iter().map(cost).min().unwrap_or(MORSEL_ROWS)
}

/// Returns the bytes of a row by the schema; for columns without a fixed size, an estimate from the stored size.
fn row_bytes(schema: &Schema, source_row: u64) -> u64 {
    let column = |kind: &Kind| match kind.row_bytes() {
        Some(bytes) => bytes as u64,
        // Decoded images are about ten times their files; token ids are about as long as their text.
        None if matches!(kind, Kind::Tensor { shape, .. } if shape.len() > 1) => source_row * 10,
        None => source_row,
    };
    schema.fields().iter().map(|f| column(&f.kind)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_divide_a_window_where_a_number_near_the_wanted_one_does() {
        // Windows of 96 batches; for two consumers, of 48 batches each.
        assert_eq!(dividing(18, 393_216, 4096), 16);
        assert_eq!(dividing(18, 393_216, 2 * 4096), 16);
        assert_eq!(dividing(200, 393_216, 4096), 96, "a split is no longer than a window");
        assert_eq!(dividing(5, 7 * 64, 64), 5, "seven splits are too many");
        assert_eq!(dividing(18, 393_216, 1000), 18, "batches do not divide the window");
        assert_eq!(dividing(18, 0, 4096), 18);
        assert_eq!(dividing(18, 4096, 8192), 18);
    }
}
