//! The weights of a mix, and the rows at which they change: what a pipeline may give.

use forebay_core::{Error, Result};

use super::{Between, Changes, Combined, Combining, Stop};
use crate::epoch::mix::WINDOW;
use crate::epoch::mix::stretches::STAIRS;

/// The least share of a part in a mix: the plan computes with multiples of 2^-42.
const SHARE_MIN: f64 = 1.0 / (1u64 << 40) as f64;
/// The last row from which weights may be set: beyond it, places on a line are not exact.
const ROW_MAX: u64 = 1 << 53;
/// The most weights that the plan of a schedule has: about 24 bytes each.
const SCHEDULE_MAX: u64 = 1 << 21;

impl Combined {
    /// Checks what only a mix has: its weights, and where it ends.
    pub(super) fn check_mix(&self) -> Result<()> {
        let Combining::Mix { weights, stop, changes, per_batch } = &self.how else { return Ok(()) };
        match changes {
            None => self.check_weights(weights, false)?,
            Some(changes) => self.check_changes(weights, changes, *stop)?,
        }
        if let Some(rows) = per_batch.filter(|rows| !rows.is_power_of_two() || !(2..=WINDOW).contains(rows)) {
            return Err(Error::invalid(format!("mix: per_batch={rows} is no power of two from 2 to {WINDOW}")).hint(
                format!(
                    "use the largest power of two up to {WINDOW} that divides the rows of a batch; leave per_batch out \
                     if this is 1"
                ),
            ));
        }
        if *stop == Stop::Rows(0) {
            return Err(Error::invalid("mix: rows=0").hint("use at least 1"));
        }
        Ok(())
    }

    /// Checks the weights of all parts from one row on.
    fn check_weights(&self, weights: &[f64], may_be_zero: bool) -> Result<()> {
        if weights.len() != self.parts.len() {
            let message = format!("mix: {} weights for {} datasets", weights.len(), self.parts.len());
            return Err(Error::invalid(message).hint("give one weight for each dataset"));
        }
        for (part, weight) in self.parts.iter().zip(weights) {
            if !weight.is_finite() || *weight < 0.0 || (*weight == 0.0 && !may_be_zero) {
                let hint = match may_be_zero {
                    true => "use 0, which gives no row, or a positive number",
                    false => "use a positive number, and leave out a dataset that should give no row",
                };
                return Err(Error::invalid(format!("mix: the weight of {:?} is {weight}", part.name)).hint(hint));
            }
        }
        let sum: f64 = weights.iter().sum();
        if sum == 0.0 {
            return Err(Error::invalid("mix: all weights are 0").hint("give one dataset a positive weight"));
        }
        for (part, weight) in self.parts.iter().zip(weights).filter(|(_, weight)| **weight > 0.0) {
            // An infinite sum leaves no share, too.
            if weight / sum < SHARE_MIN {
                return Err(Error::invalid(format!(
                    "mix: the weight {weight} of {:?} is too small a share",
                    part.name
                ))
                .hint("use weights of at least 1e-12 of their sum, which is finite"));
            }
        }
        Ok(())
    }

    /// Checks weights that change.
    fn check_changes(&self, weights: &[f64], changes: &Changes, stop: Stop) -> Result<()> {
        self.check_weights(weights, true).map_err(|e| e.with("row", 0))?;
        let mut row = 0;
        for point in &changes.points {
            if point.row <= row || point.row > ROW_MAX {
                return Err(Error::invalid(format!(
                    "mix: the weights from row {} follow those from row {row}",
                    point.row
                ))
                .hint("give rows in order, each once, below 2^53"));
            }
            row = point.row;
            self.check_weights(&point.weights, true).map_err(|e| e.with("row", row))?;
        }
        let mut ever: Vec<bool> = weights.iter().map(|weight| *weight > 0.0).collect();
        for point in &changes.points {
            ever.iter_mut().zip(&point.weights).for_each(|(ever, weight)| *ever |= *weight > 0.0);
        }
        if let Some(never) = ever.iter().position(|ever| !ever) {
            return Err(Error::invalid(format!("mix: the weight of {:?} is always 0", self.parts[never].name))
                .hint("leave the dataset out, or give it a weight at one of the rows"));
        }
        let stairs = if changes.between == Between::Linear { STAIRS } else { 1 };
        let numbers = (changes.points.len() as u64 + 1).saturating_mul(stairs).saturating_mul(self.parts.len() as u64);
        if numbers > SCHEDULE_MAX {
            let message =
                format!("mix: the weights of {} datasets change at {} rows", self.parts.len(), changes.points.len());
            return Err(Error::invalid(message).hint(format!(
                "datasets x rows x {stairs} may be {SCHEDULE_MAX} at most: use fewer rows, or between=\"steps\""
            )));
        }
        match stop {
            Stop::Rows(rows) if row >= rows => {
                Err(Error::invalid(format!("mix: weights are set from row {row} on, and an epoch has {rows} rows"))
                    .hint("rows of a schedule are counted in each epoch: give rows= the length of the whole training"))
            }
            _ => Ok(()),
        }
    }
}
