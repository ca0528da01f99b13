//! The source of a pipeline, as plain data: enough to open it on any machine.
//!
//! A source is resolved in three steps, none of them here: its schema is looked up when the user writes it (`io`),
//! its files are listed and pinned when it runs (a `SourceIndex`), and its rows are read by place.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::Error;
use forebay_data::{DType, Field, Kind, Schema};
use serde::{Deserialize, Serialize};

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

/// The most ids of a row of [`Source::Tokens`]: a row is a gigabyte then.
const TOKENS_MAX: u64 = 1 << 27;

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

impl Source {
    /// Says whether one of its files is in a store or on a server.
    pub fn is_remote(&self) -> bool {
        let is_remote =
            |path: &String| path.split_once("://").is_some_and(|(scheme, _)| scheme != "file" && !scheme.contains('/'));
        self.paths().iter().any(is_remote)
    }

    /// Leaves out the row groups that have no row of which `condition` is true, by what their footers say.
    ///
    /// # Errors
    /// Invalid for a source that has no such footers.
    pub fn filtered(self, condition: Expr) -> Result<Self, Error> {
        match self {
            Source::Parquet { paths, fields, partitions, merged, .. } => {
                Ok(Source::Parquet { paths, fields, partitions, merged, filter: Some(condition.into()) })
            }
            other => Err(Error::invalid(format!("{} leaves no row groups out", other.name())).hint("use filter")),
        }
    }

    /// Returns the condition of which no row is true that is left out.
    pub fn filter(&self) -> Option<&Expr> {
        match self {
            Source::Parquet { filter, .. } => filter.as_deref(),
            _ => None,
        }
    }

    /// Returns the name of the Python function that makes it.
    pub fn name(&self) -> &'static str {
        match self {
            Source::Files { .. } => "from_files",
            Source::ImageFolder { .. } => "from_image_folder",
            Source::Tar { .. } => "from_tar",
            Source::Tfrecord { .. } => "from_tfrecord",
            Source::Parquet { .. } => "from_parquet",
            Source::Arrow { .. } => "from_arrow",
            Source::Text { .. } => "from_text",
            Source::Jsonl { .. } => "from_jsonl",
            Source::Tokens { .. } => "from_tokens",
            Source::Megatron { .. } => "from_megatron",
            Source::Mds { .. } => "from_mds",
            Source::Litdata { .. } => "from_litdata",
            Source::Memory { .. } => "from_numpy",
            Source::MapDataset { .. } => "from_map_dataset",
            Source::Generator { .. } => "from_generator",
            Source::Range { .. } => "range",
        }
    }

    /// Returns the columns that it gives.
    ///
    /// # Errors
    /// Invalid when two have the same name, or rows of token ids are of a type or length that none can be.
    pub fn schema(&self) -> forebay_core::Result<Schema> {
        let bytes = |name: &str| Field::new(name, Kind::Bytes);
        let text = |name: &str| Field::new(name, Kind::Utf8);
        Schema::new(match self {
            Source::Files { .. } => vec![text("path"), bytes("bytes")],
            Source::ImageFolder { .. } => {
                vec![bytes("image"), Field::new("label", Kind::scalar(DType::Int64)), text("path")]
            }
            Source::Tar { extensions, optional, .. } => {
                let member = |e: &String| Field { nullable: optional.contains(e), ..bytes(e) };
                std::iter::once(text("__key__")).chain(extensions.iter().map(member)).collect()
            }
            Source::Tfrecord { features: None, .. } => vec![bytes("record")],
            Source::Text { .. } => vec![text("text")],
            // Writers say of nearly every column that it may be missing. A tensor that is, is an error of its row.
            Source::Tfrecord { features: Some(fields), .. }
            | Source::Parquet { fields, .. }
            | Source::Arrow { fields, .. }
            | Source::Jsonl { fields, .. } => {
                let field = |f: &Field| Field { nullable: f.nullable && f.kind.can_be_missing(), ..f.clone() };
                fields.iter().map(field).collect()
            }
            Source::Tokens { dtype, length, stride, column, .. } => vec![tokens(*dtype, *length, *stride, column)?],
            Source::Megatron { column, .. } => {
                vec![Field::new(column, Kind::Tensor { dtype: DType::Int32, shape: vec![None] })]
            }
            Source::Memory { fields, .. }
            | Source::MapDataset { fields, .. }
            | Source::Generator { fields, .. }
            | Source::Mds { fields, .. }
            | Source::Litdata { fields, .. } => {
                fields.iter().try_for_each(Field::check)?;
                fields.clone()
            }
            Source::Range { .. } => vec![Field::new("id", Kind::scalar(DType::Int64))],
        })
    }

    /// Returns the source with those of its columns alone that are in `needed`, where it can read some without others.
    pub(crate) fn reading(&self, needed: &BTreeSet<String>) -> Self {
        let mut source = self.clone();
        match &mut source {
            Source::Tfrecord { features: Some(fields), .. }
            | Source::Parquet { fields, .. }
            | Source::Arrow { fields, .. }
            | Source::Jsonl { fields, .. }
            | Source::Mds { fields, .. }
            | Source::Litdata { fields, .. }
            | Source::Memory { fields, .. } => fields.retain(|field| needed.contains(&field.name)),
            _ => {}
        }
        source
    }

    /// Returns its columns that the files' paths have, and no file.
    pub fn partitions(&self) -> impl Iterator<Item = &Field> {
        let (fields, names) = match self {
            Source::Parquet { fields, partitions, .. } | Source::Arrow { fields, partitions, .. } => {
                (fields.as_slice(), partitions.as_slice())
            }
            _ => (&[][..], &[][..]),
        };
        fields.iter().filter(|field| names.contains(&field.name))
    }

    /// Returns what its files have in common, if their columns may differ.
    pub fn merged(&self) -> Option<&Merged> {
        match self {
            Source::Parquet { merged, .. } | Source::Arrow { merged, .. } => merged.as_ref(),
            _ => None,
        }
    }

    /// Returns the rows when they are known without looking at any file.
    pub fn rows(&self) -> Option<u64> {
        match self {
            Source::Memory { rows, .. } | Source::MapDataset { rows, .. } => Some(*rows),
            Source::Range { start, stop, step } => {
                let (span, step) = (i128::from(*stop) - i128::from(*start), i128::from(*step));
                Some(if span.signum() == step.signum() { (span + step - step.signum()) / step } else { 0 } as u64)
            }
            _ => None,
        }
    }

    /// Says whether its files are shards that are compressed, and decompressed as a whole.
    pub fn has_packed_shards(&self) -> bool {
        match self {
            Source::Mds { packed, .. } => *packed,
            Source::Litdata { wrap, .. } => *wrap != Wrap::None,
            _ => false,
        }
    }

    /// Says whether it reads files, which are listed and pinned before they are read.
    pub fn reads_files(&self) -> bool {
        self.rows().is_none() && !matches!(self, Source::Generator { .. })
    }

    /// Says whether rows can be counted and read in any order, which `shuffle` and the other order ops need.
    pub fn can_index(&self) -> bool {
        !matches!(self, Source::Generator { .. })
    }

    /// Returns the patterns of its files; of a source without files, none.
    pub fn paths(&self) -> &[String] {
        match self {
            Source::Files { paths }
            | Source::Tar { paths, .. }
            | Source::Tfrecord { paths, .. }
            | Source::Parquet { paths, .. }
            | Source::Arrow { paths, .. }
            | Source::Text { paths }
            | Source::Tokens { paths, .. }
            | Source::Megatron { paths, .. }
            | Source::Mds { paths, .. }
            | Source::Litdata { paths, .. }
            | Source::Jsonl { paths, .. } => paths,
            Source::ImageFolder { root } => std::slice::from_ref(root),
            Source::Memory { .. } | Source::MapDataset { .. } | Source::Generator { .. } | Source::Range { .. } => &[],
        }
    }

    /// Returns the source as it is hashed and compared: a Python object by what it computes, not by its pickle.
    pub(crate) fn named(&self) -> Self {
        let mut source = self.clone();
        if let Source::MapDataset { blob, code, .. } | Source::Generator { blob, code, .. } = &mut source {
            blob.name_by(code);
        }
        source
    }

    /// Returns the source of any files: what is done with each of them, whichever they are.
    pub(crate) fn without_paths(&self) -> Self {
        let mut source = self.clone();
        match &mut source {
            Source::Files { paths }
            | Source::Tar { paths, .. }
            | Source::Tfrecord { paths, .. }
            | Source::Parquet { paths, .. }
            | Source::Arrow { paths, .. }
            | Source::Text { paths }
            | Source::Tokens { paths, .. }
            | Source::Megatron { paths, .. }
            | Source::Mds { paths, .. }
            | Source::Litdata { paths, .. }
            | Source::Jsonl { paths, .. } => paths.clear(),
            Source::ImageFolder { root } => root.clear(),
            Source::Memory { .. } | Source::MapDataset { .. } | Source::Generator { .. } | Source::Range { .. } => {}
        }
        source
    }

    /// Returns what it reads, for people.
    pub fn describe(&self) -> String {
        match self {
            Source::Memory { rows, .. } | Source::MapDataset { rows, .. } => format!("{rows} rows"),
            Source::Generator { .. } => "python generator".to_owned(),
            Source::Range { start, stop, step: 1 } => format!("{start}..{stop}"),
            Source::Range { start, stop, step } => format!("{start}..{stop} by {step}"),
            _ => match self.paths() {
                [one] => format!("{one:?}"),
                many => format!("{} paths", many.len()),
            },
        }
    }
}

/// Returns the column of rows of token ids.
fn tokens(dtype: DType, length: u64, stride: u64, column: &str) -> forebay_core::Result<Field> {
    if dtype.is_float() || dtype == DType::Bool {
        return Err(Error::invalid(format!("dtype={dtype}: token ids are whole numbers"))
            .hint("use what the files were written as, for example \"uint16\" or \"int32\""));
    }
    for (name, value) in [("length", length), ("stride", stride)] {
        if !(1..=TOKENS_MAX).contains(&value) {
            let message = format!("{name}={value} is out of range");
            return Err(Error::invalid(message).hint(format!("use 1 to {TOKENS_MAX}")));
        }
    }
    Ok(Field::new(column, Kind::fixed(DType::Int64, &[length as usize])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_lengths_are_pythons() {
        let rows = |start, stop, step| Source::Range { start, stop, step }.rows();
        assert_eq!(rows(0, 10, 3), Some(4));
        assert_eq!(rows(10, 0, -3), Some(4));
        assert_eq!(rows(0, -5, 1), Some(0));
        assert_eq!(rows(i64::MIN, i64::MAX, 1), Some(u64::MAX));
    }
}
