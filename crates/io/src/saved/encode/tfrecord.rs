//! TFRecord files of `tf.train.Example`: a feature for each column, in the order of the columns.
//!
//! Features hold 64-bit whole numbers, 32-bit floats and byte strings. Arrays are flat, in row-major order. A missing
//! value is an absent feature.

use std::io::Write;

use forebay_core::{Error, Result};
use forebay_data::{Chunk, DType, Field, Kind, Schema};

use super::super::sink::{Sink, of_sink};
use super::cells::{Cells, float16, whole};
use super::{Encoder, Format, no_columns, refused};
use crate::formats::{example, tfrecord};
use crate::limits;

/// A TFRecord file.
pub(super) struct Tfrecord {
    name: String,
    sink: Sink,
    /// The number of the next row in the stream.
    next: u64,
    /// The place of the next record in the file.
    at: u64,
    example: example::Writer,
}

/// Refuses columns that features cannot represent without loss.
pub(super) fn check(schema: &Schema) -> Result<()> {
    no_columns(schema, Format::Tfrecord)?;
    for field in schema.fields() {
        let no = |why: &str, hint: &str| Err(refused(field, Format::Tfrecord, why, hint));
        match field.kind.dtype() {
            Some(DType::Float64) => {
                return no(
                    "floats of a feature have 32 bits",
                    "cast it to \"float32\", which rounds; or save as parquet or jsonl",
                );
            }
            Some(DType::Uint64) => {
                return no("whole numbers of a feature are int64", "cast it to \"int64\", or save as parquet");
            }
            _ => {}
        }
        if let Kind::Tensor { shape, .. } = &field.kind
            && (shape.contains(&Some(0)) || shape.iter().skip(1).any(Option::is_none))
        {
            let why = "arrays are stored flat, so only their first dimension may differ, and none may be 0";
            return no(why, "save as arrow or parquet");
        }
    }
    Ok(())
}

impl Tfrecord {
    pub(super) fn new(first: u64, sink: Sink) -> Self {
        Self { name: sink.name(), sink, next: first, at: 0, example: example::Writer::default() }
    }
}

impl Encoder for Tfrecord {
    fn add(&mut self, rows: &Chunk) -> Result<()> {
        let schema = rows.schema().clone();
        let cells = schema.fields().iter().zip(rows.columns()).map(|(field, column)| Cells::of(field, column));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        for row in 0..rows.num_rows() {
            for (field, cells) in schema.fields().iter().zip(&cells).filter(|(_, cells)| !cells.is_missing(row)) {
                feature(&mut self.example, field, cells, row)
                    .map_err(|e| e.with("file", &self.name).with("row", self.next).with("column", &field.name))?;
            }
            let record = self.example.finish();
            limits::record(&self.name, self.at, "a record", record.len() as u64)
                .map_err(|e| e.with("row", self.next))?;
            let (header, footer) = tfrecord::frame(record);
            let mut write = || {
                self.sink.write_all(&header)?;
                self.sink.write_all(record)?;
                self.sink.write_all(&footer)
            };
            write().map_err(|e| of_sink(&self.name, e))?;
            self.at += (header.len() + record.len() + footer.len()) as u64;
            self.next += 1;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Sink> {
        Ok(self.sink)
    }
}

fn feature(example: &mut example::Writer, field: &Field, cells: &Cells, row: usize) -> Result<()> {
    let bytes = cells.bytes(row);
    match &field.kind {
        Kind::Bytes | Kind::Utf8 => example.strings(&field.name, [bytes]),
        Kind::Texts => {
            let texts = cells.texts(row).collect::<Option<Vec<_>>>().ok_or_else(|| {
                Error::data("a text in a list is missing, and a feature has no place for that")
                    .hint("save as parquet or jsonl")
            })?;
            example.strings(&field.name, texts.into_iter().map(str::as_bytes));
        }
        Kind::Scalar { dtype } | Kind::Tensor { dtype, .. } => match dtype {
            DType::Float32 => example.floats(&field.name, bytes),
            DType::Float16 => {
                let wide: Vec<u8> = bytes.chunks_exact(2).flat_map(|half| float16(half).to_le_bytes()).collect();
                example.floats(&field.name, &wide);
            }
            dtype => example.ints(&field.name, bytes.chunks_exact(dtype.size()).map(|n| whole(*dtype, n))),
        },
    }
    Ok(())
}
