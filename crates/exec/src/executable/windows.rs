//! Puts neighbouring rows of a column together: the lists, or stacked arrays, that windows have.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeStringArray};
use arrow_buffer::Buffer;
use forebay_core::{Error, Result};
use forebay_data::{Kind, TextLists, VariableTensorBuilder, column_of, tensor_values};

/// Returns the column of `to` with a row for each range of rows of a column of `from`.
///
/// # Errors
/// Exhausted when a column would pass 2^31 numbers; Internal for columns that `plan` refuses.
pub(super) fn stacked(from: &Kind, to: &Kind, column: &ArrayRef, ranges: &[Range<usize>]) -> Result<ArrayRef> {
    if *to == Kind::Texts {
        return texts(column, ranges);
    }
    let wrong = || Error::internal(format!("windows of {from} as {to}"));
    let (shape, dtype) = from.known_shape().zip(from.dtype()).ok_or_else(wrong)?;
    let (values, row_bytes) = (tensor_values(from, column)?, shape.iter().product::<usize>() * dtype.size());
    let bytes = |rows: &Range<usize>| values.as_slice().get(rows.start * row_bytes..rows.end * row_bytes);
    let of = ranges.iter().map(|rows| bytes(rows).ok_or_else(wrong));
    if to.known_shape().is_some() {
        let all = of.collect::<Result<Vec<_>>>()?.concat();
        return column_of(to, Buffer::from_vec(all), ranges.len());
    }
    let mut builder = VariableTensorBuilder::new(dtype, shape.len() + 1);
    for (rows, bytes) in ranges.iter().zip(of) {
        let dims: Vec<usize> = std::iter::once(rows.len()).chain(shape.iter().copied()).collect();
        builder.push(&dims, bytes?)?;
    }
    builder.finish()
}

fn texts(column: &ArrayRef, ranges: &[Range<usize>]) -> Result<ArrayRef> {
    let words = column.as_string_opt::<i64>().ok_or_else(|| Error::internal("windows of texts that are none"))?;
    let word = |row: usize| words.is_valid(row).then(|| words.value(row));
    let all: LargeStringArray = ranges.iter().flat_map(|rows| rows.clone().map(word)).collect();
    let ends = ranges.iter().scan(0i64, |end, rows| {
        *end += rows.len() as i64;
        Some(*end)
    });
    TextLists::column(all, ends.collect(), None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use forebay_data::{DType, tensor_shape_of_row};

    use super::*;

    #[test]
    fn windows_overlap_and_the_last_may_be_short() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![9, 1, 2, 3, 4]).slice(1, 4));
        let from = Kind::scalar(DType::Int64);
        let to = Kind::Tensor { dtype: DType::Int64, shape: vec![None] };
        let made = stacked(&from, &to, &column, &[0..3, 2..4]).expect("windows");
        assert_eq!(tensor_values(&to, &made).expect("numbers").typed_data::<i64>(), [1, 2, 3, 3, 4]);
        assert_eq!(tensor_shape_of_row(&to, &made, 1), Ok(vec![2]));
        let full = Kind::fixed(DType::Int64, &[2]);
        let made = stacked(&from, &full, &column, &[0..2, 1..3]).expect("windows");
        assert_eq!(tensor_values(&full, &made).expect("numbers").typed_data::<i64>(), [1, 2, 2, 3]);
        let words: ArrayRef = Arc::new(LargeStringArray::from(vec![Some("a"), None, Some("c")]));
        let lists = TextLists::of(&stacked(&Kind::Utf8, &Kind::Texts, &words, &[0..2, 1..3]).expect("lists"));
        let lists = lists.expect("lists");
        assert_eq!(lists.get(1).collect::<Vec<_>>(), [None, Some("c")]);
        assert_eq!(lists.get(0).collect::<Vec<_>>(), [Some("a"), None]);
    }
}
