//! The source of a pipeline, as plain data: enough to open it on any machine. `facts` has the properties that planners
//! need, `columns` the columns of a source, `combined` the checks and columns of datasets that are read as one,
//! `mix_weights` the checks of their weights, `windows` the columns of windows.
//!
//! A source is resolved in three steps, none of them here: `io` looks up its schema when the user writes it, and lists
//! and pins its files when it runs (a `SourceIndex`), and its rows are read by place.

mod blob;
mod columns;
mod combined;
pub(crate) mod facts;
mod mix_weights;
pub(crate) mod windows;

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_data::{DType, Field};
use serde::{Deserialize, Serialize};

pub use blob::BlobId;

use crate::graph::Graph;
use crate::ops::expr::Expr;

/// A column of MosaicML's shards, as in their index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MdsColumn {
    /// Its name.
    pub name: String,
    /// The encoding of its values: `str`, `ndarray:float32:3,4`.
    pub encoding: String,
    /// The bytes of each value, if all have the same size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// The part of a chunk of LitData that is compressed at once.
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

/// The common properties of files with different columns: a column may be missing from a file, or have a narrower type
/// there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merged {
    /// The unit of each time column, as in `timestamp[us]`: a file with another unit would yield wrong numbers.
    pub times: BTreeMap<String, String>,
}

/// The dialect of CSV files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsvDialect {
    /// The delimiter between fields: an ASCII character.
    pub delimiter: char,
    /// The quote of fields: an ASCII character. `None`: quotes are ordinary characters.
    pub quote: Option<char>,
    /// The fields that mean a missing value, as written.
    pub null: Vec<String>,
    /// Whether the first record of each file has the names.
    pub header: bool,
    /// Whether quoted fields may have line breaks: then a file is read from its start.
    pub multiline: bool,
}

/// Datasets that are read as one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Combined {
    /// How their rows are put together.
    pub how: Combining,
    /// The datasets.
    pub parts: Vec<SourcePart>,
    /// The column with the name of the part that a row is from, if it has one: a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
}

/// One of several datasets that are read as one: a source, with order ops and row ops.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcePart {
    /// Its name.
    pub name: String,
    /// Its pipeline.
    pub graph: Arc<Graph>,
}

/// How the rows of several datasets are put together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Combining {
    /// Each row is from one of them, in shares that hold in every window of 1,024 rows.
    Mix {
        /// The weight of each: positive, with any sum.
        weights: Vec<f64>,
        /// When an epoch ends.
        stop: Stop,
        /// How the weights change: those above are then of the first row, and may be 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changes: Option<Changes>,
        /// The rows of a batch, if each batch has the share of each dataset: a power of two, at most 1,024.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        per_batch: Option<u64>,
    },
    /// All rows of the first, then those of the second, and so on.
    Concatenate,
    /// Blocks of rows of several in turn, as tf.data's `interleave`; where one ends, the next one comes in.
    Interleave {
        /// How many take turns.
        cycle: u64,
        /// The rows of one in its turn.
        block: u64,
    },
    /// A row has neighbouring rows of the only one, as lists.
    Window {
        /// The rows of a window.
        size: u64,
        /// The rows between the starts of two windows.
        stride: u64,
        /// Whether windows with fewer rows are left out.
        drop_remainder: bool,
    },
    /// A row has the columns of all.
    Zip {
        /// Whether they must have the same number of rows; otherwise the rest of the longer ones is left out.
        strict: bool,
    },
}

/// How the weights of a mix change within an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// What holds between two points.
    pub between: Between,
    /// The weights from some rows on, rising and above 0. The last ones hold to the end.
    pub points: Vec<WeightsFrom>,
}

/// The weights from a row on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightsFrom {
    /// The place in the epoch.
    pub row: u64,
    /// The weight of each dataset: 0 or more, with a positive sum.
    pub weights: Vec<f64>,
}

/// What holds between two points at which weights are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Between {
    /// The weights of the point before.
    Steps,
    /// Shares on a line from one point to the next.
    Linear,
}

/// When an epoch of a mix ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// When one of its parts has been read whole.
    First,
    /// When all have been read whole; the shorter ones begin again.
    All,
    /// When each row was read once; a part that has ended is left out, and the others keep the ratio of their weights.
    Once,
    /// After so many rows; parts begin again as needed.
    Rows(u64),
    /// Never; parts begin again as needed.
    Never,
}

/// The source of samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum Source {
    /// Whole files, each a sample: columns `path` (string) and `bytes`.
    Files {
        /// Paths, urls, globs and `{a..b}` braces.
        paths: Vec<String>,
    },
    /// A folder with one folder per class: columns `image` (bytes), `label` (int64, the index of the class among the
    /// sorted folder names) and `path`.
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
        /// The extensions that a sample may lack.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        optional: Vec<String>,
    },
    /// TFRecord files: column `record` (bytes), or the features of a `tf.train.Example`.
    Tfrecord {
        /// Paths, urls, globs and braces.
        paths: Vec<String>,
        /// The features to parse; `None` reads the raw record.
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
        /// The columns that come from the files' paths, as `key=value`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        partitions: Vec<String>,
        /// The common properties of files, if their columns may differ.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        merged: Option<Merged>,
        /// The columns of lists in which a missing list is read as an empty one, because the user said so.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        empty_lists: Vec<String>,
        /// The condition by which row groups are skipped: by their footers, it is true for none of their rows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filter: Option<Box<Expr>>,
    },
    /// Arrow IPC files (Feather, version 2).
    Arrow {
        /// Paths, urls, globs and braces.
        paths: Vec<String>,
        /// The columns to read.
        fields: Vec<Field>,
        /// The columns that come from the files' paths, as `key=value`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        partitions: Vec<String>,
        /// The common properties of files, if their columns may differ.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        merged: Option<Merged>,
        /// The columns of lists in which a missing list is read as an empty one, because the user said so.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        empty_lists: Vec<String>,
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
    /// The objects of an array of JSON documents.
    Json {
        /// Paths, urls, globs and braces.
        paths: Vec<String>,
        /// The member that is the array, with dots after the members around it; `None` where the document is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        field: Option<String>,
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
        /// The dialect of the files.
        dialect: CsvDialect,
    },
    /// Flat files of token ids, one after another without a mark between documents: a row has `length` of them.
    Tokens {
        /// Paths, urls, globs and braces.
        paths: Vec<String>,
        /// The type of a stored id: an integer type.
        dtype: DType,
        /// The ids of a row.
        length: u64,
        /// The ids from the beginning of a row to the beginning of the next.
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
        /// The stored columns of a sample.
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
        /// The stored columns of a sample.
        columns: Vec<MdsColumn>,
        /// The columns to read.
        fields: Vec<Field>,
        /// The part of chunks that is compressed. Chunks are decompressed as a whole.
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
        /// The name of its code, the same in every process; empty if the pickle is the name.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        code: String,
        /// Its length.
        rows: u64,
        /// The columns of an item.
        fields: Vec<Field>,
    },
    /// A Python function that returns an iterator, pickled. Read from its start, once an epoch.
    Generator {
        /// The function.
        blob: BlobId,
        /// The name of its code, the same in every process; empty if the pickle is the name.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        code: String,
        /// The columns of a yielded sample.
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
    /// Other datasets, read as one.
    Combined(Combined),
}
