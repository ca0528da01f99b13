//! Checks of the kind of the values that a call, or `concat_list`, is applied to.

use forebay_core::{Error, Result};
use forebay_data::{DType, Kind};

/// Returns `gives` if the argument is a text; an error otherwise.
pub(super) fn text(name: &str, kind: &Kind, gives: Kind) -> Result<Kind> {
    match kind {
        Kind::Utf8 => Ok(gives),
        Kind::Bytes => Err(Error::invalid(format!("{name}: this is bytes, not a string"))
            .hint("if it is text in UTF-8, cast it first: .cast(str)")),
        Kind::Texts => Err(Error::invalid(format!("{name}: {kind} is a list of strings, not a string"))
            .hint("functions of lists are under .list: get, slice, contains, join")),
        other => {
            Err(Error::invalid(format!("{name}: {other} is no string")).hint("write it as text first: .cast(str)"))
        }
    }
}

/// Returns `gives` if the argument is a list of texts; an error otherwise.
pub(super) fn texts(name: &str, kind: &Kind, gives: Kind) -> Result<Kind> {
    match kind {
        Kind::Texts => Ok(gives),
        kind => Err(Error::invalid(format!("{name}: {kind} is no list of texts"))
            .hint(
            "functions of one text are under .str, and .str.split(...) makes a list; fb.concat_str(...) and + join columns",
        )),
    }
}

/// Returns a kind of the same shape with another dtype if the argument is of numbers; an error otherwise.
pub(super) fn numbers(name: &str, kind: &Kind, dtype: DType) -> Result<Kind> {
    match kind {
        Kind::Scalar { .. } => Ok(Kind::scalar(dtype)),
        Kind::Tensor { shape, .. } => Ok(Kind::Tensor { dtype, shape: shape.clone() }),
        other => Err(Error::invalid(format!("{name}: {other} is no number"))
            .hint("cast it to a number first, as .cast(\"int64\")")),
    }
}

/// Returns the shape of an item of the first dimension.
pub(super) fn item(name: &str, kind: &Kind) -> Result<Vec<usize>> {
    match kind {
        Kind::Tensor { shape, .. } => shape[1..].iter().copied().collect::<Option<_>>().ok_or_else(|| {
            Error::invalid(format!("{name}: the items of {kind} have no shape of their own"))
                .hint("rows may differ in their first dimension alone")
        }),
        kind => Err(no_list(name, kind)),
    }
}

pub(super) fn no_list(name: &str, kind: &Kind) -> Error {
    if *kind == Kind::Texts {
        return Error::invalid(format!("{name}: {kind} is a list of strings, not of numbers"))
            .hint("it takes columns like int32[?] or float32[8]");
    }
    Error::invalid(format!("{name}: {kind} is no list")).hint("it takes columns like int32[?] or float32[8]")
}
