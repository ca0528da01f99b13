//! Single values of a chunk, as bytes, for formats that consist of samples, not of columns.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use arrow_array::{Array, ArrayRef, LargeBinaryArray, LargeStringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use forebay_core::{Error, Result};
use forebay_data::{Chunk, DType, Field, Kind, TextLists};

/// A column, row by row.
pub(super) struct Cells {
    values: Values,
    nulls: Option<NullBuffer>,
}

enum Values {
    Bytes(LargeBinaryArray),
    /// Lists of texts, and the bytes of each row.
    Texts(Box<TextLists>, LargeBinaryArray),
    Text(LargeStringArray),
    /// The same number of bytes in each row.
    Fixed {
        bytes: Buffer,
        each: usize,
    },
    /// Tensors of different shapes.
    Lists {
        bytes: Buffer,
        offsets: OffsetBuffer<i32>,
        size: usize,
        shapes: Buffer,
        rank: usize,
    },
}

impl Cells {
    /// Creates it from a column.
    ///
    /// # Errors
    /// Internal when it is not of its field's type.
    pub(super) fn of(field: &Field, column: &ArrayRef) -> Result<Self> {
        let other = || Error::internal(format!("column {:?} is {}", field.name, column.data_type()));
        let values = match &field.kind {
            Kind::Bytes => Values::Bytes(column.as_binary_opt().ok_or_else(other)?.clone()),
            Kind::Utf8 => Values::Text(column.as_string_opt().ok_or_else(other)?.clone()),
            Kind::Texts => {
                let lists = TextLists::of(column)?;
                let (bounds, bytes) = lists.to_bytes()?;
                let bounds = OffsetBuffer::new(ScalarBuffer::from(bounds));
                let bytes = LargeBinaryArray::try_new(bounds, Buffer::from_vec(bytes), None).map_err(|_| other())?;
                Values::Texts(Box::new(lists), bytes)
            }
            Kind::Scalar { dtype } => Values::Fixed { bytes: numbers(column, 0, dtype.size())?, each: dtype.size() },
            Kind::Tensor { dtype, .. } => match field.kind.row_bytes() {
                Some(each) => {
                    let list = column.as_fixed_size_list_opt().ok_or_else(other)?;
                    let first = if list.is_empty() { 0 } else { list.value_offset_at(0) };
                    Values::Fixed { bytes: numbers(list.values(), first, dtype.size())?, each }
                }
                None => {
                    let both = column.as_struct_opt().ok_or_else(other)?;
                    let list = both.column(0).as_list_opt::<i32>().ok_or_else(other)?;
                    let shapes = both.column(1).as_fixed_size_list_opt().ok_or_else(other)?;
                    let first = if shapes.is_empty() { 0 } else { shapes.value_offset_at(0) };
                    Values::Lists {
                        bytes: numbers(list.values(), 0, dtype.size())?,
                        offsets: list.offsets().clone(),
                        size: dtype.size(),
                        shapes: numbers(shapes.values(), first, 4)?,
                        rank: shapes.value_length() as usize,
                    }
                }
            },
        };
        Ok(Self { values, nulls: column.nulls().cloned() })
    }

    /// Says whether a row lacks its value.
    pub(super) fn is_missing(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Returns the bytes of a row: for numbers the little-endian bytes of each.
    pub(super) fn bytes(&self, row: usize) -> &[u8] {
        match &self.values {
            Values::Bytes(column) | Values::Texts(_, column) => column.value(row),
            Values::Text(column) => column.value(row).as_bytes(),
            Values::Fixed { bytes, each } => &bytes.as_slice()[row * each..(row + 1) * each],
            Values::Lists { bytes, offsets, size, .. } => {
                &bytes.as_slice()[offsets[row] as usize * size..offsets[row + 1] as usize * size]
            }
        }
    }

    /// Returns the texts of a row of a list of texts, and none of other columns.
    pub(super) fn texts(&self, row: usize) -> impl Iterator<Item = Option<&str>> {
        let lists = if let Values::Texts(lists, _) = &self.values { Some(&**lists) } else { None };
        lists.into_iter().flat_map(move |lists| lists.get(row))
    }

    /// Returns the dimensions of a tensor of variable shape; empty for other columns.
    pub(super) fn shape(&self, row: usize) -> Vec<u64> {
        let Values::Lists { shapes, rank, .. } = &self.values else { return Vec::new() };
        let dims = shapes.as_slice()[row * rank * 4..(row + 1) * rank * 4].chunks_exact(4);
        dims.map(|dim| u64::from(u32::from_le_bytes([dim[0], dim[1], dim[2], dim[3]]))).collect()
    }
}

/// Returns the bytes of numbers, from the number `first` on.
fn numbers(column: &dyn Array, first: usize, size: usize) -> Result<Buffer> {
    let data = column.to_data();
    let buffer = data.buffers().first().ok_or_else(|| Error::internal("numbers without a buffer"))?;
    let from = (data.offset() + first) * size;
    Ok(buffer.slice_with_length(from, (data.len() - first.min(data.len())) * size))
}

/// Returns the bytes of each row in memory. They decide where files end, so they depend on the row alone.
///
/// # Errors
/// Internal when a column is not of its field's type.
pub(in super::super) fn row_bytes(chunk: &Chunk) -> Result<Vec<usize>> {
    let mut sizes = vec![0; chunk.num_rows()];
    for (field, column) in chunk.schema().fields().iter().zip(chunk.columns()) {
        if let Some(each) = field.kind.row_bytes() {
            sizes.iter_mut().for_each(|size| *size += each);
            continue;
        }
        let cells = Cells::of(field, column)?;
        let rank = if let Values::Lists { rank, .. } = cells.values { rank } else { 0 };
        sizes.iter_mut().enumerate().for_each(|(row, size)| *size += cells.bytes(row).len() + rank * 4);
    }
    // An empty row counts as one byte, because it takes space, too.
    sizes.iter_mut().for_each(|size| *size = (*size).max(1));
    Ok(sizes)
}

/// Writes a number as text that parses to the same number; a bool as 0 or 1.
pub(super) fn text(dtype: DType, bytes: &[u8]) -> String {
    macro_rules! of {
        ($ty:ty) => {
            bytes.try_into().map(<$ty>::from_le_bytes)
        };
    }
    let written = match dtype {
        DType::Bool => Ok(u8::from(bytes != [0]).to_string()),
        DType::Int8 => of!(i8).map(|n| n.to_string()),
        DType::Int16 => of!(i16).map(|n| n.to_string()),
        DType::Int32 => of!(i32).map(|n| n.to_string()),
        DType::Int64 => of!(i64).map(|n| n.to_string()),
        DType::Uint8 => of!(u8).map(|n| n.to_string()),
        DType::Uint16 => of!(u16).map(|n| n.to_string()),
        DType::Uint32 => of!(u32).map(|n| n.to_string()),
        DType::Uint64 => of!(u64).map(|n| n.to_string()),
        DType::Float16 => Ok(format!("{:?}", float16(bytes))),
        DType::Float32 => of!(f32).map(|n| format!("{n:?}")),
        DType::Float64 => of!(f64).map(|n| format!("{n:?}")),
    };
    written.unwrap_or_default()
}

/// Returns a float16, as a float32.
pub(super) fn float16(bytes: &[u8]) -> f32 {
    let bits = bytes.try_into().map_or(0, u16::from_le_bytes);
    <Float16Type as ArrowPrimitiveType>::Native::from_bits(bits).to_f32()
}

/// Returns a truth value or a whole number that int64 holds.
pub(super) fn whole(dtype: DType, bytes: &[u8]) -> i64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    let unsigned = i64::from_le_bytes(all);
    let unused = 64 - 8 * bytes.len() as u32;
    match dtype {
        DType::Bool => i64::from(unsigned != 0),
        DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 => unsigned << unused >> unused,
        _ => unsigned,
    }
}
