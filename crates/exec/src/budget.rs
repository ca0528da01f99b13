//! How many samples may be left out before it is too many, counted where the stream is merged: at the same sample in
//! every run, whoever computed what.

use forebay_core::{Epoch, Error};
use forebay_data::Loss;
use serde::{Deserialize, Serialize};

/// How many samples one reader may lose in one epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// So many.
    Count(u64),
    /// This share of the samples that the reader gets in an epoch, rounded up. Where nobody knows how many those are, of
    /// those that it has got so far, taken to be `SEEN_MIN` at least.
    Share(f64),
}

/// One in a hundred: a few bad records pass, a broken function does not.
impl Default for Budget {
    fn default() -> Self {
        Budget::Share(0.01)
    }
}

/// A share of fewer samples than this says nothing yet.
const SEEN_MIN: u64 = 1000;
/// Samples that the error names.
const NAMED_MAX: usize = 8;

/// What has come of an epoch so far: part of a position, so that a resumed run counts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Samples that were left out.
    pub lost: u64,
    /// Samples that came out of splits, and those that were left out.
    pub seen: u64,
}

impl Tally {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Tally::default()
    }
}

/// A sample that a stream left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Lost {
    /// The epoch.
    pub epoch: Epoch,
    /// The split's ordinal in the consumer's epoch.
    pub split: u64,
    /// Which sample, and why.
    pub loss: Loss,
}

/// Counts what one reader loses.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    pub(crate) budget: Budget,
    pub(crate) tally: Tally,
    /// The first samples of the epoch that were lost, for people.
    named: Vec<String>,
    found: Vec<Lost>,
}

impl Losses {
    pub(crate) fn new(tally: Tally) -> Self {
        Self { tally, ..Self::default() }
    }

    /// Counts what a chunk of `rows` rows and these losses brings; `expected` is how many rows the reader gets in an
    /// epoch.
    ///
    /// # Errors
    /// Data when it is too much, naming the samples.
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
                self.found.push(Lost { epoch: at.0, split: at.1, loss });
                continue;
            }
            self.tally.seen += 1;
            self.tally.lost += 1;
            if self.named.len() < NAMED_MAX {
                self.named.push(name(&loss.error));
            }
            let allowed = self.allowed(expected);
            let over = (self.tally.lost > allowed).then(|| self.over(at.0, allowed, expected, &loss.error));
            self.found.push(Lost { epoch: at.0, split: at.1, loss });
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
        self.tally = Tally::default();
        self.named.clear();
    }

    pub(crate) fn take(&mut self) -> Vec<Lost> {
        std::mem::take(&mut self.found)
    }
}

/// One line of an error: the sample, the op, what happened.
fn name(error: &Error) -> String {
    let op = error.get("op").map_or(String::new(), |op| format!("{op}: "));
    format!("{}: {op}{}", error.get("sample").unwrap_or("?"), error.message())
}
