//! Tensors as columns: one contiguous buffer of numbers, aligned to 64 bytes, which an op fills row by row.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeListArray, Int32Array, ListArray, StructArray, make_array};
use arrow_buffer::{ArrowNativeType, Buffer, MutableBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayDataBuilder;
use forebay_core::{Error, ErrorKind, Result};

use crate::schema::item;
use crate::{Bytes, DType, Kind, Memory};

/// Fills a column of equal tensors: each row has its slot in one buffer.
#[derive(Debug)]
pub struct FixedTensorBuilder {
    dtype: DType,
    row_len: usize,
    rows: usize,
    bytes: Bytes,
}

impl FixedTensorBuilder {
    /// Makes room for `rows` tensors of `shape`, all zero.
    pub fn new(dtype: DType, shape: &[usize], rows: usize) -> Self {
        let row_len = shape.iter().product();
        let bytes = Bytes::Heap(MutableBuffer::from_len_zeroed(rows * row_len * dtype.size()));
        Self { dtype, row_len, rows, bytes }
    }

    /// Makes room in `memory` for `rows` tensors of `shape`. The content is arbitrary, so the caller has to write every
    /// byte.
    pub fn within(memory: &Memory, dtype: DType, shape: &[usize], rows: usize) -> Self {
        let row_len = shape.iter().product();
        Self { dtype, row_len, rows, bytes: memory.take(rows * row_len * dtype.size()) }
    }

    /// Returns the bytes of one row's slot, for writing.
    pub fn slot(&mut self, row: usize) -> &mut [u8] {
        let bytes = self.row_bytes();
        &mut self.bytes.as_mut_slice()[row * bytes..(row + 1) * bytes]
    }

    /// Returns all slots, for several writing threads.
    pub fn slots(&mut self) -> Slots<'_> {
        let row_bytes = self.row_bytes();
        let bytes = self.bytes.as_mut_slice();
        Slots { start: bytes.as_mut_ptr(), rows: self.rows, row_bytes, bytes: PhantomData }
    }

    /// Returns the number of bytes of a slot.
    pub fn row_bytes(&self) -> usize {
        self.row_len * self.dtype.size()
    }

    /// Returns the whole buffer, all rows one after another.
    pub fn all(&mut self) -> &mut [u8] {
        self.bytes.as_mut_slice()
    }

    /// Returns the whole buffer as numbers. `T` must be the dtype's own type.
    pub fn all_as<T: ArrowNativeType>(&mut self) -> &mut [T] {
        // SAFETY: the bytes are aligned to 64, and any bits are a number of Arrow's native types.
        let (_, numbers, _) = unsafe { self.bytes.as_mut_slice().align_to_mut() };
        numbers
    }

    /// Ends the column.
    ///
    /// # Errors
    /// Internal when Arrow refuses.
    pub fn finish(self) -> Result<ArrayRef> {
        let values = primitive(self.dtype, self.bytes.into(), self.rows * self.row_len)?;
        fixed(self.dtype, self.row_len, values, self.rows)
    }
}

/// The slots of a [`FixedTensorBuilder`].
#[derive(Debug)]
pub struct Slots<'a> {
    start: *mut u8,
    rows: usize,
    row_bytes: usize,
    bytes: PhantomData<&'a mut [u8]>,
}

// SAFETY: a slot is a part of bytes that may be sent, and no two threads have the same one.
unsafe impl Sync for Slots<'_> {}

impl<'a> Slots<'a> {
    /// Returns the bytes of one row's slot.
    ///
    /// # Safety
    /// No row's slot is requested twice.
    ///
    /// # Panics
    /// When there is no such row.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn slot(&self, row: usize) -> &'a mut [u8] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: within the bytes that are borrowed for 'a; slots do not overlap.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.row_bytes), self.row_bytes) }
    }
}

/// Makes a primitive array over a buffer of `len` numbers.
pub(crate) fn primitive(dtype: DType, buffer: Buffer, len: usize) -> Result<ArrayRef> {
    let data = ArrayDataBuilder::new(dtype.arrow()).len(len).add_buffer(buffer).align_buffers(true).build();
    Ok(make_array(data.map_err(crate::chunk::arrow)?))
}

/// Makes a column of `rows` numbers, or tensors of one shape, over their numbers.
///
/// # Errors
/// Data when the buffer has another length; Internal when the kind has no fixed number of numbers.
pub fn column_of(kind: &Kind, values: Buffer, rows: usize) -> Result<ArrayRef> {
    let (Some(dtype), Some(shape)) = (kind.dtype(), kind.known_shape()) else {
        return Err(Error::internal(format!("a column of {kind} is not made of numbers alone")));
    };
    let row_len: usize = shape.iter().product();
    if rows.checked_mul(row_len).and_then(|n| n.checked_mul(dtype.size())) != Some(values.len()) {
        return Err(Error::data(format!("{} bytes for {rows} rows of {kind}", values.len())));
    }
    let values = primitive(dtype, values, rows * row_len)?;
    if matches!(kind, Kind::Scalar { .. }) { Ok(values) } else { fixed(dtype, row_len, values, rows) }
}

fn fixed(dtype: DType, row_len: usize, values: ArrayRef, rows: usize) -> Result<ArrayRef> {
    let list = FixedSizeListArray::try_new_with_length(item(dtype), row_len as i32, values, None, rows);
    Ok(Arc::new(list.map_err(crate::chunk::arrow)?))
}

/// Fills a column of tensors whose shapes differ.
#[derive(Debug)]
pub struct VariableTensorBuilder {
    dtype: DType,
    ndim: usize,
    bytes: Vec<u8>,
    offsets: Vec<i32>,
    shapes: Vec<i32>,
}

impl VariableTensorBuilder {
    /// Starts an empty column of `ndim`-dimensional tensors.
    pub fn new(dtype: DType, ndim: usize) -> Self {
        Self { dtype, ndim, bytes: Vec::new(), offsets: vec![0], shapes: Vec::new() }
    }

    /// Appends one row.
    ///
    /// # Errors
    /// Exhausted when the column would pass 2^31 numbers; Internal when bytes and shape disagree.
    pub fn push(&mut self, shape: &[usize], bytes: &[u8]) -> Result<()> {
        if shape.len() != self.ndim || shape.iter().product::<usize>() * self.dtype.size() != bytes.len() {
            return Err(Error::internal(format!(
                "{} bytes for a {} tensor of shape {shape:?}",
                bytes.len(),
                self.dtype
            )));
        }
        self.bytes.extend_from_slice(bytes);
        let end = i32::try_from(self.bytes.len() / self.dtype.size()).map_err(|_| {
            Error::new(ErrorKind::Exhausted, "more than 2^31 numbers in one run of rows of a variable-shape column")
                .hint("resize or crop to one shape, or use a smaller batch")
        })?;
        self.offsets.push(end);
        self.shapes.extend(shape.iter().map(|&d| d as i32));
        Ok(())
    }

    /// Ends the column.
    ///
    /// # Errors
    /// Internal when Arrow refuses.
    pub fn finish(self) -> Result<ArrayRef> {
        let len = self.bytes.len() / self.dtype.size();
        let values = primitive(self.dtype, Buffer::from_vec(self.bytes), len)?;
        variable(self.dtype, self.ndim, values, self.offsets, self.shapes)
    }
}

/// Makes a column of `ndim`-dimensional tensors whose shapes differ, from all their numbers.
pub(crate) fn variable(
    dtype: DType,
    ndim: usize,
    values: ArrayRef,
    offsets: Vec<i32>,
    shapes: Vec<i32>,
) -> Result<ArrayRef> {
    let rows = offsets.len() - 1;
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let data = ListArray::try_new(item(dtype), offsets, values, None).map_err(crate::chunk::arrow)?;
    let shapes = fixed(DType::Int32, ndim, Arc::new(Int32Array::from(shapes)), rows)?;
    let kind = Kind::Tensor { dtype, shape: vec![None; ndim] };
    let arrow_schema::DataType::Struct(fields) = kind.arrow() else {
        return Err(Error::internal("a variable tensor is a struct"));
    };
    let array = StructArray::try_new(fields, vec![Arc::new(data), shapes], None).map_err(crate::chunk::arrow)?;
    Ok(Arc::new(array))
}

/// Returns the numbers of rows `0..column.len()` of a scalar or tensor column, as one buffer.
///
/// For a variable-shape tensor use [`tensor_shape_of_row`] and slice the column to one row first.
///
/// # Errors
/// Internal when the column holds no numbers.
pub fn tensor_values(kind: &Kind, column: &ArrayRef) -> Result<Buffer> {
    let wrong = || Error::internal(format!("a column of {} has no numbers", column.data_type()));
    let dtype = kind.dtype().ok_or_else(wrong)?;
    let (values, start, len) = match kind {
        Kind::Scalar { .. } => (column.to_data(), 0, column.len()),
        _ => {
            if let Some(list) = column.as_any().downcast_ref::<FixedSizeListArray>() {
                let n = list.value_length() as usize;
                (list.values().to_data(), list.offset() * n, list.len() * n)
            } else {
                let data = column.as_any().downcast_ref::<StructArray>().ok_or_else(wrong)?;
                let list = data.column(0).as_any().downcast_ref::<ListArray>().ok_or_else(wrong)?;
                let (a, b) = (list.value_offsets()[0], list.value_offsets()[list.len()]);
                (list.values().to_data(), a as usize, (b - a) as usize)
            }
        }
    };
    let from = (values.offset() + start) * dtype.size();
    let buffer = values.buffers().first().ok_or_else(wrong)?;
    Ok(buffer.slice_with_length(from, len * dtype.size()))
}

/// Returns the shape of one row of a tensor column.
///
/// # Errors
/// Internal when the column is not a tensor.
pub fn tensor_shape_of_row(kind: &Kind, column: &ArrayRef, row: usize) -> Result<Vec<usize>> {
    if let Some(shape) = kind.known_shape() {
        return Ok(shape);
    }
    let wrong = || Error::internal(format!("a column of {} is not a tensor", column.data_type()));
    let data = column.as_any().downcast_ref::<StructArray>().ok_or_else(wrong)?;
    let shapes = data.column(1).as_any().downcast_ref::<FixedSizeListArray>().ok_or_else(wrong)?;
    let row = shapes.value(row);
    let row = row.as_any().downcast_ref::<Int32Array>().ok_or_else(wrong)?;
    Ok(row.values().iter().map(|&d| d as usize).collect())
}

/// Returns the first dimension of each row of a tensor column.
///
/// # Errors
/// Internal when the column is not a tensor of at least one dimension.
pub fn tensor_lengths(kind: &Kind, column: &ArrayRef) -> Result<Vec<u32>> {
    let wrong = || Error::internal(format!("rows of {} have no first dimension", column.data_type()));
    if let Some(shape) = kind.known_shape() {
        return Ok(vec![*shape.first().ok_or_else(wrong)? as u32; column.len()]);
    }
    let data = column.as_any().downcast_ref::<StructArray>().ok_or_else(wrong)?;
    let shapes = data.column(1).as_any().downcast_ref::<FixedSizeListArray>().ok_or_else(wrong)?;
    let dims = shapes.value_length() as usize;
    let all = shapes.values().as_any().downcast_ref::<Int32Array>().filter(|_| dims > 0).ok_or_else(wrong)?;
    Ok((0..column.len()).map(|row| all.value((shapes.offset() + row) * dims) as u32).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_slots_land_in_one_aligned_buffer() {
        let mut builder = FixedTensorBuilder::new(DType::Uint8, &[2, 2], 3);
        (0..3).for_each(|row| builder.slot(row).fill(row as u8 + 1));
        let column = builder.finish().expect("valid");
        let kind = Kind::fixed(DType::Uint8, &[2, 2]);
        let values = tensor_values(&kind, &column).expect("numbers");
        assert_eq!(values.as_slice(), [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
        assert_eq!(values.as_ptr() as usize % 64, 0);
        assert_eq!(tensor_values(&kind, &column.slice(1, 1)).expect("numbers").as_slice(), [2; 4]);
    }

    #[test]
    fn variable_rows_keep_their_shapes_through_a_slice() {
        let mut builder = VariableTensorBuilder::new(DType::Uint8, 2);
        builder.push(&[1, 2], &[1, 2]).expect("fits");
        builder.push(&[3, 1], &[3, 4, 5]).expect("fits");
        assert!(builder.push(&[2, 2], &[0]).is_err());
        let column = builder.finish().expect("valid").slice(1, 1);
        let kind = Kind::Tensor { dtype: DType::Uint8, shape: vec![None, None] };
        assert_eq!(tensor_shape_of_row(&kind, &column, 0).expect("tensor"), [3, 1]);
        assert_eq!(tensor_lengths(&kind, &column).expect("tensor"), [3]);
        assert_eq!(tensor_values(&kind, &column).expect("numbers").as_slice(), [3, 4, 5]);
    }
}
