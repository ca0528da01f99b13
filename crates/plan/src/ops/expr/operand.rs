//! Checks of the kind of the values that a call, or `concat_list`, is applied to.

use forebay_core::{Error, Result};
use forebay_data::{DType, Kind};

use super::kind::{ExprKind, stack_dtype};
use super::tree::Expr;

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

/// Returns the kind of the lists of several parts, one after another.
///
/// # Errors
/// Invalid for texts among numbers, items of different shapes, and single numbers alone.
pub(super) fn concat_kind(args: &[Expr], kinds: &[ExprKind]) -> Result<Kind> {
    let columns: Vec<Kind> = kinds.iter().cloned().map(ExprKind::column).collect();
    let refused = |place: usize, why: &str, hint: &str| {
        Err(Error::invalid(format!("concat_list: {} is {}, {why}", args[place], columns[place])).hint(hint.to_owned()))
    };
    if let Some(place) = columns.iter().position(|kind| *kind == Kind::Bytes) {
        return refused(place, "and there are no lists of bytes", "if it is text in UTF-8, cast it first: .cast(str)");
    }
    let is_text = |kind: &Kind| matches!(kind, Kind::Utf8 | Kind::Texts);
    if columns.first().is_some_and(is_text) {
        return match columns.iter().position(|kind| !is_text(kind)) {
            Some(place) => refused(place, "among texts", "write numbers as text first: .cast(str)"),
            None => Ok(Kind::Texts),
        };
    }
    if let Some(place) = columns.iter().position(is_text) {
        return refused(place, "among numbers", "write all parts as text, .cast(str), or all as numbers");
    }
    let Some(first) = columns.iter().find(|kind| matches!(kind, Kind::Tensor { .. })) else {
        return Err(Error::invalid("concat_list: there is no list among its parts")
            .hint("fb.stack([...]) puts single numbers side by side"));
    };
    let inner = item("concat_list", first)?;
    let mut length = Some(0);
    for (place, kind) in columns.iter().enumerate() {
        let (own, items) = match kind {
            Kind::Tensor { shape, .. } => (shape[0], item("concat_list", kind)?),
            _ => (Some(1), Vec::new()),
        };
        if items != inner {
            return refused(
                place,
                &format!("and {first} has items of another shape"),
                "join lists of items of one shape",
            );
        }
        length = length.zip(own).map(|(length, own)| length + own);
    }
    let scalars: Vec<ExprKind> = kinds
        .iter()
        .map(|kind| match kind {
            ExprKind::Column(Kind::Tensor { dtype, .. }) => ExprKind::Column(Kind::scalar(*dtype)),
            other => other.clone(),
        })
        .collect();
    let dtype = stack_dtype(args, &scalars)?;
    Ok(Kind::Tensor { dtype, shape: std::iter::once(length).chain(inner.into_iter().map(Some)).collect() })
}
