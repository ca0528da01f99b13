//! `concat_list`: the lists of several parts, one after another; a single value is a list of one.

use arrow_array::Array;
use arrow_buffer::Buffer;
use forebay_core::{Error, Result};
use forebay_data::{Kind, TextLists, VariableTensorBuilder, column_of};

use super::numbers::shape::Numbers;
use super::texts::words::strings;
use super::value::Value;

/// Returns the list of each row. A row with a missing list has a missing result.
///
/// # Errors
/// Data when a single number is missing; Exhausted for more than 2^31 numbers; Internal for parts that `plan` refuses.
pub(super) fn concat(kind: &Kind, parts: Vec<Value>, rows: usize) -> Result<Value> {
    let Kind::Tensor { dtype, shape } = kind else { return texts(parts, rows) };
    let parts = parts.into_iter().map(|part| part.bend(*dtype)).collect::<Result<Vec<Numbers>>>()?;
    if parts.iter().any(|part| part.nulls.as_ref().is_some_and(|nulls| nulls.null_count() > 0)) {
        return Err(Error::data(
            "concat_list: a part is missing in a row, and a list of numbers has no place for that",
        )
        .hint("fill it before, as .fill_null(0), or leave such rows out with filter"));
    }
    let inner: Vec<usize> = shape[1..].iter().map(|dim| dim.unwrap_or(0)).collect();
    let step = inner.iter().product::<usize>() * dtype.size();
    let ranges: Vec<_> = parts.iter().map(|part| part.layout.ranges(rows)).collect();
    let row = |row: usize, to: &mut Vec<u8>| {
        for (part, ranges) in parts.iter().zip(&ranges) {
            let range = &ranges[row];
            to.extend_from_slice(&part.values[range.start * dtype.size()..range.end * dtype.size()]);
        }
    };
    let mut bytes = Vec::new();
    let column = match kind.known_shape() {
        Some(_) => {
            (0..rows).for_each(|at| row(at, &mut bytes));
            column_of(kind, Buffer::from_vec(bytes), rows)?
        }
        None => {
            let mut builder = VariableTensorBuilder::new(*dtype, shape.len());
            for at in 0..rows {
                bytes.clear();
                row(at, &mut bytes);
                let dims: Vec<usize> = std::iter::once(bytes.len() / step).chain(inner.iter().copied()).collect();
                builder.push(&dims, &bytes)?;
            }
            builder.finish()?
        }
    };
    Value::load(kind, &column)
}

/// The texts of a part of each row.
enum Part {
    Lists(TextLists),
    Single(arrow_array::LargeStringArray),
}

fn texts(parts: Vec<Value>, rows: usize) -> Result<Value> {
    let parts = parts.iter().map(|part| match part {
        Value::Texts(column) => TextLists::of(column).map(Part::Lists),
        single => strings(single, rows).map(Part::Single),
    });
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let lists = (0..rows).map(|row| {
        let mut list = Vec::new();
        for part in &parts {
            match part {
                Part::Lists(lists) if lists.nulls().is_some_and(|nulls| nulls.is_null(row)) => return None,
                Part::Lists(lists) => list.extend(lists.get(row)),
                Part::Single(texts) => list.push(texts.is_valid(row).then(|| texts.value(row))),
            }
        }
        Some(list)
    });
    Ok(Value::Texts(TextLists::collect(lists)?))
}
