//! The ids of rows that a Python source numbers by itself.

use std::sync::Arc;

use forebay_core::SampleId;
use forebay_data::RowId;
use forebay_io::Place;

/// Returns the ids of the rows at `places`.
pub(crate) fn numbered(places: &[Place]) -> Arc<[RowId]> {
    places.iter().map(|p| RowId { sample: numbered_sample(p.row), epoch: p.epoch }).collect()
}

/// Returns the sample id of a row by its number.
pub(crate) fn numbered_sample(row: u64) -> SampleId {
    SampleId::new(row >> 16, row & 0xFFFF)
}
