//! The source of a pipeline, as plain data: enough to open it on any machine. `facts` has what planners ask of it,
//! `columns` the columns that it gives.
//!
//! A source is resolved in three steps, none of them here: its schema is looked up when the user writes it (`io`),
//! its files are listed and pinned when it runs (a `SourceIndex`), and its rows are read by place.

mod columns;
mod facts;

use std::collections::BTreeMap;

use forebay_data::{DType, Field};
use serde::{Deserialize, Serialize};

pub use facts::{RowsKnown, SourceFacts};

use crate::ops::expr::Expr;

/// The BLAKE3 hash, in hexadecimal, of bytes kept beside the graph: arrays, or a pickled Python object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobId(pub String);

impl BlobId {
    /// Names `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).to_hex().to_string())
    }

    /// Puts the name of what a pickle computes in its place, if it has one.
    pub(crate) fn name_by(&mut self, code: &mut String) {
        if !code.is_empty() {
            self.0 = std::mem::take(code);
        }
    }
}

/// A column of MosaicML's shards, as their index has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MdsColumn {
    /// Its name.
    pub name: String,
    /// What its values are stored as: `str`, `ndarray:float32:3,4`.
    pub encoding: String,
    /// The bytes of each value, where all have as many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// How much of a chunk of LitData is compressed at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wrap {
    /// Nothing is compressed.
    #[default]
    None,
    /// The whole file.
    Chunk,
    /// Some samples together, behind a table.
    Batch,
    /// Each sample.
    Sample,
}

/// What files have in common that were found to have different columns: a column may be missing from a file, or be of a
/// narrower type there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merged {
    /// The unit of each time column, as in `timestamp[us]`: a file with another unit would give wrong numbers.
    pub times: BTreeMap<String, String>,
}

/// How CSV files are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsvDialect {
    /// What is between fields: an ASCII letter.
    pub delimiter: char,
    /// What fields are quoted with: an ASCII letter. `None`: quotes are letters.
    pub quote: Option<char>,
    /// The fields that mean a missing value, as they are written.
    pub null: Vec<String>,
    /// Whether the first record of each file has the names.
    pub header: bool,
    /// Whether quoted fields may have line breaks: then a file is read from its start.
    pub multiline: bool,
}

/// Where samples come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum Source {
    /// Whole files, one a sample: columns `path` (string) and `bytes`.
    Files {
        /// Paths, urls, globs and `{a..b}` braces.
        paths: Vec<String>,
    },
    /// A folder with one folder a class: columns `image` (bytes), `label` (int64, the class's place among the sorted
    /// folder names) and `path`.
    ImageFolder {
        /// The folder.
        root: String,
    },
    /// Tar shards with WebDataset naming: members with the same base name are one sample; columns `__key__` (string)
    /// and one bytes column for each extension.
    Tar {
        /// Paths, urls, globs and braces.
        paths: Vec<String>,
        /// The extensions, in the order of their columns.
        extensions: Vec<String>,
        /// Those of them that a sample may lack.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        optional: Vec<String>,
    },
    /// TFRecord files: column `record` (bytes), or the features of a `tf.train.Example`.
    Tfrecord {
        /// Paths, urls, globs and braces.
        paths: Vec<String>,
        /// The features to parse; `None` gives the raw record.
        features: Option<Vec<Field>>,
        /// Whether checksums are verified.
        verify: bool,
    },
    /// Parquet files.
    Parquet {
        /// Paths, urls, globs and braces.
        paths: Vec<String>,
        /// The columns to read.
        fields: Vec<Field>,
        /// Those of them that the files' paths have, as `key=value`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        partitions: Vec<String>,
        /// What files whose columns differ have in common, if they may.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        merged: Option<Merged>,
        /// Row groups are left out that have no row of which this is true, by what their footer says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filter: Option<Box<Expr>>,
    },
    /// Arrow IPC files (Feather, version 2).
    Arrow {
        /// Paths, urls, globs and braces.
        paths: Vec<String>,
        /// The columns to read.
        fields: Vec<Field>,
        /// Those of them that the files' paths have, as `key=value`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        partitions: Vec<String>,
        /// What files whose columns differ have in common, if they may.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        merged: Option<Merged>,
    },
    /// Lines of text files, without their line ends: column `text`.
    Text {
        /// Paths, urls, globs and braces.
        paths: Vec<String>,
    },
    /// JSON objects, one a line.
    Jsonl {
        /// Paths, urls, globs and braces.
        paths: Vec<String>,
        /// The fields to read.
        fields: Vec<Field>,
    },
    /// Records of fields between delimiters, one after another: a line each, unless quoted fields have line breaks.
    Csv {
        /// Paths, urls, globs and braces.
        paths: Vec<String>,
        /// The names of all fields of a record.
        names: Vec<String>,
        /// The columns to read.
        fields: Vec<Field>,
        /// How the files are written.
        dialect: CsvDialect,
    },
    /// Flat files of token ids, one after another without a mark between documents: `length` of them are a row.
    Tokens {
        /// Paths, urls, globs and braces.
        paths: Vec<String>,
        /// What an id is stored as: an integer type.
        dtype: DType,
        /// The ids of a row.
        length: u64,
        /// The ids from the beginning of a row to that of the next one.
        stride: u64,
        /// The column: `int64[length]`.
        column: String,
    },
    /// Megatron's indexed datasets: documents of token ids in `.bin` files, found by the `.idx` files beside them.
    Megatron {
        /// Paths, urls, globs and braces, without the ending.
        paths: Vec<String>,
        /// The column: `int32[?]`.
        column: String,
    },
    /// Folders of MosaicML's shards, each with an `index.json`.
    Mds {
        /// Folders: paths, urls, globs and braces.
        paths: Vec<String>,
        /// What a sample is stored as, column by column.
        columns: Vec<MdsColumn>,
        /// The columns to read.
        fields: Vec<Field>,
        /// Whether shards are compressed, and decompressed as a whole.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        packed: bool,
    },
    /// Folders of LitData's chunks, each with an `index.json`.
    Litdata {
        /// Folders: paths, urls, globs and braces.
        paths: Vec<String>,
        /// What a sample is stored as, column by column.
        columns: Vec<MdsColumn>,
        /// The columns to read.
        fields: Vec<Field>,
        /// What of chunks is compressed. They are decompressed as a whole.
        #[serde(default)]
        wrap: Wrap,
    },
    /// Arrays that travel with the graph, as an Arrow IPC stream.
    Memory {
        /// The arrays.
        blob: BlobId,
        /// Their rows.
        rows: u64,
        /// Their columns.
        fields: Vec<Field>,
    },
    /// A Python object with `__len__` and `__getitem__`, pickled.
    MapDataset {
        /// The object.
        blob: BlobId,
        /// The name of what it gives, the same in every process; empty where the pickle is the name.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        code: String,
        /// Its length.
        rows: u64,
        /// What an item holds.
        fields: Vec<Field>,
    },
    /// A Python function that returns an iterator, pickled. Read from its start, once an epoch.
    Generator {
        /// The function.
        blob: BlobId,
        /// The name of what it yields, the same in every process; empty where the pickle is the name.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        code: String,
        /// What it yields.
        fields: Vec<Field>,
    },
    /// The integers `start, start + step, …` below (or above) `stop`: one int64 column, `id`.
    Range {
        /// The first.
        start: i64,
        /// The end, not included.
        stop: i64,
        /// The step; not 0.
        step: i64,
    },
}
