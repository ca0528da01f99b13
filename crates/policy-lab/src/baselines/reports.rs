//! Joins windows to longer ones, as the published policies count: so many batches, after so many ignored ones.

use forebay_policy::scaling::Observation;

/// The batch counting of a client of Cachew or Pecan.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reports {
    /// Batches that are ignored after a change.
    discarded: u64,
    /// Batches of a report.
    reported: u64,
    /// The workers of the last window, and the batches taken with them.
    with: ((u32, u32), u64),
    /// Batches of the report under way, their seconds, and the batch-weighted queue.
    sums: (u64, f64, f64),
}

impl Reports {
    pub(super) fn new(discarded: u64, reported: u64) -> Self {
        Self { discarded, reported, with: ((0, 0), 0), sums: (0, 0.0, 0.0) }
    }

    /// Returns the batches of the report under way.
    pub(super) fn batches(&self) -> u64 {
        self.sums.0
    }

    /// Adds a window; returns all of them as one once they have enough batches.
    pub(super) fn add(&mut self, seen: &Observation) -> Option<Observation> {
        let with = (seen.workers, seen.local);
        if self.with.0 != with || !seen.steady {
            (self.with, self.sums) = ((with, 0), (0, 0.0, 0.0));
        }
        if seen.batches == 0 || !seen.delivered.is_finite() || seen.delivered <= 0.0 {
            return None;
        }
        self.with.1 += seen.batches;
        if self.with.1 <= self.discarded {
            return None;
        }
        let batches = seen.batches as f64;
        self.sums.0 += seen.batches;
        self.sums.1 += batches / seen.delivered;
        self.sums.2 += batches * seen.ahead.unwrap_or(0.0);
        let (count, seconds, queue) = self.sums;
        (count >= self.reported).then(|| {
            self.sums = (0, 0.0, 0.0);
            let (delivered, ahead) = (count as f64 / seconds, Some(queue / count as f64));
            Observation { batches: count, delivered, ahead, ..seen.clone() }
        })
    }
}
