//! Checks of arguments that ops on tokens share.

use forebay_core::{Error, Result};
use forebay_data::{DType, Kind, Schema};

use crate::ops::checks::count;

/// The most tokens of a packed row, and of a text that is cut.
const LENGTH_MAX: usize = 1 << 24;

/// Checks a number of tokens.
pub(super) fn tokens(op: &str, argument: &str, value: usize) -> Result<()> {
    count(op, argument, value, LENGTH_MAX)
}

/// Returns the kind of lists of any length.
pub(super) fn list_of(dtype: DType) -> Kind {
    Kind::Tensor { dtype, shape: vec![None] }
}

/// Checks that a column has lists of token ids.
pub(super) fn ids(op: &str, input: &Schema, column: &str) -> Result<()> {
    let kind = &input.field(column)?.kind;
    if *kind == list_of(DType::Int32) {
        return Ok(());
    }
    let hint = match kind {
        Kind::Utf8 => format!("put .tokenize({column:?}, ...) before it"),
        _ => "it takes lists of int32: int32[?]".to_owned(),
    };
    Err(Error::invalid(format!("{op}: column {column:?} is {kind}")).hint(hint))
}
