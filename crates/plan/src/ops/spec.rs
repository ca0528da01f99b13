//! The properties that an op declares to the rest of the plan.
//!
//! An op is a struct of its arguments and an `impl OpSpec`, in one file; ops on one image column implement `ImageSpec`
//! instead. Invariant: a method has a default only if the default is safe for every op. An op that declares nothing
//! reads all columns, stays where it was written, and runs on the worker.

use std::collections::BTreeSet;

use forebay_core::Result;
use forebay_data::Schema;

use super::access::Access;
use super::columns::Function;
use super::images::ImageSpec;
use crate::source::BlobId;

/// The rows that an op processes together, which decides where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Makes one row of each row.
    RowWise,
    /// Makes one row of each row, or none.
    Filter,
    /// Makes any number of rows of each row.
    Expand,
    /// Makes other rows of the ordered stream: from many rows, and from parts of them.
    Global,
    /// Decides which rows come in which order.
    Order,
    /// Groups rows.
    Group,
    /// A hint; changes no row.
    Hint,
}

/// Names of columns.
pub(crate) type Names = BTreeSet<String>;

/// Returns the names of all columns.
pub(crate) fn names(schema: &Schema) -> Names {
    schema.fields().iter().map(|field| field.name.clone()).collect()
}

/// The approximate nanoseconds of one vectorised op on a number.
pub(super) const NUMBER_NS: f64 = 10.0;
/// The approximate nanoseconds of a byte that is written and read again.
pub(crate) const BYTE_NS: f64 = 0.15;

/// The properties of an op that need no schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About {
    /// The name of its Python method.
    pub(crate) name: &'static str,
    /// The rows that it processes together.
    pub(crate) class: Class,
    /// Whether it draws random numbers. A random op has a random stream of its own.
    pub(crate) is_random: bool,
}

/// See the module's documentation.
pub(crate) trait OpSpec {
    /// Returns its properties that need no schema.
    fn about(&self) -> About;

    /// Checks the arguments and returns the schema after this op over rows of `input`.
    fn apply(&self, input: &Schema) -> Result<Schema>;

    /// Returns its arguments as the user would write them.
    fn arguments(&self) -> String;

    /// Returns its effects on rows of `input`. `None`: it stays where it was written, and no op moves past it.
    fn access(&self, _input: &Schema) -> Option<Access> {
        None
    }

    /// Returns the columns of `input` that it needs so that the columns in `after` exist after it. Default: the columns
    /// in `after` and the columns that its access reads; without an access, all.
    fn needs(&self, input: &Schema, after: Names) -> Names {
        self.access(input).map_or_else(|| names(input), |access| with_read(input, after, &access.reads))
    }

    /// Returns the columns that differ after it if the columns in `changed` differ before it. Default: by its access;
    /// without an access, all columns as soon as one differs.
    fn changed_after(&self, input: &Schema, mut changed: Names) -> Names {
        match self.access(input) {
            Some(Access { reads, writes, .. }) => {
                let differs = reads.iter().any(|name| changed.contains(name));
                changed.retain(|name| !writes.contains(name));
                changed.extend(writes.into_iter().filter(|_| differs));
                changed
            }
            None if changed.is_empty() => changed,
            None => self.apply(input).map_or_else(|_| names(input), |output| names(&output)),
        }
    }

    /// Removes columns from its arguments that `input` does not have, because no later op needs them. Returns whether
    /// it still changes rows of `input`. Default: it names no column that it does not read.
    fn restrict(&mut self, _input: &Schema) -> bool {
        true
    }

    /// Returns whether it processes one row at a time, draws no random number, fails on no row of `input` and costs
    /// about as much as a copy. Then the consumer may run it.
    fn may_run_on_consumer(&self, _input: &Schema) -> bool {
        false
    }

    /// Returns whether it is called once for each batch when it comes after `batch`.
    fn runs_per_batch(&self) -> bool {
        false
    }

    /// Returns whether the number of rows after it is known only after it has run.
    fn is_uncounted(&self) -> bool {
        matches!(self.about().class, Class::Filter | Class::Expand | Class::Global)
    }

    /// Returns the number of rows that it makes of each row, if it makes several and always as many.
    fn fan_out(&self) -> Option<u64> {
        None
    }

    /// Returns the user's Python function, if it has one.
    fn function(&self) -> Option<&Function> {
        None
    }

    /// As [`OpSpec::function`].
    fn function_mut(&mut self) -> Option<&mut Function> {
        None
    }

    /// Returns the blob that it needs where it runs.
    fn blob(&self) -> Option<&BlobId> {
        self.function().map(|function| &function.blob)
    }

    /// Returns it as an op on one image column, if it is one. Such ops are fused.
    fn image(&self) -> Option<&dyn ImageSpec> {
        None
    }

    /// Returns whether it is an op on sound or on spectra, whose rows run in parallel.
    fn is_audio(&self) -> bool {
        false
    }

    /// Returns its approximate cost for a row: nanoseconds of one core, with so many bytes read and made.
    fn ns(&self, _read: f64, _made: f64) -> f64 {
        NUMBER_NS
    }
}

/// Returns the columns in `after` that exist in `input`, and the columns that are read.
pub(super) fn with_read(input: &Schema, after: Names, reads: &[String]) -> Names {
    after.into_iter().filter(|name| input.position(name).is_some()).chain(reads.iter().cloned()).collect()
}
