//! Ops that choose the same rows in every epoch: `select_rows`, and the parts of `split`.

use std::sync::Arc;

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
    pub rows: Arc<[u64]>,
}

/// A part of a split, or of `k_fold`. The seed and the number of a run of 64 rows determine which of its rows are in the
/// part. The plan divides rows before any shuffle, so a part is the same in every epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Where the chosen rows of a run end among its permuted rows, in 2^-32 of them.
    pub share: u64,
    /// Where they begin, for the folds of `k_fold`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The seed of the choice.
    pub seed: u64,
    /// Whether it is all other rows.
    pub rest: bool,
}

impl Part {
    /// The share of all rows.
    pub const WHOLE: u64 = 1 << 32;
    /// Rows that are divided together: a word of bits.
    pub const RUN: u64 = 64;
    /// The least share of a fold: two rows of a run, less what rounding takes.
    const LEAST: u64 = Self::WHOLE / 32 - 1;

    /// Returns the number of rows of this part among the first `rows`.
    pub fn count(&self, rows: u64) -> u64 {
        let (begin, end) = self.chosen(rows);
        if self.rest { rows - (end - begin) } else { end - begin }
    }

    /// Returns the numbers of rows, among the first `rows`, before the chosen rows and before their end.
    pub fn chosen(&self, rows: u64) -> (u64, u64) {
        let of = |rows: u64, share: u64| ((u128::from(rows) * u128::from(share)) >> 32) as u64;
        let Some(from) = self.from else { return (0, of(rows, self.share)) };
        // The last run is short. Edges of folds stay in order there, too.
        let (whole, last) = (rows - rows % Self::RUN, rows % Self::RUN);
        let edge = |share: u64| of(whole, share) + of(last, share);
        (edge(from), edge(self.share))
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
        match &*self.rows {
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
        let is_part = match self.from {
            None => (1..Self::WHOLE).contains(&self.share),
            Some(from) => {
                let len = self.share.checked_sub(from).filter(|_| self.share <= Self::WHOLE);
                len.is_some_and(|len| (Self::LEAST..Self::WHOLE).contains(&len))
            }
        };
        match is_part {
            true => Ok(input.clone()),
            false => Err(Error::invalid("split: a share is out of range").hint("use 0 < share < 1")),
        }
    }

    fn arguments(&self) -> String {
        let share = |share: u64| share as f64 / Self::WHOLE as f64;
        let from = self.from.map_or(String::new(), |from| format!("{:.6} to ", share(from)));
        format!("{from}{:.6}, seed={}{}", share(self.share), self.seed, if self.rest { ", the rest" } else { "" })
    }

    fn needs(&self, _input: &Schema, after: Names) -> Names {
        after
    }
}
