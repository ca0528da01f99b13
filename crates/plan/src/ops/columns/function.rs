//! A user's Python function: the arguments that all ops with one share.

use forebay_core::Result;
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use crate::ops::checks::known;
use crate::source::BlobId;

/// The cost of a call, in nanoseconds.
const CALL_NS: f64 = 10e3;
/// The cost of a byte of arguments or results, in nanoseconds.
const BYTE_NS: f64 = 0.3;

/// A user's Python function, pickled, and how it is called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// The pickle. The same function may have another pickle in another process.
    pub blob: BlobId,
    /// The name of its code, the same in every process; empty if the pickle is the name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Its name, for people.
    pub name: String,
    /// Whether it is called with columns instead of one row.
    pub batched: bool,
    /// Whether its second argument is a NumPy generator of the row (or of the first row of a batch).
    pub with_rng: bool,
    /// The columns passed to it; `None` for all.
    pub reads: Option<Vec<String>>,
    /// The most seconds of one call. A function that takes longer is stopped.
    pub timeout_s: f64,
    /// Whether it is the code of an op of Forebay's own, whose name it has: errors then name this op alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_op: bool,
}

impl Function {
    /// Checks that `input` has the columns that it reads.
    pub(super) fn check(&self, input: &Schema) -> Result<()> {
        known(input, self.reads.iter().flatten())
    }

    pub(super) fn arguments(&self) -> String {
        format!("{}{}", self.name, if self.batched { ", batched=True" } else { "" })
    }

    /// Returns its cost for a row in nanoseconds; `read` and `made` are bytes of arguments and of results.
    pub(super) fn ns(read: f64, made: f64) -> f64 {
        CALL_NS + (read + made) * BYTE_NS
    }
}
