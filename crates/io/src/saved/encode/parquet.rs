//! Parquet files that other libraries read with their logical types: texts, bools, lists.
//!
//! Tensors of one shape are lists of fixed size with Arrow's extension type; tensors with one variable dimension are
//! plain lists; tensors with several are stored as in Forebay's Arrow files. Bound: `GROUP_BYTES` of rows and one run
//! of them are held until their row group is written.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{Array, ArrayRef, BooleanArray, FixedSizeListArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema, SchemaRef};
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Chunk, DType, Field, Kind, Schema, TENSOR_DTYPE};
use parquet::arrow::ArrowWriter;
use parquet::basic::ZstdLevel;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use super::super::sink::{Sink, of_sink};
use super::{Compression, Encoder, Format, refused, row_bytes};

/// A row group is written once its rows take this many bytes in memory.
const GROUP_BYTES: usize = 16 << 20;

/// A Parquet file.
pub(super) struct Parquet {
    name: String,
    schema: SchemaRef,
    writer: ArrowWriter<Sink>,
    /// Bytes of rows in the current row group.
    bytes: usize,
}

/// Refuses columns that Parquet cannot represent.
pub(super) fn check(schema: &Schema) -> Result<()> {
    if schema.fields().is_empty() {
        return Err(Error::invalid("a Parquet file needs a column").hint("save as arrow, or keep a column"));
    }
    let empty = |field: &&Field| field.kind.row_bytes() == Some(0);
    schema.fields().iter().find(empty).map_or(Ok(()), |field| {
        let why = "its arrays have no numbers, and lists of no length have no form there";
        Err(refused(field, Format::Parquet, why, "drop the column, or save as arrow"))
    })
}

impl Parquet {
    pub(super) fn new(schema: &Schema, compression: Option<Compression>, sink: Sink) -> Result<Self> {
        let name = sink.name();
        let compression = match compression.unwrap_or(Compression::Zstd) {
            Compression::Zstd => parquet::basic::Compression::ZSTD(ZstdLevel::default()),
            Compression::Snappy => parquet::basic::Compression::SNAPPY,
        };
        let properties = WriterProperties::builder()
            .set_compression(compression)
            // Missing values are counted per row group; readers need no finer counts.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_max_row_group_row_count(None)
            .set_created_by(format!("forebay {}", forebay_core::VERSION))
            .build();
        let schema: SchemaRef = Arc::new(ArrowSchema::new(schema.fields().iter().map(stored).collect::<Vec<_>>()));
        let writer = ArrowWriter::try_new(sink, schema.clone(), Some(properties)).map_err(|e| failed(&name, e))?;
        Ok(Self { name, schema, writer, bytes: 0 })
    }
}

impl Encoder for Parquet {
    fn add(&mut self, rows: &Chunk) -> Result<()> {
        let columns = rows.schema().fields().iter().zip(rows.columns()).zip(self.schema.fields());
        let columns = columns.map(|((field, column), to)| store(field, column, to)).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        let batch = batch.map_err(|e| Error::internal(format!("rows for Parquet: {e}")))?;
        self.writer.write(&batch).map_err(|e| failed(&self.name, e))?;
        self.bytes += row_bytes(rows)?.iter().sum::<usize>();
        if self.bytes >= GROUP_BYTES {
            self.bytes = 0;
            self.writer.flush().map_err(|e| failed(&self.name, e))?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Sink> {
        self.writer.into_inner().map_err(|e| failed(&self.name, e))
    }
}

/// Returns the stored type of a column.
fn stored(field: &Field) -> ArrowField {
    let plain = |ty| ArrowField::new(&field.name, ty, field.nullable);
    match &field.kind {
        Kind::Scalar { dtype: DType::Bool } => plain(DataType::Boolean),
        Kind::Bytes => plain(DataType::Binary),
        Kind::Utf8 => plain(DataType::Utf8),
        Kind::Texts => plain(DataType::List(Arc::new(ArrowField::new("item", DataType::Utf8, true)))),
        Kind::Tensor { dtype, shape } if is_list(shape) => {
            let list = plain(DataType::List(Arc::new(ArrowField::new("item", dtype.arrow(), false))));
            match dtype {
                DType::Bool => {
                    let note = (TENSOR_DTYPE.to_owned(), DType::Bool.name().to_owned());
                    list.with_metadata(HashMap::from([note]))
                }
                _ => list,
            }
        }
        Kind::Tensor { .. } if field.kind.known_shape().is_some() => field.arrow().with_data_type(fixed(field)),
        Kind::Scalar { .. } | Kind::Tensor { .. } => field.arrow(),
    }
}

/// Returns the type of lists of one length. Their numbers are never missing, but are declared nullable, because PyArrow
/// reads only such lists as tensors.
fn fixed(field: &Field) -> DataType {
    match field.kind.arrow() {
        DataType::FixedSizeList(item, len) => {
            DataType::FixedSizeList(Arc::new(item.as_ref().clone().with_nullable(true)), len)
        }
        other => other,
    }
}

/// Says whether arrays are plain lists.
fn is_list(shape: &[Option<usize>]) -> bool {
    shape == [None]
}

fn store(field: &Field, column: &ArrayRef, to: &ArrowField) -> Result<ArrayRef> {
    let other = || Error::internal(format!("column {:?} is {}", field.name, column.data_type()));
    match &field.kind {
        Kind::Scalar { dtype: DType::Bool } => {
            let bytes = column.as_primitive_opt::<Int8Type>().ok_or_else(other)?;
            Ok(Arc::new(bytes.iter().map(|byte| byte.map(|byte| byte != 0)).collect::<BooleanArray>()))
        }
        Kind::Bytes | Kind::Utf8 | Kind::Texts => arrow_cast::cast(column, to.data_type()).map_err(|e| {
            Error::new(ErrorKind::Exhausted, format!("column {:?} has a value that is too large: {e}", field.name))
                .hint("a value of a Parquet file has less than 2 GiB: save as arrow")
        }),
        Kind::Tensor { shape, .. } if is_list(shape) => Ok(column.as_struct_opt().ok_or_else(other)?.column(0).clone()),
        Kind::Tensor { .. } if field.kind.known_shape().is_some() => {
            let list = column.as_fixed_size_list_opt().ok_or_else(other)?;
            let DataType::FixedSizeList(item, len) = fixed(field) else { return Err(other()) };
            let list = FixedSizeListArray::try_new(item, len, list.values().clone(), None);
            Ok(Arc::new(list.map_err(|e| Error::internal(format!("lists for Parquet: {e}")))?))
        }
        Kind::Scalar { .. } | Kind::Tensor { .. } => Ok(column.clone()),
    }
}

fn failed(name: &str, e: ParquetError) -> Error {
    match e {
        ParquetError::External(e) => match e.downcast::<std::io::Error>() {
            Ok(e) => of_sink(name, *e),
            Err(e) => Error::internal(format!("parquet: {e}")).with("file", name),
        },
        e => Error::internal(format!("parquet: {e}")).with("file", name),
    }
}
