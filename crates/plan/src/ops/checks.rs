//! Checks of arguments and columns that several ops share.

use forebay_core::{Error, Result};
use forebay_data::Schema;

/// Returns the error for a value out of its range; `want` says which values are within it.
pub(super) fn range(op: &str, argument: &str, value: impl std::fmt::Display, want: &str) -> Error {
    Error::invalid(format!("{op}: {argument}={value} is out of range")).hint(format!("use {want}"))
}

/// Checks that a number is from 1 to `most`.
pub(super) fn count(op: &str, argument: &str, value: usize, most: usize) -> Result<()> {
    if (1..=most).contains(&value) { Ok(()) } else { Err(range(op, argument, value, &format!("1 to {most}"))) }
}

/// Checks a probability.
pub(super) fn coin(op: &str, p: f64) -> Result<()> {
    if (0.0..=1.0).contains(&p) { Ok(()) } else { Err(range(op, "p", p, "0 <= p <= 1")) }
}

/// Checks that an interval lies within another one.
pub(super) fn between(op: &str, argument: &str, (low, high): (f64, f64), (least, most): (f64, f64)) -> Result<()> {
    if least <= low && low <= high && high <= most {
        return Ok(());
    }
    Err(range(op, argument, format!("({low}, {high})"), &format!("{least} <= low <= high <= {most}")))
}

/// Checks that a schema has these columns.
pub(super) fn known<'a>(schema: &Schema, columns: impl IntoIterator<Item = &'a String>) -> Result<()> {
    columns.into_iter().try_for_each(|c| schema.field(c).map(drop))
}
