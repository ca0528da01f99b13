//! Ends a stream that would run for ever without a row: a filter keeps none of the data, and the data repeats.
//!
//! Every repetition has the same rows if no op draws random numbers and no shuffle decides which rows there are
//! ([`EpochPlan::cycle`]). One repetition without a row then proves that no other has one.

use forebay_core::{Error, Result};
use forebay_plan::{EpochPlan, Stages, TailStep};

/// Counts the rows of the data since the last row that came out.
#[derive(Debug)]
pub(crate) struct EmptyCycle {
    /// The rows of one repetition; `None` if repetitions differ.
    cycle: Option<u64>,
    /// The repetitions after which the rows that a `shard` on the merged stream keeps are the same again.
    repetitions: u64,
    /// Whether an epoch repeats the data for ever.
    in_epoch: bool,
    /// Whether the stream has no last epoch.
    epochs: bool,
    rows: u64,
    /// Whether a row has come out in this epoch, or may have before this stream began.
    has_row: bool,
}

impl EmptyCycle {
    /// Begins to count; `resumed` if the stream begins in the middle of an epoch.
    pub(crate) fn new(plan: &EpochPlan, stages: &Stages, resumed: bool) -> Self {
        let cycle = plan.cycle(stages).filter(|rows| *rows > 0);
        let shards = stages.tail.iter().map(|step| if let TailStep::Shard { count, .. } = step { *count } else { 1 });
        let repetitions = shards.fold(1, u64::saturating_mul);
        Self { cycle, repetitions, in_epoch: plan.is_endless(), epochs: false, rows: 0, has_row: resumed }
    }

    /// Sets that the stream has no last epoch.
    pub(crate) fn set_endless_epochs(&mut self) {
        self.epochs = true;
    }

    /// Counts a chunk: `kept` of the `rows` rows of the data came out. `has_counted`: a `take` or a `skip` has counted
    /// some of them, which ends after the number of its rows.
    ///
    /// # Errors
    /// Data when all different repetitions have no row and the epoch has no end.
    pub(crate) fn count(&mut self, rows: u64, kept: usize, has_counted: bool, stages: &Stages) -> Result<()> {
        if kept > 0 || has_counted {
            (self.rows, self.has_row) = (0, self.has_row || kept > 0);
            return Ok(());
        }
        self.rows = self.rows.saturating_add(rows);
        match self.cycle {
            Some(cycle) if self.in_epoch && self.rows >= cycle.saturating_mul(self.repetitions) => {
                Err(error(stages, cycle, "repeat() without a count"))
            }
            _ => Ok(()),
        }
    }

    /// Ends an epoch.
    ///
    /// # Errors
    /// Data when it had no row and there is no last epoch.
    pub(crate) fn end_epoch(&mut self, stages: &Stages) -> Result<()> {
        let had_row = std::mem::take(&mut self.has_row);
        self.rows = 0;
        match self.cycle {
            Some(cycle) if self.epochs && !had_row => Err(error(stages, cycle, "epochs=None")),
            _ => Ok(()),
        }
    }
}

fn error(stages: &Stages, rows: u64, endless: &str) -> Error {
    let error = Error::data(format!("none of the {rows} rows of the data comes out, and {endless} would never end"))
        .hint("look at the conditions of filters, or give the stream an end");
    stages.first_uncounted().map_or(error.clone(), |node| node.blame(error))
}
