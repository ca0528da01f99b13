//! The type of `concat_list`.

use forebay_core::{Error, Result};
use forebay_data::Kind;

use super::Expr;
use super::kind::stack_dtype;
use super::operand::item;
use super::promote::ExprKind;

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
    if inner.contains(&0) {
        return Err(
            Error::invalid(format!("concat_list: the items of {first} have no numbers")).hint("leave the column out")
        );
    }
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
