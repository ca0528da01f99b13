//! The common code of ops that pad rows: which columns are padded, and with which number.

use forebay_core::{Error, Result};
use forebay_data::{Field, Ragged, Schema};

/// The greatest length to which rows are padded.
pub(super) const LENGTH_MAX: usize = 1 << 24;

/// Says whether a column has lists: its rows may differ in their first dimension alone, so they can be padded.
pub(super) fn is_list(field: &Field) -> bool {
    Ragged::inner(&field.kind).is_some()
}

/// Returns the columns of batches that do not pad: the lists of each batch have one length.
///
/// # Errors
/// Errors of [`Schema::new`].
pub(super) fn stacked(input: &Schema) -> Result<Schema> {
    Schema::new(input.fields().iter().map(|f| Field { uniform: f.uniform || is_list(f), ..f.clone() }).collect())
}

/// Checks that an op pads only columns that have lists.
///
/// # Errors
/// NotFound, or Invalid with the column.
pub(super) fn check_padded(op: &str, padding: &[(String, f64)], input: &Schema) -> Result<()> {
    for (column, _) in padding {
        let field = input.field(column)?;
        if !is_list(field) {
            let message = format!("{op}: column {column:?} is {}, and is not padded", field.kind);
            return Err(Error::invalid(message).hint("leave it out of pad="));
        }
    }
    Ok(())
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
