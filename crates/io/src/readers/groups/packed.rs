//! Row-major copies of the numeric columns of a decoded group.
//!
//! A shuffle over a window takes the rows of a batch from random places of memory outside every CPU cache. In columns,
//! each number is a cache miss. In rows, sixteen numbers share one miss. A row is cut into segments as long as a cache
//! line, so that threads can divide a group's columns, and the columns of a segment are packed while a CPU cache holds
//! their decoded values.

use arrow_array::{ArrayRef, new_empty_array};
use arrow_buffer::Buffer;
use forebay_core::{Error, Result};
use forebay_data::{Bytes, Field, Memory, tensor_values};

use crate::formats::arrow::{Column, Lack};
use crate::rows::rebuild;

/// The widest value that is packed, in bytes. A wider one (a tensor) costs several cache misses anyway.
const WIDTH_MAX: usize = 128;
/// The most bytes of a segment, unless one value is wider.
const SEGMENT_BYTES: usize = 64;
/// Rows that are copied together, so that the first-level cache holds them.
const TILE: usize = 64;

/// The layout of the columns of a schema in packed rows.
#[derive(Debug)]
pub(in crate::readers) struct Layout {
    pub(super) segments: Vec<Segment>,
    /// The fields that are not packed.
    pub(super) loose: Vec<usize>,
}

/// A part of a packed row.
#[derive(Debug, Default)]
pub(super) struct Segment {
    slots: Vec<Slot>,
    stride: usize,
}

/// The place of a field in its segment.
#[derive(Debug, Clone, Copy)]
struct Slot {
    field: usize,
    start: usize,
    width: usize,
}

/// The packed columns of a group: the rows of each segment.
#[derive(Debug)]
pub(super) struct Packed(pub(super) Vec<Buffer>);

/// A segment of the rows of a group, filled in order.
pub(super) struct Filling<'a> {
    segment: &'a Segment,
    fields: &'a [Field],
    bytes: Bytes,
    filled: usize,
    rows: usize,
    lacks: Vec<Vec<Lack>>,
}

impl Layout {
    /// Packs every field of a fixed width that is not nullable.
    pub(super) fn new(fields: &[Field]) -> Self {
        let mut layout = Self { segments: Vec::new(), loose: Vec::new() };
        for (field, of) in fields.iter().enumerate() {
            let is_packed = |width: &usize| !of.nullable && (1..=WIDTH_MAX).contains(width);
            match of.kind.row_bytes().filter(is_packed) {
                Some(width) => layout.add(field, width),
                None => layout.loose.push(field),
            }
        }
        layout
    }

    fn add(&mut self, field: usize, width: usize) {
        if self.segments.last().is_none_or(|last| last.stride + width > SEGMENT_BYTES) {
            self.segments.push(Segment::default());
        }
        if let Some(segment) = self.segments.last_mut() {
            segment.slots.push(Slot { field, start: segment.stride, width });
            segment.stride += width;
        }
    }

    /// Packs the columns of a group of `rows` rows, and empties those columns.
    ///
    /// # Errors
    /// Internal when a column does not match its field.
    pub(super) fn pack(
        &self,
        fields: &[Field],
        columns: &mut [Column],
        rows: usize,
        memory: &Memory,
    ) -> Result<Packed> {
        let mut packed = Vec::with_capacity(self.segments.len());
        for segment in &self.segments {
            let mut filling = Filling::new(segment, fields, rows, memory);
            filling.add(&segment.fields().map(|field| &columns[field]).collect::<Vec<_>>())?;
            packed.push(filling.finish()?.0);
            for field in segment.fields() {
                columns[field].values = new_empty_array(columns[field].values.data_type());
            }
        }
        Ok(Packed(packed))
    }

    /// Returns the column of some rows for each packed field. Each row is a pair: its group's index in `groups`, and
    /// its place in that group.
    ///
    /// # Errors
    /// Internal when Arrow returns an error.
    pub(super) fn take(
        &self,
        fields: &[Field],
        groups: &[&Packed],
        rows: &[(usize, usize)],
        memory: &Memory,
    ) -> Result<Vec<Option<ArrayRef>>> {
        let mut columns = vec![None; fields.len()];
        for (number, segment) in self.segments.iter().enumerate() {
            let of_groups: Vec<&[u8]> = groups.iter().map(|group| group.0[number].as_slice()).collect();
            let taken = segment.take(&of_groups, rows, memory);
            for (slot, bytes) in segment.slots.iter().zip(taken) {
                columns[slot.field] = Some(rebuild(&fields[slot.field].kind.arrow(), bytes, rows.len())?);
            }
        }
        Ok(columns)
    }
}

impl Segment {
    /// Returns the packed fields, in order.
    pub(super) fn fields(&self) -> impl Iterator<Item = usize> {
        self.slots.iter().map(|slot| slot.field)
    }

    fn take(&self, groups: &[&[u8]], rows: &[(usize, usize)], memory: &Memory) -> Vec<Buffer> {
        let mut out: Vec<Bytes> = self.slots.iter().map(|slot| memory.take_together(rows.len() * slot.width)).collect();
        let mut from: [&[u8]; TILE] = [&[]; TILE];
        for (first, rows) in (0..).step_by(TILE).zip(rows.chunks(TILE)) {
            for (from, &(group, row)) in from.iter_mut().zip(rows) {
                *from = &groups[group][row * self.stride..(row + 1) * self.stride];
            }
            for (slot, out) in self.slots.iter().zip(&mut out) {
                let to = &mut out.as_mut_slice()[first * slot.width..(first + rows.len()) * slot.width];
                gather(slot, &from[..rows.len()], to);
            }
        }
        out.into_iter().map(Buffer::from).collect()
    }
}

impl<'a> Filling<'a> {
    /// Allocates memory for the rows of a group; `fields` are those of the schema.
    pub(super) fn new(segment: &'a Segment, fields: &'a [Field], rows: usize, memory: &Memory) -> Self {
        let (bytes, lacks) = (memory.take(rows * segment.stride), vec![Vec::new(); segment.slots.len()]);
        Self { segment, fields, bytes, filled: 0, rows, lacks }
    }

    /// Adds the next rows of the segment's columns.
    ///
    /// # Errors
    /// Internal when a column does not match its field, the columns differ in length, or the group has fewer rows.
    pub(super) fn add(&mut self, columns: &[&Column]) -> Result<()> {
        let (stride, rows) = (self.segment.stride, columns.first().map_or(0, |column| column.values.len()));
        let mut values = Vec::with_capacity(columns.len());
        for (slot, column) in self.segment.slots.iter().zip(columns) {
            let bytes = tensor_values(&self.fields[slot.field].kind, &column.values)?;
            if bytes.len() != rows * slot.width || rows > self.rows - self.filled {
                return Err(Error::internal(format!("a column of {rows} rows has {} bytes", bytes.len())));
            }
            values.push(bytes);
        }
        let to = &mut self.bytes.as_mut_slice()[self.filled * stride..(self.filled + rows) * stride];
        for (tile, to) in to.chunks_mut(TILE * stride).enumerate() {
            for (slot, bytes) in self.segment.slots.iter().zip(&values) {
                scatter(slot, stride, &bytes[tile * TILE * slot.width..], to);
            }
        }
        for (lacks, column) in self.lacks.iter_mut().zip(columns) {
            lacks.extend(column.lacks.iter().map(|lack| lack.after(self.filled)));
        }
        self.filled += rows;
        Ok(())
    }

    /// Returns the rows, and the incomplete rows of each column.
    ///
    /// # Errors
    /// Internal when rows are missing: reused memory still holds its old content.
    pub(super) fn finish(self) -> Result<(Buffer, Vec<Vec<Lack>>)> {
        if self.filled < self.rows {
            return Err(Error::internal(format!("{} of {} rows were packed", self.filled, self.rows)));
        }
        Ok((self.bytes.into(), self.lacks))
    }
}

/// Copies a column out of segments.
fn gather(slot: &Slot, from: &[&[u8]], to: &mut [u8]) {
    fn known<const W: usize>(start: usize, from: &[&[u8]], to: &mut [u8]) {
        for (to, from) in to.as_chunks_mut::<W>().0.iter_mut().zip(from) {
            to.copy_from_slice(&from[start..start + W]);
        }
    }
    match slot.width {
        1 => known::<1>(slot.start, from, to),
        2 => known::<2>(slot.start, from, to),
        4 => known::<4>(slot.start, from, to),
        8 => known::<8>(slot.start, from, to),
        width => to
            .chunks_exact_mut(width)
            .zip(from)
            .for_each(|(to, from)| to.copy_from_slice(&from[slot.start..slot.start + width])),
    }
}

/// Copies the values of a column into segments, as many as there are.
fn scatter(slot: &Slot, stride: usize, from: &[u8], to: &mut [u8]) {
    fn known<const W: usize>(start: usize, stride: usize, from: &[u8], to: &mut [u8]) {
        for (to, from) in to.chunks_exact_mut(stride).zip(from.as_chunks::<W>().0) {
            to[start..start + W].copy_from_slice(from);
        }
    }
    match slot.width {
        1 => known::<1>(slot.start, stride, from, to),
        2 => known::<2>(slot.start, stride, from, to),
        4 => known::<4>(slot.start, stride, from, to),
        8 => known::<8>(slot.start, stride, from, to),
        width => to
            .chunks_exact_mut(stride)
            .zip(from.chunks_exact(width))
            .for_each(|(to, from)| to[slot.start..slot.start + width].copy_from_slice(from)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Array;
    use forebay_data::{DType, Kind};
    use proptest::prelude::*;

    use super::*;
    use crate::rows;

    const DTYPES: [DType; 6] = [DType::Int64, DType::Float32, DType::Uint8, DType::Int16, DType::Float64, DType::Bool];

    /// Columns of every width, each with its own numbers; the tensors are of three and of 17 numbers.
    fn columns(rows: usize) -> (Vec<Field>, Vec<Column>) {
        let scalar = |dtype| Kind::Scalar { dtype };
        let tensor = |dtype, n| Kind::Tensor { dtype, shape: vec![Some(n)] };
        let kinds = (0..23).map(|i| scalar(DTYPES[i % 6]));
        let kinds = kinds.chain([tensor(DType::Float32, 3), tensor(DType::Int64, 17)]);
        let fields: Vec<_> = kinds.enumerate().map(|(i, kind)| Field::new(i.to_string(), kind)).collect();
        let column = |(i, field): (usize, &Field)| {
            let bytes = (0..rows * field.kind.row_bytes().unwrap_or(0)).map(|at| (at * 7 + at / 251 + i) as u8);
            let values = rebuild(&field.kind.arrow(), Buffer::from(bytes.collect::<Vec<_>>()), rows);
            Column { values: values.expect("a column"), lacks: Vec::new() }
        };
        let columns = fields.iter().enumerate().map(column).collect();
        (fields, columns)
    }

    proptest! {
        /// For all step sizes of packing, and any previous content of the memory.
        #[test]
        fn rows_come_out_as_they_went_in(
            lens in prop::collection::vec(1usize..200, 1..4), step in 1usize..90, picks in prop::collection::vec(any::<prop::sample::Index>(), 1..300),
        ) {
            let total: usize = lens.iter().sum();
            let (fields, all) = columns(total);
            let (layout, memory) = (Layout::new(&fields), Memory::reused());
            let starts: Vec<usize> = lens.iter().scan(0, |at, len| { *at += len; Some(*at - len) }).collect();
            let groups: Vec<Packed> = starts.iter().zip(&lens).map(|(&start, &len)| {
                Packed(layout.segments.iter().map(|segment| {
                    let mut filling = Filling::new(segment, &fields, len, &memory);
                    for at in (0..len).step_by(step) {
                        let part = |field: usize| Column { values: all[field].values.slice(start + at, step.min(len - at)), lacks: Vec::new() };
                        let parts: Vec<_> = segment.fields().map(part).collect();
                        filling.add(&parts.iter().collect::<Vec<_>>()).expect("they are of their fields");
                    }
                    filling.finish().expect("all rows").0
                }).collect())
            }).collect();
            let picked: Vec<usize> = picks.iter().map(|pick| pick.index(total)).collect();
            let place = |&row: &usize| { let group = starts.partition_point(|s| *s <= row) - 1; (group, row - starts[group]) };
            let places: Vec<_> = picked.iter().map(place).collect();
            let taken = layout.take(&fields, &groups.iter().collect::<Vec<_>>(), &places, &memory).expect("taken");
            for ((field, column), taken) in fields.iter().zip(&all).zip(taken) {
                let want = rows::take(&field.kind, &column.values, &picked).expect("taken");
                match field.kind.row_bytes() {
                    Some(width) if width > WIDTH_MAX => prop_assert!(taken.is_none()),
                    _ => prop_assert_eq!(&taken.expect("it is packed"), &want),
                }
            }
        }
    }

    #[test]
    fn what_is_not_all_rows_is_refused() {
        let (fields, mut all) = columns(10);
        let (layout, memory) = (Layout::new(&fields), Memory::default());
        let segment = &layout.segments[0];
        let part = |rows: usize| -> Vec<Column> {
            let column = |field: usize| Column { values: all[field].values.slice(0, rows), lacks: Vec::new() };
            segment.fields().map(column).collect()
        };
        let add = |filling: &mut Filling<'_>, parts: &[Column]| filling.add(&parts.iter().collect::<Vec<_>>());
        let mut filling = Filling::new(segment, &fields, 10, &memory);
        add(&mut filling, &part(6)).expect("there is room");
        assert!(add(&mut filling, &part(5)).is_err(), "more than there are");
        let mut uneven = part(4);
        uneven[1].values = uneven[1].values.slice(0, 3);
        assert!(add(&mut filling, &uneven).is_err(), "other rows of one column");
        assert!(filling.finish().is_err(), "four are missing");
        all[0] = Column { values: Arc::new(all[0].values.slice(0, 9)), lacks: Vec::new() };
        assert!(layout.pack(&fields, &mut all, 10, &memory).is_err());
    }
}
