//! The rows that a stream must skip again, because they failed once and might not fail again.

use std::collections::HashMap;

use forebay_core::{Epoch, Error, Fault, SampleId};
use forebay_data::{Loss, RowId};

use crate::skip::skip_log::SkippedSample;

/// The rows that a stream must skip again, by the job's epoch, with their errors.
#[derive(Debug, Clone, Default)]
pub struct KnownSkips {
    rows: HashMap<(u64, RowId), Error>,
    /// Whether rows are found by their ids alone, without the epoch of the stream. Ids differ between epochs.
    by_id: bool,
}

impl KnownSkips {
    /// Returns the rows of samples that a stream has skipped.
    pub fn of(skipped: &[SkippedSample]) -> Self {
        let mut known_skips = Self::default();
        for SkippedSample { epoch, loss, .. } in skipped {
            known_skips.add(*epoch, loss.row, loss.error.clone());
        }
        known_skips
    }

    /// Returns the first unknown loss that a process caused (it died, or took too long): its row might not fail again.
    pub fn first_unknown<'l>(&self, epoch: Epoch, losses: &'l [Loss]) -> Option<&'l Loss> {
        losses.iter().find(|loss| loss.error.fault() == Fault::Process && self.get(epoch, loss.row).is_none())
    }

    /// Returns the rows of one dataset of a mix. `own` returns the id that a sample of that dataset has in it. The rows
    /// are found by their ids alone, because the dataset counts its own epochs.
    pub(crate) fn of_part(&self, own: impl Fn(SampleId) -> Option<SampleId>) -> Self {
        let rows = self.rows.iter().filter_map(|((_, row), error)| {
            own(row.sample).map(|sample| ((0, RowId { sample, ..*row }), error.clone()))
        });
        Self { rows: rows.collect(), by_id: true }
    }

    /// Adds a row of an epoch, with its error.
    pub fn add(&mut self, epoch: Epoch, row: RowId, error: Error) {
        self.rows.entry((epoch.0, row)).or_insert(error);
    }

    /// Says whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn get(&self, epoch: Epoch, row: RowId) -> Option<&Error> {
        let epoch = if self.by_id { 0 } else { epoch.0 };
        if self.is_empty() { None } else { self.rows.get(&(epoch, row)) }
    }
}
