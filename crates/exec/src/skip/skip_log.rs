//! Counts the samples that one consumer skips, against its error budget.
//!
//! It counts where the stream is merged, so the budget is exceeded at the same sample in every run.

use forebay_core::{Epoch, Error};
use forebay_data::Loss;
use serde::{Deserialize, Serialize};

/// How many samples one consumer may skip in one epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// This number of samples.
    Count(u64),
    /// This share of the samples that the consumer gets in an epoch, rounded up. Where their number is unknown, a share
    /// of the samples so far, but at least of `SEEN_MIN`.
    Share(f64),
}

/// One in a hundred: a few bad records are tolerated, a broken function is not.
impl Default for Budget {
    fn default() -> Self {
        Budget::Share(0.01)
    }
}

/// With fewer samples than this, a share is not meaningful.
const SEEN_MIN: u64 = 1000;
/// The most samples that the error names.
const NAMED_MAX: usize = 8;

/// The counts of an epoch so far. A part of a position, so that a resumed run continues them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SkipTally {
    /// Samples that were skipped.
    pub lost: u64,
    /// Samples that came from splits, and the skipped ones.
    pub seen: u64,
}

impl SkipTally {
    pub(crate) fn is_empty(&self) -> bool {
        *self == SkipTally::default()
    }
}

/// A sample that a stream skipped.
#[derive(Debug, Clone, PartialEq)]
pub struct SkippedSample {
    /// The epoch.
    pub epoch: Epoch,
    /// The split's ordinal in the consumer's epoch.
    pub split: u64,
    /// The sample, and its error.
    pub loss: Loss,
}

/// The samples that one consumer skips.
#[derive(Debug, Default)]
pub(crate) struct SkipLog {
    pub(crate) budget: Budget,
    pub(crate) tally: SkipTally,
    /// The first skipped samples of the epoch, as lines of an error.
    named: Vec<String>,
    /// The samples that were skipped since they were last taken.
    recent: Vec<SkippedSample>,
}

impl SkipLog {
    pub(crate) fn new(tally: SkipTally) -> Self {
        Self { tally, ..Self::default() }
    }

    /// Counts a chunk of `rows` rows and its losses; `expected` is the number of rows that the consumer gets in an
    /// epoch.
    ///
    /// # Errors
    /// Data when the budget is exceeded; the error names the samples.
    pub(crate) fn count(
        &mut self,
        at: (Epoch, u64),
        rows: usize,
        losses: Vec<Loss>,
        expected: Option<u64>,
    ) -> forebay_core::Result<()> {
        self.tally.seen += rows as u64;
        for loss in losses {
            if loss.is_warning() {
                self.recent.push(SkippedSample { epoch: at.0, split: at.1, loss });
                continue;
            }
            self.tally.seen += 1;
            self.tally.lost += 1;
            if self.named.len() < NAMED_MAX {
                self.named.push(name(&loss.error));
            }
            let allowed = self.allowed(expected);
            let over = (self.tally.lost > allowed).then(|| self.over(at.0, allowed, expected, &loss.error));
            self.recent.push(SkippedSample { epoch: at.0, split: at.1, loss });
            if let Some(error) = over {
                return Err(error);
            }
        }
        Ok(())
    }

    fn allowed(&self, expected: Option<u64>) -> u64 {
        match self.budget {
            Budget::Count(count) => count,
            Budget::Share(share) => (share * expected.unwrap_or(self.tally.seen.max(SEEN_MIN)) as f64).ceil() as u64,
        }
    }

    fn over(&self, epoch: Epoch, allowed: u64, expected: Option<u64>, last: &Error) -> Error {
        let lost = self.tally.lost;
        let of = expected.map_or(String::new(), |rows| format!(" of the {rows}"));
        let error =
            Error::data(format!("{lost}{of} samples of epoch {epoch} failed, and error_budget allows {allowed}"));
        let unnamed = lost - (self.named.len() as u64).min(lost);
        let more = if unnamed > 0 { format!("\n… and {unnamed} more") } else { String::new() };
        let error = error.with("fault", "budget").with("samples", self.named.join("\n") + &more);
        let error = error.with("last", last);
        error.hint("look at what they have in common; give a larger error_budget= if so many are to be expected")
    }

    pub(crate) fn end_epoch(&mut self) {
        self.tally = SkipTally::default();
        self.named.clear();
    }

    pub(crate) fn take(&mut self) -> Vec<SkippedSample> {
        std::mem::take(&mut self.recent)
    }
}

/// Returns one line of an error: the sample, the op, and the message.
fn name(error: &Error) -> String {
    let op = error.get("op").map_or(String::new(), |op| format!("{op}: "));
    format!("{}: {op}{}", error.get("sample").unwrap_or("?"), error.message())
}
