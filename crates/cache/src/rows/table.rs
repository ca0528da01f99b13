//! Rows as plain buffers, in which rows of all kinds are copied, summed, written and read.
//!
//! | kind | parts |
//! |---|---|
//! | `Scalar`, `Tensor` of known shape | the numbers, as many bytes for each row |
//! | `Bytes`, `Utf8` | the bytes |
//! | other `Tensor` | the numbers; the shape, `int32` for each dimension |
//! | nullable | these, and a byte for each row: whether it has a value |
//!
//! Invariants: a part of a [`Table`] has as many rows as the table. Splitting columns into parts copies no numbers, and
//! joining the parts restores the same bits.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, LargeBinaryArray, LargeStringArray, ListArray, StructArray, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::DataType;
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{DType, Field, Kind, Memory, Schema, TextLists, tensor_values};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::key::RowKey;

/// The shape of a part of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The same number of bytes in each row.
    Even(usize),
    /// A variable number of bytes.
    Any,
}

/// Returns the parts of a column, in order.
pub(crate) fn shapes(field: &Field) -> Vec<Shape> {
    let mut shapes = match (&field.kind, field.kind.row_bytes()) {
        (_, Some(bytes)) => vec![Shape::Even(bytes)],
        (Kind::Tensor { shape, .. }, None) => vec![Shape::Any, Shape::Even(4 * shape.len())],
        (_, None) => vec![Shape::Any],
    };
    shapes.extend(field.nullable.then_some(Shape::Even(1)));
    shapes
}

/// One part of every row.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    /// Row `i` has `width` bytes from `i * width` on.
    Even { width: usize, bytes: Buffer },
    /// Row `i` has the bytes from `starts[i]` to `starts[i + 1]`.
    Any { starts: Arc<[i64]>, bytes: Buffer },
}

impl Part {
    /// Returns the bytes of a row.
    pub(crate) fn row(&self, row: usize) -> &[u8] {
        match self {
            Part::Even { width, bytes } => &bytes[row * width..(row + 1) * width],
            Part::Any { starts, bytes } => &bytes[starts[row] as usize..starts[row + 1] as usize],
        }
    }

    /// Returns the bytes of a run of rows.
    fn run(&self, rows: std::ops::Range<usize>) -> &[u8] {
        match self {
            Part::Even { width, bytes } => &bytes[rows.start * width..rows.end * width],
            Part::Any { starts, bytes } => &bytes[starts[rows.start] as usize..starts[rows.end] as usize],
        }
    }

    fn len_of(&self, row: usize) -> usize {
        match self {
            Part::Even { width, .. } => *width,
            Part::Any { starts, .. } => (starts[row + 1] - starts[row]) as usize,
        }
    }
}

/// Rows of a schema. A clone shares them.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// The parts of all columns, in order.
    parts: Arc<[Part]>,
    rows: usize,
}

/// A row of one of several tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) table: u32,
    pub(crate) row: u32,
}

impl Table {
    /// Makes a table of its parts, which are those of [`shapes`], of `rows` rows each.
    pub(crate) fn new(parts: Vec<Part>, rows: usize) -> Self {
        Self { parts: parts.into(), rows }
    }

    /// Splits columns into the parts of rows.
    ///
    /// # Errors
    /// Internal when they are not `rows` rows of the schema.
    pub(crate) fn of(schema: &Schema, columns: &[ArrayRef], rows: usize) -> Result<Self> {
        if columns.len() != schema.fields().len() {
            return Err(Error::internal(format!("{} columns for schema {schema}", columns.len())));
        }
        let mut parts = Vec::new();
        for (field, column) in schema.fields().iter().zip(columns) {
            if column.len() != rows || (!field.nullable && column.null_count() > 0) {
                let (name, len) = (&field.name, column.len());
                return Err(Error::internal(format!("column {name:?} is {len} rows of {}", column.data_type())));
            }
            take_apart(field, column, &mut parts)?;
        }
        Ok(Self::new(parts, rows))
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the bytes of a row.
    pub(crate) fn row_bytes(&self, row: usize) -> usize {
        self.parts.iter().map(|part| part.len_of(row)).sum()
    }

    /// Returns the bytes of a part of all rows.
    pub(crate) fn part(&self, part: usize) -> &[u8] {
        self.parts[part].run(0..self.rows)
    }

    /// Returns the bytes of all rows.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.run(0..self.rows).len()).sum()
    }

    /// Returns the sum of a row: xxh3 (Collet), of its key and then of each part, seeded by the sum so far and by the
    /// length of the part. So a row with another row's bytes, or in another row's place, has a wrong sum.
    pub(crate) fn sum(&self, key: &RowKey, row: usize) -> u64 {
        let mut header = [0; 24];
        header[..16].copy_from_slice(&key.file.0);
        header[16..].copy_from_slice(&key.row.to_le_bytes());
        self.parts.iter().fold(xxh3_64(&header), |sum, part| {
            let bytes = part.row(row);
            xxh3_64_with_seed(bytes, sum.wrapping_add(bytes.len() as u64))
        })
    }

    /// Copies rows of several tables of one schema into a new table, which shares no memory with them.
    pub(crate) fn gather(shapes: &[Shape], tables: &[&Table], places: &[Place], memory: &Memory) -> Self {
        let part = |(i, shape): (usize, &Shape)| {
            let from: Vec<&Part> = tables.iter().map(|table| &table.parts[i]).collect();
            match shape {
                Shape::Even(width) => even(*width, &from, places, memory),
                Shape::Any => any(&from, places, memory),
            }
        };
        Self { parts: shapes.iter().enumerate().map(part).collect(), rows: places.len() }
    }

    /// Joins the parts to columns, which share their memory.
    ///
    /// # Errors
    /// Exhausted when a column would pass 2^31 numbers; Data when the rows do not match the schema.
    pub(crate) fn columns(&self, schema: &Schema) -> Result<Vec<ArrayRef>> {
        let mut parts = self.parts.iter();
        schema.fields().iter().map(|field| put_together(field, &mut parts, self.rows)).collect()
    }
}

/// Calls `copy` with each run of consecutive rows of one table.
fn runs(places: &[Place], mut copy: impl FnMut(usize, std::ops::Range<usize>)) {
    let follows = |a: &Place, b: &Place| a.table == b.table && a.row + 1 == b.row;
    for run in places.chunk_by(follows) {
        let first = run[0].row as usize;
        copy(run[0].table as usize, first..first + run.len());
    }
}

fn even(width: usize, from: &[&Part], places: &[Place], memory: &Memory) -> Part {
    let mut bytes = memory.take(places.len() * width);
    let mut rest = bytes.as_mut_slice();
    runs(places, |table, rows| {
        let run = from[table].run(rows);
        let (to, after) = std::mem::take(&mut rest).split_at_mut(run.len());
        to.copy_from_slice(run);
        rest = after;
    });
    Part::Even { width, bytes: bytes.into() }
}

fn any(from: &[&Part], places: &[Place], memory: &Memory) -> Part {
    let mut starts = Vec::with_capacity(places.len() + 1);
    let mut end = 0;
    starts.push(0);
    starts.extend(places.iter().map(|place| {
        end += from[place.table as usize].len_of(place.row as usize) as i64;
        end
    }));
    let mut bytes = memory.take(end as usize);
    let mut rest = bytes.as_mut_slice();
    runs(places, |table, rows| {
        let run = from[table].run(rows);
        let (to, after) = std::mem::take(&mut rest).split_at_mut(run.len());
        to.copy_from_slice(run);
        rest = after;
    });
    Part::Any { starts: starts.into(), bytes: bytes.into() }
}

fn take_apart(field: &Field, column: &ArrayRef, parts: &mut Vec<Part>) -> Result<()> {
    let wrong = || {
        Error::internal(format!("column {:?} is {}, not {}", field.name, column.data_type(), field.kind))
            .with("column", &field.name)
    };
    match &field.kind {
        kind if kind.row_bytes().is_some() => {
            let width = kind.row_bytes().unwrap_or(0);
            let bytes = tensor_values(kind, column)?;
            if bytes.len() != width * column.len() {
                return Err(wrong());
            }
            parts.push(Part::Even { width, bytes });
        }
        Kind::Tensor { shape, .. } => {
            let tensors = column.as_any().downcast_ref::<StructArray>().ok_or_else(wrong)?;
            let lists = tensors.column(0).as_any().downcast_ref::<ListArray>().ok_or_else(wrong)?;
            let size = field.kind.dtype().map_or(1, DType::size) as i64;
            let offsets = lists.value_offsets();
            let starts = offsets.iter().map(|&at| i64::from(at - offsets[0]) * size).collect();
            parts.push(Part::Any { starts, bytes: tensor_values(&field.kind, column)? });
            let bytes = tensor_values(&Kind::fixed(DType::Int32, &[shape.len()]), tensors.column(1))?;
            if bytes.len() != 4 * shape.len() * column.len() {
                return Err(wrong());
            }
            parts.push(Part::Even { width: 4 * shape.len(), bytes });
        }
        Kind::Texts => {
            let (starts, bytes) = TextLists::of(column)?.to_bytes()?;
            parts.push(Part::Any { starts: starts.into(), bytes: Buffer::from_vec(bytes) });
        }
        _ => {
            let (starts, bytes) = match field.kind {
                Kind::Utf8 => column.as_any().downcast_ref::<LargeStringArray>().map(|a| (a.offsets(), a.values())),
                _ => column.as_any().downcast_ref::<LargeBinaryArray>().map(|a| (a.offsets(), a.values())),
            }
            .ok_or_else(wrong)?;
            parts.push(Part::Any { starts: starts.iter().copied().collect(), bytes: bytes.clone() });
        }
    }
    if field.nullable {
        let there: Vec<u8> = (0..column.len()).map(|row| u8::from(column.is_valid(row))).collect();
        parts.push(Part::Even { width: 1, bytes: Buffer::from_vec(there) });
    }
    Ok(())
}

fn put_together<'a>(field: &Field, parts: &mut impl Iterator<Item = &'a Part>, rows: usize) -> Result<ArrayRef> {
    let wrong = || Error::internal(format!("column {:?} lacks parts", field.name));
    let mut part = || parts.next().ok_or_else(wrong);
    let ty = field.kind.arrow();
    let data = match (&ty, part()?) {
        (DataType::Struct(fields), Part::Any { starts, bytes }) => {
            let Part::Even { bytes: shape, .. } = part()? else { return Err(wrong()) };
            let size = field.kind.dtype().map_or(1, DType::size);
            let list = lists(fields[0].data_type(), starts, bytes, size)?;
            let shape = fixed(fields[1].data_type(), shape, 4, rows)?;
            ArrayDataBuilder::new(ty).len(rows).add_child_data(list).add_child_data(shape)
        }
        (DataType::LargeList(_), Part::Any { starts, bytes }) => {
            TextLists::from_bytes(starts, bytes, None)?.to_data().into_builder()
        }
        (_, Part::Any { starts, bytes }) => {
            let offsets = Buffer::from_iter(starts.iter().copied());
            ArrayDataBuilder::new(ty).len(rows).add_buffer(offsets).add_buffer(bytes.clone())
        }
        (DataType::FixedSizeList(..), Part::Even { bytes, .. }) => {
            fixed(&ty, bytes, field.kind.dtype().map_or(1, DType::size), rows)?.into_builder()
        }
        (_, Part::Even { bytes, .. }) => ArrayDataBuilder::new(ty).len(rows).add_buffer(bytes.clone()),
    };
    let nulls = match field.nullable.then(&mut part).transpose()? {
        Some(Part::Even { bytes, .. }) => {
            Some(NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| bytes[row] != 0)))
        }
        _ => None,
    };
    let nulls = nulls.filter(|n| n.null_count() > 0);
    Ok(make_array(data.nulls(nulls).align_buffers(true).build().map_err(broken)?))
}

/// Numbers of `size` bytes, the same number of them in each row.
fn fixed(ty: &DataType, bytes: &Buffer, size: usize, rows: usize) -> Result<ArrayData> {
    let DataType::FixedSizeList(item, _) = ty else { return Err(Error::internal("no list of fixed size")) };
    let numbers = ArrayDataBuilder::new(item.data_type().clone()).len(bytes.len() / size).add_buffer(bytes.clone());
    let numbers = numbers.align_buffers(true).build().map_err(broken)?;
    ArrayDataBuilder::new(ty.clone()).len(rows).add_child_data(numbers).build().map_err(broken)
}

/// Numbers of `size` bytes, a variable number of them in each row.
fn lists(ty: &DataType, starts: &[i64], bytes: &Buffer, size: usize) -> Result<ArrayData> {
    let DataType::List(item) = ty else { return Err(Error::internal("no list")) };
    let numbers = |at: i64| {
        i32::try_from(at / size as i64).map_err(|_| {
            Error::new(ErrorKind::Exhausted, "more than 2^31 numbers in one run of rows of a variable-shape column")
                .hint("resize or crop to one shape before cache(), or use a smaller batch")
        })
    };
    let offsets = starts.iter().map(|&at| numbers(at)).collect::<Result<Vec<i32>>>()?;
    let values = ArrayDataBuilder::new(item.data_type().clone()).len(bytes.len() / size).add_buffer(bytes.clone());
    let values = values.align_buffers(true).build().map_err(broken)?;
    let list = ArrayDataBuilder::new(ty.clone()).len(starts.len() - 1).add_buffer(Buffer::from_vec(offsets));
    list.add_child_data(values).build().map_err(broken)
}

fn broken(e: arrow_schema::ArrowError) -> Error {
    Error::data(format!("rows that are not of their schema: {e}"))
}
