//! A user's Python function: what ops that call one have in common.

use forebay_core::Result;
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use crate::ops::checks::known;
use crate::source::BlobId;

/// The cost of a call.
const CALL_NS: f64 = 10e3;
/// The cost of a byte that the function is given or gives.
const BYTE_NS: f64 = 0.3;

/// A user's Python function, pickled, and how it wants to be called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// The pickle. The same function may have another in another process.
    pub blob: BlobId,
    /// The name of what it computes, the same in every process; empty where the pickle is the name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Its name, for people.
    pub name: String,
    /// Called with columns instead of one row.
    pub batched: bool,
    /// Called with a NumPy generator of the row (or of the first row of a batch) as second argument.
    pub with_rng: bool,
    /// The columns it is given; `None` for all.
    pub reads: Option<Vec<String>>,
    /// Seconds one call may take. A function that takes longer is stopped.
    pub timeout_s: f64,
}

impl Function {
    /// Checks that the columns are there that it is given.
    pub(super) fn check(&self, input: &Schema) -> Result<()> {
        known(input, self.reads.iter().flatten())
    }

    pub(super) fn arguments(&self) -> String {
        format!("{}{}", self.name, if self.batched { ", batched=True" } else { "" })
    }

    /// Its cost for a row, where it is given and gives so many bytes.
    pub(super) fn ns(read: f64, made: f64) -> f64 {
        CALL_NS + (read + made) * BYTE_NS
    }
}
