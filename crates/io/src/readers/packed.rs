//! Row-major copies of the numeric columns of a decoded group.
//!
//! A shuffle over a window takes the rows of a batch from random places of memory that no cache holds. In columns, each number is a cache
//! miss of its own. In rows, a row of forty numbers is five.

use arrow_array::{ArrayRef, new_empty_array};
use arrow_buffer::{Buffer, MutableBuffer};
use forebay_core::{Error, Result};
use forebay_data::{Field, tensor_values};

use crate::formats::arrow::Column;
use crate::rows::rebuild;

/// The widest value that is packed, in bytes. A wider one (a tensor) is several cache misses anyway.
const WIDTH_MAX: usize = 128;
/// Rows that are copied at once, so that the first-level cache holds them.
const TILE: usize = 32;

/// Where the columns of a schema are in a packed row.
#[derive(Debug)]
pub(super) struct Layout {
    /// For each field, its offset and width in bytes; `None` if it is not packed.
    places: Vec<Option<(usize, usize)>>,
    stride: usize,
}

/// The packed columns of a group.
#[derive(Debug)]
pub(super) struct Packed(Vec<u8>);

impl Layout {
    /// Packs every field of a fixed width that is not nullable.
    pub(super) fn new(fields: &[Field]) -> Self {
        let mut stride = 0;
        let mut place = |field: &Field| {
            let is_packed = |width: &usize| !field.nullable && (1..=WIDTH_MAX).contains(width);
            let width = field.kind.row_bytes().filter(is_packed)?;
            stride += width;
            Some((stride - width, width))
        };
        Self { places: fields.iter().map(&mut place).collect(), stride }
    }

    /// Packs the columns of a group of `rows` rows, and empties those columns.
    ///
    /// # Errors
    /// Internal when a column is not of its field.
    pub(super) fn pack(&self, fields: &[Field], columns: &mut [Column], rows: usize) -> Result<Packed> {
        let mut values = Vec::with_capacity(fields.len());
        for ((field, column), place) in fields.iter().zip(columns).zip(&self.places) {
            let Some((start, width)) = *place else { continue };
            let bytes = tensor_values(&field.kind, &column.values)?;
            if bytes.len() != rows * width {
                return Err(Error::internal(format!("a column of {rows} rows has {} bytes", bytes.len())));
            }
            values.push((start, width, bytes));
            column.values = new_empty_array(column.values.data_type());
        }
        let mut packed = vec![0; rows * self.stride];
        for (tile, to) in packed.chunks_mut((TILE * self.stride).max(1)).enumerate() {
            for (start, width, bytes) in &values {
                let from = &bytes[tile * TILE * width..];
                copy(*width, |i| (i * width, i * self.stride + start), to.len() / self.stride, from, to);
            }
        }
        Ok(Packed(packed))
    }

    /// Returns the column of some rows for each packed field. Each row is a pair: its group's index in `groups`, and its place there.
    ///
    /// # Errors
    /// Internal when Arrow refuses.
    pub(super) fn take(
        &self,
        fields: &[Field],
        groups: &[&Packed],
        rows: &[(usize, usize)],
    ) -> Result<Vec<Option<ArrayRef>>> {
        let out = |place: &Option<(usize, usize)>| place.map(|(_, w)| MutableBuffer::from_len_zeroed(rows.len() * w));
        let mut out: Vec<_> = self.places.iter().map(out).collect();
        let mut tile = vec![0; TILE * self.stride];
        for (first, rows) in (0..).step_by(TILE).zip(rows.chunks(TILE)) {
            for (to, &(group, row)) in tile.chunks_exact_mut(self.stride.max(1)).zip(rows) {
                to.copy_from_slice(&groups[group].0[row * self.stride..(row + 1) * self.stride]);
            }
            for (place, out) in self.places.iter().zip(&mut out) {
                let (Some((start, width)), Some(out)) = (*place, out) else { continue };
                let to = &mut out.as_slice_mut()[first * width..];
                copy(width, |i| (i * self.stride + start, i * width), rows.len(), &tile, to);
            }
        }
        let column = |(field, out): (&Field, Option<MutableBuffer>)| {
            out.map(|out| rebuild(&field.kind.arrow(), Buffer::from(out), rows.len())).transpose()
        };
        fields.iter().zip(out).map(column).collect()
    }
}

/// Copies `count` values of this width. `places` returns the offsets of a value in `from` and in `to`.
fn copy(width: usize, places: impl Fn(usize) -> (usize, usize), count: usize, from: &[u8], to: &mut [u8]) {
    fn known<const W: usize>(places: impl Fn(usize) -> (usize, usize), count: usize, from: &[u8], to: &mut [u8]) {
        for i in 0..count {
            let (at, goes) = places(i);
            to[goes..goes + W].copy_from_slice(&from[at..at + W]);
        }
    }
    match width {
        1 => known::<1>(places, count, from, to),
        2 => known::<2>(places, count, from, to),
        4 => known::<4>(places, count, from, to),
        8 => known::<8>(places, count, from, to),
        _ => (0..count).for_each(|i| {
            let (at, goes) = places(i);
            to[goes..goes + width].copy_from_slice(&from[at..at + width]);
        }),
    }
}
