//! Functions of lists of texts: items, slices, whether a list has a text, and the texts joined to one.
//!
//! Invariant: a missing list stays missing, and no function is computed for it. A missing text in a list is left out of
//! the joined text, as in polars.

use std::sync::Arc;

use arrow_array::{ArrayRef, LargeStringArray};
use arrow_buffer::{Buffer, NullBuffer};
use forebay_core::{Error, Result};
use forebay_data::{DType, TextLists};
use forebay_plan::{Call, ItemDefault};

use crate::table::expr::numbers::lists::no_item;
use crate::table::expr::numbers::shape::{Layout, Numbers};
use crate::table::expr::value::Value;

/// Returns the number of texts of each list, as int64.
///
/// # Errors
/// Internal when the column holds no lists of texts.
pub(in crate::table::expr) fn len(column: &ArrayRef) -> Result<Value> {
    let lists = TextLists::of(column)?;
    let values = Buffer::from_vec((0..lists.rows()).map(|row| lists.len_of(row) as i64).collect::<Vec<_>>());
    Ok(numbers(DType::Int64, values, lists.nulls()))
}

/// Computes a function of lists of texts.
///
/// # Errors
/// Data for an item that a list does not have; Internal for another function.
pub(in crate::table::expr) fn call(call: &Call, column: &ArrayRef) -> Result<Value> {
    let lists = TextLists::of(column)?;
    let is_there = |row: &usize| lists.nulls().is_none_or(|nulls| nulls.is_valid(*row));
    let rows = 0..lists.rows();
    match call {
        Call::HasItem { text } => {
            let has = rows.map(|row| i8::from(lists.get(row).any(|one| one == Some(text))));
            Ok(numbers(DType::Bool, Buffer::from_vec(has.collect::<Vec<_>>()), lists.nulls()))
        }
        Call::Get { index, default } => {
            let item = |row| match (lists.item_at(row, *index), default) {
                (None, None) if is_there(&row) => Err(no_item(*index, lists.len_of(row))),
                (None, Some(ItemDefault::Text(text))) if is_there(&row) => Ok(Some(text.as_str())),
                (item, _) => Ok(item.flatten()),
            };
            Ok(Value::Text(Arc::new(rows.map(item).collect::<Result<LargeStringArray>>()?)))
        }
        Call::Join { separator } => {
            let joined = |row| is_there(&row).then(|| lists.get(row).flatten().collect::<Vec<_>>().join(separator));
            Ok(Value::Text(Arc::new(rows.map(joined).collect::<LargeStringArray>())))
        }
        Call::Slice { start, stop } => {
            let slice = |row| {
                let taken = Call::bounds(*start, *stop, lists.len_of(row));
                is_there(&row).then(|| lists.get(row).skip(taken.start).take(taken.len()).collect())
            };
            Ok(Value::Texts(TextLists::collect::<&str>(rows.map(slice))?))
        }
        other => Err(Error::internal(format!("{other} is no function of a list of texts"))),
    }
}

/// Returns the parts of each text.
///
/// # Errors
/// Internal when Arrow refuses.
pub(in crate::table::expr) fn split(texts: &LargeStringArray, parts: impl Fn(&str) -> Vec<&str>) -> Result<Value> {
    let parts = texts.iter().map(|text| text.map(|text| parts(text).into_iter().map(Some).collect()));
    Ok(Value::Texts(TextLists::collect::<&str>(parts)?))
}

fn numbers(dtype: DType, values: Buffer, nulls: Option<&NullBuffer>) -> Value {
    Value::Numbers(Numbers { dtype, values, nulls: nulls.cloned(), layout: Layout::Rows })
}
