//! The rows that a stream must skip again, because they failed once and might not fail again.

use std::collections::HashMap;

use forebay_core::{Epoch, Error, Fault};
use forebay_data::{Loss, RowId};

use crate::skip::skip_log::SkippedSample;

/// The rows that a stream must skip again, by the job's epoch, with their errors.
#[derive(Debug, Clone, Default)]
pub struct KnownSkips(HashMap<(u64, RowId), Error>);

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

    /// Adds a row of an epoch, with its error.
    pub fn add(&mut self, epoch: Epoch, row: RowId, error: Error) {
        self.0.entry((epoch.0, row)).or_insert(error);
    }

    /// Says whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, epoch: Epoch, row: RowId) -> Option<&Error> {
        if self.is_empty() { None } else { self.0.get(&(epoch.0, row)) }
    }
}
