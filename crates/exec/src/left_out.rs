//! Samples that were left out, as a saved state keeps them.
//!
//! Only those that might not fail again are kept: a resumed run computes the others again and leaves them out by itself,
//! but must leave these out whatever they do, or its rows would not be those of the run that was saved.

use forebay_core::{Epoch, Error, SampleId};
use forebay_data::{Loss, RowId};
use serde::{Deserialize, Serialize};

use crate::budget::Lost;
use crate::isolate::Known;

/// A sample that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The epoch of the stream.
    pub epoch: u64,
    split: u64,
    sample: u64,
    repetition: u64,
    error: Error,
}

impl LeftOut {
    /// Writes down what was lost.
    pub fn of(lost: &Lost) -> Self {
        let Lost { epoch, split, loss } = lost;
        Self {
            epoch: epoch.0,
            split: *split,
            sample: loss.row.sample.0,
            repetition: loss.row.epoch.0,
            error: loss.error.clone(),
        }
    }

    /// Returns what was lost, without its record.
    pub fn lost(&self) -> Lost {
        let row = RowId { sample: SampleId(self.sample), epoch: Epoch(self.repetition) };
        let loss = Loss { row, error: self.error.clone(), record: None };
        Lost { epoch: Epoch(self.epoch), split: self.split, loss }
    }

    /// Returns what a stream in this process leaves out from the start.
    pub fn known(all: &[Self]) -> Known {
        Known::of(&all.iter().map(Self::lost).collect::<Vec<_>>())
    }
}
