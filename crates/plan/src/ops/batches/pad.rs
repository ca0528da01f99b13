//! The common code of ops that pad rows: which columns are padded, and with which number.

use forebay_core::{Error, Result};
use forebay_data::{Field, Ragged};

/// The greatest length to which rows are padded.
pub(super) const LENGTH_MAX: usize = 1 << 24;

/// Says whether a column can be padded: its rows differ in their first dimension alone.
pub(super) fn is_padded(field: &Field) -> bool {
    Ragged::inner(&field.kind).is_some()
}

/// Returns the number with which an op pads a column, as bytes: the value that the op has for the column, else 0.
///
/// # Errors
/// Invalid when the column's dtype does not hold the number.
pub(super) fn pad_value(op: &str, values: &[(String, f64)], field: &Field) -> Result<Vec<u8>> {
    let value = values.iter().find(|(column, _)| *column == field.name).map_or(0.0, |(_, value)| *value);
    let number = field.kind.dtype().and_then(|dtype| Ragged::number(dtype, value));
    number
        .ok_or_else(|| Error::invalid(format!("{op}: column {:?} is {}, and {value} is none", field.name, field.kind)))
}
