//! A run of rows, column by column, with the id of each row.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, Int8Array, RecordBatch, UInt32Array, UInt64Array, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, SchemaRef};
use arrow_select::filter::FilterBuilder;
use forebay_core::{Epoch, Error, Result, SampleId};

use crate::{Field, Kind, Loss, Memory, Schema};

/// The id of a row of a chunk: the sample, and the repetition (under `repeat` an epoch has a sample several times). Rows
/// that an op has made of one row share its id; see [`Chunk::part`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowId {
    /// The sample of the source.
    pub sample: SampleId,
    /// The epoch that keys its random numbers; differs from the job's epoch under `repeat`.
    pub epoch: Epoch,
}

/// A run of rows. Cheap to clone and to slice: columns are shared.
#[derive(Debug, Clone)]
pub struct Chunk {
    schema: Arc<Schema>,
    columns: Vec<ArrayRef>,
    ids: Arc<[RowId]>,
    /// The part of each row, if an op has made several rows of one; with the indices of `ids`.
    parts: Option<Arc<[u64]>>,
    /// The index of this chunk's first row in `ids`, so that a slice shares them.
    first: usize,
    rows: usize,
    /// The rows that it lacks. Chunks computed from this one do not inherit them.
    losses: Vec<Loss>,
}

/// The columns of row ids on the wire, if a later op needs them.
const ID_COLUMNS: [&str; 2] = ["__sample_id", "__epoch"];
/// The column of their parts on the wire, where an op has made several rows of one.
const PART_COLUMN: &str = "__part";

impl Chunk {
    /// Makes a chunk.
    ///
    /// # Errors
    /// Internal when a column's length or Arrow type differs from the ids or the schema.
    pub fn new(schema: Arc<Schema>, columns: Vec<ArrayRef>, ids: Arc<[RowId]>) -> Result<Self> {
        if columns.len() != schema.fields().len() {
            return Err(Error::internal(format!("{} columns for schema {schema}", columns.len())));
        }
        for (field, column) in schema.fields().iter().zip(&columns) {
            if column.len() != ids.len() || !same_storage(column.data_type(), &field.kind.arrow()) {
                return Err(Error::internal(format!(
                    "column {:?} should be {} rows of {}, and is {} rows of {}",
                    field.name,
                    ids.len(),
                    field.kind,
                    column.len(),
                    column.data_type()
                )));
            }
        }
        let rows = ids.len();
        Ok(Self { schema, columns, ids, parts: None, first: 0, rows, losses: Vec::new() })
    }

    /// Returns the schema.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns the columns in the schema's order.
    pub fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }

    /// Returns a column by name.
    ///
    /// # Errors
    /// NotFound when there is none.
    pub fn column(&self, name: &str) -> Result<&ArrayRef> {
        self.schema.field(name)?;
        Ok(&self.columns[self.schema.position(name).unwrap_or(0)])
    }

    /// Returns the number of rows.
    pub fn num_rows(&self) -> usize {
        self.rows
    }

    /// Returns the ids of the rows.
    pub fn ids(&self) -> &[RowId] {
        &self.ids[self.first..self.first + self.rows]
    }

    /// Sets the parts of the rows of a chunk that is no slice.
    pub(crate) fn over_parts(self, parts: Arc<[u64]>) -> Self {
        Self { parts: Some(parts), ..self }
    }

    /// Returns the parts of the rows, if an op has made several rows of one.
    pub(crate) fn parts(&self) -> Option<&[u64]> {
        self.parts.as_ref().map(|parts| &parts[self.first..self.first + self.rows])
    }

    /// Returns the bytes of its columns, and of the records of the rows that it lacks.
    pub fn num_bytes(&self) -> usize {
        let records = self.losses.iter().flat_map(|l| &l.record).map(bytes::Bytes::len).sum::<usize>();
        records + self.columns.iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum::<usize>()
    }

    /// Returns rows `offset..offset + rows`, sharing memory.
    #[must_use]
    pub fn slice(&self, offset: usize, rows: usize) -> Self {
        Self {
            schema: self.schema.clone(),
            columns: self.columns.iter().map(|c| c.slice(offset, rows)).collect(),
            ids: self.ids.clone(),
            parts: self.parts.clone(),
            first: self.first + offset,
            rows,
            losses: Vec::new(),
        }
    }

    /// Returns the rows that are missing from it, in order.
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Sets the rows that are missing from it. They stay with this chunk: chunks computed from it do not have them.
    #[must_use]
    pub fn with_losses(self, losses: Vec<Loss>) -> Self {
        Self { losses, ..self }
    }

    /// Returns these columns alone, in this order.
    ///
    /// # Errors
    /// NotFound when there is no such column.
    pub fn project(&self, names: &[String]) -> Result<Self> {
        let columns = names.iter().map(|n| self.column(n).cloned()).collect::<Result<Vec<_>>>()?;
        let fields = names.iter().map(|n| self.schema.field(n).cloned()).collect::<Result<Vec<_>>>()?;
        Ok(Self { schema: Arc::new(Schema::new(fields)?), columns, losses: Vec::new(), ..self.clone() })
    }

    /// Returns the chunk with other columns over the same rows.
    ///
    /// # Errors
    /// Errors of [`Chunk::new`].
    pub fn with_columns(&self, schema: Arc<Schema>, columns: Vec<ArrayRef>) -> Result<Self> {
        let whole = self.first == 0 && self.rows == self.ids.len();
        let ids = if whole { self.ids.clone() } else { self.ids().into() };
        let parts = if whole { self.parts.clone() } else { self.parts().map(Into::into) };
        Ok(Self { parts, ..Self::new(schema, columns, ids)? })
    }

    /// Returns the chunk with other ids for its rows.
    ///
    /// # Errors
    /// Internal when there are more or fewer ids than rows.
    pub fn with_ids(&self, ids: Arc<[RowId]>) -> Result<Self> {
        let parts = self.parts().map(Into::into);
        Ok(Self { parts, ..Self::new(self.schema.clone(), self.columns.clone(), ids)? })
    }

    /// Returns the chunk with `column` in place of the one with its name, or at the end.
    ///
    /// # Errors
    /// Errors of [`Chunk::new`].
    pub fn with_column(&self, field: Field, column: ArrayRef) -> Result<Self> {
        let mut columns = self.columns.clone();
        match self.schema.position(&field.name) {
            Some(i) => columns[i] = column,
            None => columns.push(column),
        }
        self.with_columns(Arc::new(self.schema.with(field)), columns)
    }

    /// Returns the rows for which `keep` is true, in order.
    ///
    /// # Errors
    /// Internal when Arrow refuses.
    pub fn filter(&self, keep: &BooleanArray) -> Result<Self> {
        let filter = FilterBuilder::new(keep).optimize().build();
        let filtered = self.columns.iter().map(|column| filter.filter(column)).collect::<Result<_, _>>();
        let kept = match keep.nulls() {
            Some(known) => keep.values() & known.inner(),
            None => keep.values().clone(),
        };
        let ids: Arc<[RowId]> = kept.set_indices().map(|row| self.ids()[row]).collect();
        let parts = self.parts().map(|parts| kept.set_indices().map(|row| parts[row]).collect());
        Ok(Self { parts, ..Self::new(self.schema.clone(), filtered.map_err(arrow)?, ids)? })
    }

    /// Returns the rows at `places`, in that order.
    ///
    /// # Errors
    /// Internal when Arrow refuses.
    pub fn take(&self, places: &[u32]) -> Result<Self> {
        let index = UInt32Array::from(places.to_vec());
        let taken = self.columns.iter().map(|c| arrow_select::take::take(c, &index, None)).collect::<Result<_, _>>();
        let ids = places.iter().map(|&i| self.ids()[i as usize]).collect();
        let parts = self.parts().map(|parts| places.iter().map(|&i| parts[i as usize]).collect());
        Ok(Self { parts, ..Self::new(self.schema.clone(), taken.map_err(arrow)?, ids)? })
    }

    /// Returns the same rows without any buffer for which `is_foreign` is true: these are copied, large ones into
    /// `memory`.
    ///
    /// # Errors
    /// Internal when Arrow refuses.
    pub fn without_foreign(self, is_foreign: &dyn Fn(&Buffer) -> bool, memory: &Memory) -> Result<Self> {
        let copy = |column: &ArrayRef| {
            let data = column.to_data();
            if has(&data, is_foreign) { Ok(make_array(copied(&data, memory)?)) } else { Ok(column.clone()) }
        };
        let columns = self.columns.iter().map(copy).collect::<Result<_>>()?;
        Ok(self.with_columns(self.schema.clone(), columns)?.with_losses(self.losses.clone()))
    }

    /// Joins chunks of one schema into one. A single chunk is returned as it is.
    ///
    /// # Errors
    /// Internal when the schemas differ or there is no chunk.
    pub fn concat(chunks: &[Chunk]) -> Result<Self> {
        let [first, rest @ ..] = chunks else { return Err(Error::internal("no chunk to join")) };
        if rest.is_empty() {
            return Ok(first.clone());
        }
        let columns = (0..first.columns.len()).map(|i| {
            let parts: Vec<&dyn Array> = chunks.iter().map(|c| c.columns[i].as_ref()).collect();
            arrow_select::concat::concat(&parts)
        });
        let ids: Arc<[RowId]> = chunks.iter().flat_map(|c| c.ids().iter().copied()).collect();
        let has_parts = chunks.iter().any(Self::has_parts);
        let parts = has_parts.then(|| chunks.iter().flat_map(|c| (0..c.rows).map(|row| c.part(row))).collect());
        Ok(Self { parts, ..Self::new(first.schema.clone(), columns.collect::<Result<_, _>>().map_err(arrow)?, ids)? })
    }

    /// Returns an Arrow record batch; if `with_ids`, with the row ids as two more columns, and the parts as a third one
    /// where there are any.
    ///
    /// # Errors
    /// Internal when Arrow refuses.
    pub fn to_record_batch(&self, with_ids: bool) -> Result<RecordBatch> {
        let mut columns = self.columns.clone();
        if with_ids {
            let samples = UInt64Array::from_iter_values(self.ids().iter().map(|r| r.sample.0));
            let epochs = UInt64Array::from_iter_values(self.ids().iter().map(|r| r.epoch.0));
            columns.extend([samples, epochs].map(|ids| Arc::new(ids) as ArrayRef));
            columns.extend(self.parts().map(|parts| Arc::new(UInt64Array::from(parts.to_vec())) as ArrayRef));
        }
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(self.rows));
        let wire = Self::wire_schema(&self.schema, with_ids, self.has_parts());
        RecordBatch::try_new_with_options(wire, columns, &options).map_err(arrow)
    }

    /// Returns the Arrow schema of [`Chunk::to_record_batch`]; `with_parts` says that rows have parts.
    pub fn wire_schema(schema: &Schema, with_ids: bool, with_parts: bool) -> SchemaRef {
        let mut fields = schema.arrow().fields().to_vec();
        if with_ids {
            let names = ID_COLUMNS.into_iter().chain(with_parts.then_some(PART_COLUMN));
            fields.extend(names.map(|name| Arc::new(arrow_schema::Field::new(name, DataType::UInt64, false))));
        }
        Arc::new(arrow_schema::Schema::new(fields))
    }

    /// Reads a record batch whose columns are `schema`'s, in order, with or without the row ids.
    ///
    /// # Errors
    /// Data when the batch has another schema.
    pub fn from_record_batch(schema: &Arc<Schema>, batch: &RecordBatch) -> Result<Self> {
        let n = schema.fields().len();
        let ids = batch.columns().get(n..n + 2).map(|c| {
            let [a, b] = [0, 1].map(|i| c[i].as_any().downcast_ref::<UInt64Array>());
            a.zip(b)
        });
        let ids: Arc<[RowId]> = match ids.flatten() {
            Some((s, e)) => s
                .values()
                .iter()
                .zip(e.values())
                .map(|(&s, &e)| RowId { sample: SampleId(s), epoch: Epoch(e) })
                .collect(),
            None => vec![RowId { sample: SampleId(0), epoch: Epoch(0) }; batch.num_rows()].into(),
        };
        let parts = batch.columns().get(n + 2).and_then(|c| c.as_any().downcast_ref::<UInt64Array>());
        let parts = parts.map(|parts| parts.values().iter().copied().collect());
        let columns = batch.columns().get(..n).ok_or_else(|| Error::data("a record batch lacks columns"))?;
        let chunk = Self::new(schema.clone(), columns.to_vec(), ids).map_err(|e| Error::data(e.message()))?;
        Ok(Self { parts, ..chunk })
    }

    /// Returns whether every column has exactly this chunk's bits (for tests and verification).
    pub fn same_bits(&self, other: &Chunk) -> bool {
        self.schema == other.schema && self.columns.iter().zip(&other.columns).all(|(a, b)| a.to_data() == b.to_data())
    }
}

/// Turns a bit-packed Arrow boolean column into one byte a row, as [`Kind::Scalar`] of bool stores it.
pub(crate) fn bool8(column: &BooleanArray) -> Int8Array {
    column.iter().map(|v| v.map(i8::from)).collect()
}

/// Returns whether an array has such a buffer.
fn has(data: &ArrayData, such: &dyn Fn(&Buffer) -> bool) -> bool {
    let nulls = data.nulls().is_some_and(|nulls| such(nulls.buffer()));
    nulls || data.buffers().iter().any(such) || data.child_data().iter().any(|child| has(child, such))
}

/// Copies the whole buffers of an array: a slice stays the same slice of the copy.
fn copied(data: &ArrayData, memory: &Memory) -> Result<ArrayData> {
    let copy = |buffer: &Buffer| {
        let mut bytes = memory.take(buffer.len());
        bytes.as_mut_slice().copy_from_slice(buffer);
        Buffer::from(bytes)
    };
    let nulls = data.nulls().map(|nulls| {
        let bits = BooleanBuffer::new(copy(nulls.buffer()), nulls.offset(), nulls.len());
        NullBuffer::new(bits)
    });
    let children = data.child_data().iter().map(|child| copied(child, memory)).collect::<Result<_>>()?;
    let builder = ArrayDataBuilder::new(data.data_type().clone()).len(data.len()).offset(data.offset());
    let builder = builder.nulls(nulls).child_data(children).buffers(data.buffers().iter().map(copy).collect());
    builder.align_buffers(true).build().map_err(arrow)
}

/// Returns whether the types are the same except for the names and nullability of children, which writers choose
/// freely.
fn same_storage(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::FixedSizeList(x, n), DataType::FixedSizeList(y, m)) => {
            n == m && same_storage(x.data_type(), y.data_type())
        }
        (DataType::List(x), DataType::List(y)) | (DataType::LargeList(x), DataType::LargeList(y)) => {
            same_storage(x.data_type(), y.data_type())
        }
        (DataType::Struct(x), DataType::Struct(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same_storage(x.data_type(), y.data_type()))
        }
        _ => a == b,
    }
}

pub(crate) fn arrow(e: arrow_schema::ArrowError) -> Error {
    Error::internal(format!("arrow: {e}"))
}

impl Chunk {
    /// Converts columns of another Arrow writer: booleans become bytes, small offsets become large.
    ///
    /// # Errors
    /// Data when a column cannot be stored in the kind of its field, with the column's name.
    pub fn from_foreign(schema: &Arc<Schema>, columns: &[ArrayRef], ids: Arc<[RowId]>) -> Result<Self> {
        let adopt = |(field, column): (&Field, &ArrayRef)| -> Result<ArrayRef> {
            let adopted = adopt(field, column)?;
            if !field.nullable && adopted.null_count() > 0 {
                return Err(Error::data(format!("column {:?} has missing values", field.name))
                    .hint("fill or drop them when writing the file, or read another column"));
            }
            Ok(adopted)
        };
        let columns = schema.fields().iter().zip(columns).map(adopt).collect::<Result<_>>()?;
        Self::new(schema.clone(), columns, ids)
    }
}

/// Converts one column of another Arrow writer, as [`Chunk::from_foreign`] does. The result may have missing rows
/// although the field is not nullable; the caller has to check that.
///
/// # Errors
/// Data when the column cannot be stored in the kind of its field.
pub fn adopt(field: &Field, column: &ArrayRef) -> Result<ArrayRef> {
    if let Some(bits) = column.as_any().downcast_ref::<BooleanArray>() {
        return Ok(Arc::new(bool8(bits)));
    }
    let want = field.kind.arrow();
    if same_storage(column.data_type(), &want) {
        return Ok(column.clone());
    }
    if matches!(field.kind, Kind::Tensor { .. }) {
        let (name, is) = (&field.name, column.data_type());
        return Err(Error::data(format!("column {name:?} is {is}, not {}", field.kind)));
    }
    arrow_cast::cast(column, &want)
        .map_err(|e| Error::data(format!("column {:?} cannot be read as {}: {e}", field.name, field.kind)))
}
