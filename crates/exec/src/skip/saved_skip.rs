//! A skipped sample in a saved state.
//!
//! A state keeps only the samples that might not fail again: a resumed run computes the others again and skips them by
//! itself. It must skip these even if they succeed, or its rows would differ from those of the saved run.

use forebay_core::{Epoch, Error, SampleId};
use forebay_data::{Loss, RowId};
use serde::{Deserialize, Serialize};

use crate::skip::known_skips::KnownSkips;
use crate::skip::skip_log::SkippedSample;

/// A skipped sample, and its error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSkip {
    /// The epoch of the stream.
    pub epoch: u64,
    split: u64,
    sample: u64,
    repetition: u64,
    error: Error,
}

impl SavedSkip {
    /// Creates the saved form of a skipped sample.
    pub fn of(skipped: &SkippedSample) -> Self {
        let SkippedSample { epoch, split, loss } = skipped;
        Self {
            epoch: epoch.0,
            split: *split,
            sample: loss.row.sample.0,
            repetition: loss.row.epoch.0,
            error: loss.error.clone(),
        }
    }

    /// Returns the skipped sample, without its record.
    pub fn to_skipped(&self) -> SkippedSample {
        let row = RowId { sample: SampleId(self.sample), epoch: Epoch(self.repetition) };
        let loss = Loss { row, error: self.error.clone(), record: None };
        SkippedSample { epoch: Epoch(self.epoch), split: self.split, loss }
    }

    /// Returns the rows that a stream of this process must skip from the start.
    pub fn known_skips(all: &[Self]) -> KnownSkips {
        KnownSkips::of(&all.iter().map(Self::to_skipped).collect::<Vec<_>>())
    }
}
