//! Columns whose rows differ in their first dimension: token lists, frames of sound. This module reads them by row, and
//! makes padded columns.

use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_buffer::{Buffer, ScalarBuffer};
use forebay_core::{Error, ErrorKind, Result};

use crate::tensor::{primitive, variable};
use crate::{DType, Kind, column_of, tensor_values};

type Half = <Float16Type as ArrowPrimitiveType>::Native;

/// The rows of a column of `dtype[?, n, m, ...]`. Shares the column's memory.
#[derive(Debug, Clone)]
pub struct Ragged {
    /// The numbers of all rows, and the index of each row's first number, counted from `starts[0]`.
    bytes: Buffer,
    starts: ScalarBuffer<i32>,
    /// Bytes of one number.
    size: usize,
    /// Numbers of one step of the first dimension.
    inner: usize,
}

impl Ragged {
    /// Returns the numbers of one step of the first dimension, if it is the only one that differs from row to row.
    pub fn inner(kind: &Kind) -> Option<usize> {
        match kind {
            Kind::Tensor { shape, .. } if shape.first() == Some(&None) => {
                shape[1..].iter().copied().product::<Option<usize>>().filter(|&inner| inner > 0)
            }
            _ => None,
        }
    }

    /// Reads a column.
    ///
    /// # Errors
    /// Internal when its rows differ in another way, or the column has another kind.
    pub fn of(kind: &Kind, column: &ArrayRef) -> Result<Self> {
        let wrong = || Error::internal(format!("a column of {} is no {kind} to be padded", column.data_type()));
        let (inner, dtype) = Self::inner(kind).zip(kind.dtype()).ok_or_else(wrong)?;
        let tensors = column.as_any().downcast_ref::<StructArray>().ok_or_else(wrong)?;
        let lists = tensors.column(0).as_any().downcast_ref::<ListArray>().ok_or_else(wrong)?;
        let starts = lists.offsets().inner().clone();
        Ok(Self { bytes: tensor_values(kind, column)?, starts, size: dtype.size(), inner })
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the first dimension of a row.
    pub fn len_of(&self, row: usize) -> usize {
        (self.starts[row + 1] - self.starts[row]) as usize / self.inner
    }

    /// Returns the first dimension of all rows together.
    pub fn steps(&self) -> usize {
        (self.starts[self.rows()] - self.starts[0]) as usize / self.inner
    }

    /// Returns where each row begins in the first dimension of all rows together, and where the last one ends. The first
    /// is 0.
    pub fn offsets(&self) -> Vec<i32> {
        self.starts.iter().map(|start| (start - self.starts[0]) / self.inner as i32).collect()
    }

    /// Returns the bytes of a row's numbers.
    pub fn get(&self, row: usize) -> &[u8] {
        let at = |row: usize| (self.starts[row] - self.starts[0]) as usize * self.size;
        &self.bytes[at(row)..at(row + 1)]
    }

    /// Makes a column of rows that are all `length` long; shorter rows are filled with `pad`, the bytes of one number.
    /// `fixed` says that the column's kind has this length.
    ///
    /// # Errors
    /// Internal when a row is longer; Exhausted when the column would pass 2^31 numbers.
    pub fn padded(kind: &Kind, rows: &[&[u8]], length: usize, pad: &[u8], fixed: bool) -> Result<ArrayRef> {
        let wrong = || Error::internal(format!("rows of {kind} that cannot be padded to {length}"));
        let (inner, dtype) = Self::inner(kind).zip(kind.dtype()).filter(|_| !pad.is_empty()).ok_or_else(wrong)?;
        let Kind::Tensor { shape, .. } = kind else { return Err(wrong()) };
        let numbers = length * inner;
        if i32::try_from(numbers.saturating_mul(rows.len())).is_err() {
            return Err(Error::new(ErrorKind::Exhausted, "more than 2^31 numbers in one padded batch")
                .hint("use smaller batches for the longest"));
        }
        let mut bytes = pad.repeat(numbers * rows.len());
        let row_bytes = numbers * dtype.size();
        for (at, row) in rows.iter().enumerate() {
            let to = bytes[at * row_bytes..(at + 1) * row_bytes].get_mut(..row.len()).ok_or_else(wrong)?;
            to.copy_from_slice(row);
        }
        let bytes = Buffer::from_vec(bytes);
        if fixed {
            let shape = std::iter::once(Some(length)).chain(shape[1..].iter().copied()).collect();
            return column_of(&Kind::Tensor { dtype, shape }, bytes, rows.len());
        }
        let dims: Vec<usize> = shape.iter().map(|dim| dim.unwrap_or(length)).collect();
        Self::of_one_shape(dtype, bytes, rows.len(), &dims)
    }

    /// Makes a column of rows that all have `shape`, of a kind whose shape differs from batch to batch.
    ///
    /// # Errors
    /// Data when there are other numbers than `rows` rows have; Exhausted when there are more than 2^31.
    pub fn of_one_shape(dtype: DType, values: Buffer, rows: usize, shape: &[usize]) -> Result<ArrayRef> {
        let row = shape.iter().product::<usize>();
        let numbers = row.saturating_mul(rows);
        if values.len() != numbers.saturating_mul(dtype.size()) {
            return Err(Error::data(format!("{} bytes for {rows} rows of {dtype}{shape:?}", values.len())));
        }
        if i32::try_from(numbers).is_err() {
            return Err(Error::new(ErrorKind::Exhausted, "more than 2^31 numbers in one column of a batch")
                .hint("use smaller batches"));
        }
        let ends = (0..=rows).map(|end| (end * row) as i32).collect();
        let dims: Vec<i32> = shape.iter().map(|dim| *dim as i32).collect();
        variable(dtype, shape.len(), primitive(dtype, values, numbers)?, ends, dims.repeat(rows))
    }

    /// Returns the bytes of a number as a dtype stores it; `None` if the dtype cannot store it.
    pub fn number(dtype: DType, value: f64) -> Option<Vec<u8>> {
        /// A float64 stores whole numbers up to this exactly.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        macro_rules! whole {
            ($t:ty) => {{
                let fits = value.fract() == 0.0 && value.abs() <= EXACT;
                let number = value as $t;
                (fits && number as f64 == value).then(|| number.to_ne_bytes().to_vec())
            }};
        }
        match dtype {
            DType::Bool => (value == 0.0 || value == 1.0).then(|| vec![value as u8]),
            DType::Int8 => whole!(i8),
            DType::Int16 => whole!(i16),
            DType::Int32 => whole!(i32),
            DType::Int64 => whole!(i64),
            DType::Uint8 => whole!(u8),
            DType::Uint16 => whole!(u16),
            DType::Uint32 => whole!(u32),
            DType::Uint64 => whole!(u64),
            DType::Float16 => Some(Half::from_f64(value).to_ne_bytes().to_vec()),
            DType::Float32 => Some((value as f32).to_ne_bytes().to_vec()),
            DType::Float64 => Some(value.to_ne_bytes().to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{VariableTensorBuilder, tensor_shape_of_row};

    #[test]
    fn rows_are_read_from_a_slice_and_padded_behind() {
        let kind = Kind::Tensor { dtype: DType::Int16, shape: vec![None, Some(2)] };
        let mut builder = VariableTensorBuilder::new(DType::Int16, 2);
        for rows in [&[9i16, 9][..], &[1, 2, 3, 4], &[]] {
            let bytes: Vec<u8> = rows.iter().flat_map(|n| n.to_ne_bytes()).collect();
            builder.push(&[rows.len() / 2, 2], &bytes).expect("fits");
        }
        let column = builder.finish().expect("valid").slice(1, 2);
        let ragged = Ragged::of(&kind, &column).expect("ragged");
        assert_eq!((ragged.rows(), ragged.len_of(0), ragged.len_of(1)), (2, 2, 0));
        let pad = Ragged::number(DType::Int16, -1.0).expect("fits");
        let padded = Ragged::padded(&kind, &[ragged.get(1), ragged.get(0)], 3, &pad, false).expect("fits");
        let numbers = tensor_values(&kind, &padded).expect("numbers");
        let numbers: Vec<i16> = numbers.chunks(2).map(|n| i16::from_ne_bytes([n[0], n[1]])).collect();
        assert_eq!(numbers, [-1, -1, -1, -1, -1, -1, 1, 2, 3, 4, -1, -1]);
        assert_eq!(tensor_shape_of_row(&kind, &padded, 1), Ok(vec![3, 2]));
        assert!(Ragged::padded(&kind, &[ragged.get(0)], 1, &pad, false).is_err(), "nothing is cut off");
    }

    #[test]
    fn a_number_is_what_the_dtype_can_hold_and_nothing_near_it() {
        assert_eq!(Ragged::number(DType::Uint8, 255.0), Some(vec![255]));
        for (dtype, value) in [(DType::Uint8, 256.0), (DType::Int32, 0.5), (DType::Bool, 2.0), (DType::Uint64, -1.0)] {
            assert_eq!(Ragged::number(dtype, value), None, "{dtype} {value}");
        }
    }
}
