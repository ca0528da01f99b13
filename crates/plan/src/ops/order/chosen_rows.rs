//! Ops that choose the same rows in every epoch: `select_rows`, and the parts of `split`.

use forebay_core::{Error, Result};
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use crate::ops::spec::{About, Class, Names, OpSpec};

/// The most rows of `select_rows`: they travel with the pipeline.
const ROWS_MAX: usize = 1 << 20;

/// These rows, by their places before the op, in this order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectRows {
    /// Their places; a place may occur more than once.
    pub rows: Vec<u64>,
}

/// One of the two parts of a split. The seed and the number of a run of 64 rows determine which of its rows are in the
/// part. The plan divides rows before any shuffle, so a part is the same in every epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The first part's share of the rows, in 2^-32.
    pub share: u64,
    /// The seed of the choice.
    pub seed: u64,
    /// Whether it is the second part.
    pub rest: bool,
}

impl Part {
    /// The share of all rows.
    pub const WHOLE: u64 = 1 << 32;

    /// Returns the number of rows of this part among the first `rows`.
    pub fn count(&self, rows: u64) -> u64 {
        let first = ((u128::from(rows) * u128::from(self.share)) >> 32) as u64;
        if self.rest { rows - first } else { first }
    }
}

impl OpSpec for SelectRows {
    fn about(&self) -> About {
        About { name: "select_rows", class: Class::Order, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        match self.rows.len() {
            0..=ROWS_MAX => Ok(input.clone()),
            more => Err(Error::invalid(format!("select_rows: {more} rows"))
                .hint("give at most 1048576; a filter on a column chooses any number")),
        }
    }

    fn arguments(&self) -> String {
        match self.rows.as_slice() {
            few @ ([] | [_] | [_, _] | [_, _, _]) => format!("{few:?}"),
            [first, .., last] => format!("{} rows, {first} to {last}", self.rows.len()),
        }
    }

    fn needs(&self, _input: &Schema, after: Names) -> Names {
        after
    }
}

impl OpSpec for Part {
    fn about(&self) -> About {
        About { name: "split", class: Class::Order, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        match (1..Self::WHOLE).contains(&self.share) {
            true => Ok(input.clone()),
            false => Err(Error::invalid("split: a share is out of range").hint("use 0 < share < 1")),
        }
    }

    fn arguments(&self) -> String {
        let share = self.share as f64 / Self::WHOLE as f64;
        format!("{:.6}, seed={}{}", share, self.seed, if self.rest { ", the rest" } else { "" })
    }

    fn needs(&self, _input: &Schema, after: Names) -> Names {
        after
    }
}
