//! Encodes rows into files: one encoder for each format.

mod arrow;
mod cells;
mod csv;
mod jsonl;
mod mds;
mod parquet;
mod tar;
mod tfrecord;

use std::fmt;

use forebay_core::{Error, Result};
use forebay_data::{Chunk, Field, Schema};
use serde::{Deserialize, Serialize};

use super::sink::Sink;

pub(super) use cells::row_bytes;
pub(super) use mds::index;

/// The formats of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Arrow IPC files.
    Arrow,
    /// Parquet files.
    Parquet,
    /// Tar archives, as WebDataset reads them.
    Tar,
    /// Shards of Mosaic's streaming.
    Mds,
    /// JSON objects, one on each line.
    Jsonl,
    /// Lines of texts and numbers, with the names of the columns in the first.
    Csv,
    /// TFRecord files of `tf.train.Example`.
    Tfrecord,
}

/// The compression of columns in Parquet files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Small files.
    Zstd,
    /// Fast ones.
    Snappy,
}

/// The format, the compression and the size of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// Their format.
    pub format: Format,
    /// How columns are compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
    /// A file is full when its rows take this many bytes in memory.
    pub bytes: u64,
}

/// Writes rows into one file.
pub(super) trait Encoder: Send {
    /// Appends rows.
    ///
    /// # Errors
    /// Data, naming the column, where this format cannot represent a row; any error of the sink.
    fn add(&mut self, rows: &Chunk) -> Result<()>;

    /// Writes the end of the file, and returns its sink.
    ///
    /// # Errors
    /// As [`Encoder::add`].
    fn finish(self: Box<Self>) -> Result<Sink>;
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 7] =
        [Self::Arrow, Self::Parquet, Self::Tar, Self::Mds, Self::Jsonl, Self::Csv, Self::Tfrecord];

    /// Returns its name, which is also the extension of its files.
    pub fn name(self) -> &'static str {
        match self {
            Format::Arrow => "arrow",
            Format::Parquet => "parquet",
            Format::Tar => "tar",
            Format::Mds => "mds",
            Format::Jsonl => "jsonl",
            Format::Csv => "csv",
            Format::Tfrecord => "tfrecord",
        }
    }

    /// Refuses columns that it cannot represent, and files that are too large for it.
    ///
    /// # Errors
    /// Invalid, naming the column and what to do.
    pub fn check(self, schema: &Schema, file_bytes: u64) -> Result<()> {
        match self {
            Format::Arrow => Ok(()),
            Format::Parquet => parquet::check(schema),
            Format::Tar => tar::check(schema),
            Format::Mds => mds::check(schema, file_bytes),
            Format::Jsonl => jsonl::check(schema),
            Format::Csv => csv::check(schema),
            Format::Tfrecord => tfrecord::check(schema),
        }
    }
}

impl Files {
    /// Names them for people.
    pub(super) fn name(&self) -> String {
        let compression = self.compression.map(|compression| format!(", {}", compression.name()));
        format!("files ({}{})", self.format.name(), compression.unwrap_or_default())
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Compression {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Zstd => "zstd",
            Compression::Snappy => "snappy",
        }
    }
}

/// Begins a file. `first` is the number of its first row in the stream, `writer` the consumer that writes it.
pub(super) fn begin(
    files: &Files,
    schema: &Schema,
    consumer: Option<(u64, u64)>,
    first: u64,
    sink: Sink,
) -> Result<Box<dyn Encoder>> {
    Ok(match files.format {
        Format::Arrow => Box::new(arrow::Arrow::new(schema, sink)?),
        Format::Parquet => Box::new(parquet::Parquet::new(schema, files.compression, sink)?),
        Format::Tar => Box::new(tar::Tar::new(schema, consumer, first, sink)),
        Format::Mds => Box::new(mds::Mds::new(schema, sink)),
        Format::Jsonl => Box::new(jsonl::Jsonl::new(schema, first, sink)),
        Format::Csv => Box::new(csv::Csv::new(schema, sink)?),
        Format::Tfrecord => Box::new(tfrecord::Tfrecord::new(first, sink)),
    })
}

/// Returns the error for a column that a format cannot represent.
fn refused(field: &Field, format: Format, why: &str, hint: &str) -> Error {
    let missing = if field.nullable { ", may be missing" } else { "" };
    Error::invalid(format!("column {:?} ({}{missing}) cannot be saved as {format}: {why}", field.name, field.kind))
        .with("column", &field.name)
        .hint(hint)
}

/// Refuses rows without columns, of which a format of samples keeps nothing.
fn no_columns(schema: &Schema, format: Format) -> Result<()> {
    if schema.fields().is_empty() {
        return Err(Error::invalid(format!("a {format} file needs a column")).hint("save as arrow, or keep a column"));
    }
    Ok(())
}
