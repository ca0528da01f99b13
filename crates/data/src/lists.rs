//! Lists of token ids: the one-dimensional int32 tensors, read and made as one run of numbers.
//!
//! Text has many short lists, so the only work for each row is to find where its list begins.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeListArray, Int32Array, ListArray, StructArray};
use arrow_buffer::ScalarBuffer;
use forebay_core::{Error, Result};

use crate::tensor::variable;
use crate::{DType, Kind};

/// The lists of a column of `int32[?]` or `int32[n]`. Shares the column's memory.
#[derive(Debug, Clone)]
pub struct Int32Lists {
    values: ScalarBuffer<i32>,
    starts: Starts,
    rows: usize,
}

#[derive(Debug, Clone)]
enum Starts {
    /// Where each list begins, and the end of the last.
    Each(ScalarBuffer<i32>),
    /// Where the first begins, and the length of all.
    Even { first: usize, len: usize },
}

impl Int32Lists {
    /// Reads a column.
    ///
    /// # Errors
    /// Internal when its tensors are not of int32 and one dimension.
    pub fn of(column: &ArrayRef) -> Result<Self> {
        let wrong = || Error::internal(format!("a column of {} holds no lists of int32", column.data_type()));
        let values = |array: &ArrayRef| {
            array.as_any().downcast_ref::<Int32Array>().map(|a| a.values().clone()).ok_or_else(wrong)
        };
        if let Some(lists) = column.as_any().downcast_ref::<FixedSizeListArray>() {
            let len = lists.value_length() as usize;
            let starts = Starts::Even { first: lists.offset() * len, len };
            return Ok(Self { values: values(lists.values())?, starts, rows: lists.len() });
        }
        let tensors = column.as_any().downcast_ref::<StructArray>().ok_or_else(wrong)?;
        let lists = tensors.column(0).as_any().downcast_ref::<ListArray>().ok_or_else(wrong)?;
        let starts = Starts::Each(lists.offsets().inner().clone());
        Ok(Self { values: values(lists.values())?, starts, rows: lists.len() })
    }

    /// Makes a column of `int32[?]`: all numbers, and where each list ends.
    ///
    /// # Errors
    /// Internal when an end is before the one before it or past the numbers.
    pub fn column(values: Vec<i32>, ends: &[i32]) -> Result<ArrayRef> {
        let mut offsets = Vec::with_capacity(ends.len() + 1);
        offsets.push(0);
        offsets.extend_from_slice(ends);
        let lengths = offsets.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect::<Vec<_>>();
        if lengths.iter().any(|&n| n < 0) {
            return Err(Error::internal("lists that end before they begin"));
        }
        variable(DType::Int32, 1, Arc::new(Int32Array::from(values)), offsets, lengths)
    }

    /// Returns the kind of such a column.
    pub fn kind() -> Kind {
        Kind::Tensor { dtype: DType::Int32, shape: vec![None] }
    }

    /// Returns the number of lists.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns one list.
    pub fn get(&self, row: usize) -> &[i32] {
        match &self.starts {
            Starts::Each(starts) => &self.values[starts[row] as usize..starts[row + 1] as usize],
            Starts::Even { first, len } => &self.values[first + row * len..first + (row + 1) * len],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FixedTensorBuilder, VariableTensorBuilder, tensor_shape_of_row};

    #[test]
    fn lists_are_the_tensors_that_the_builder_makes() {
        let column = Int32Lists::column(vec![7, 8, 9], &[2, 2, 3]).expect("valid");
        let mut builder = VariableTensorBuilder::new(DType::Int32, 1);
        for list in [&[7, 8][..], &[], &[9]] {
            let bytes: Vec<u8> = list.iter().flat_map(|n: &i32| n.to_ne_bytes()).collect();
            builder.push(&[list.len()], &bytes).expect("fits");
        }
        assert_eq!(column.to_data(), builder.finish().expect("valid").to_data());
        assert_eq!(tensor_shape_of_row(&Int32Lists::kind(), &column, 0), Ok(vec![2]));
        let lists = Int32Lists::of(&column.slice(1, 2)).expect("lists");
        assert_eq!((lists.rows(), lists.get(0), lists.get(1)), (2, &[][..], &[9][..]));
        assert!(Int32Lists::column(vec![1, 2], &[2, 1]).is_err());
        assert!(Int32Lists::column(vec![1, 2], &[3]).is_err());
    }

    #[test]
    fn rows_of_one_length_are_lists_too() {
        let mut builder = FixedTensorBuilder::new(DType::Int32, &[2], 3);
        builder.all_as::<i32>().copy_from_slice(&[1, 2, 3, 4, 5, 6]);
        let lists = Int32Lists::of(&builder.finish().expect("valid").slice(1, 2)).expect("lists");
        assert_eq!((lists.rows(), lists.get(1)), (2, &[5, 6][..]));
    }
}
