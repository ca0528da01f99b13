//! A source as the user wrote it, and what is made of it.
//!
//! Paths are checked and made absolute, but stay patterns: the index pins the matching files.

use std::collections::BTreeMap;

use forebay_data::{DType, Field};
use forebay_plan::{Source, TimeUnit};

/// A source as the user wrote it.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names are those of Source")]
pub enum Draft {
    Files {
        paths: Vec<String>,
    },
    ImageFolder {
        root: String,
    },
    /// With the extensions to read; a `?` follows an extension that a sample may lack.
    Tar {
        paths: Vec<String>,
        extensions: Option<Vec<String>>,
    },
    Tfrecord {
        paths: Vec<String>,
        features: Features,
        verify: bool,
    },
    /// With the columns that may be missing, where the user says so.
    Parquet {
        paths: Vec<String>,
        columns: Option<Vec<String>>,
        nullable: Option<Vec<String>>,
        together: Together,
    },
    /// As `Parquet`.
    Arrow {
        paths: Vec<String>,
        columns: Option<Vec<String>>,
        nullable: Option<Vec<String>>,
        together: Together,
    },
    Text {
        paths: Vec<String>,
    },
    Jsonl {
        paths: Vec<String>,
        fields: Option<Vec<Field>>,
    },
    /// With the member that is the array of rows; `None` where the document is.
    Json {
        paths: Vec<String>,
        field: Option<String>,
        fields: Option<Vec<Field>>,
    },
    Csv(CsvDraft),
    Tokens {
        paths: Vec<String>,
        dtype: DType,
        length: u64,
        stride: Option<u64>,
        column: String,
    },
    Mds {
        paths: Vec<String>,
        columns: Option<Vec<String>>,
    },
    Litdata {
        paths: Vec<String>,
        columns: Option<Vec<String>>,
    },
    /// With or without the ending of one of the two files.
    Megatron {
        paths: Vec<String>,
        column: String,
    },
}

/// CSV files with the user's options.
#[derive(Debug, Clone, PartialEq)]
pub struct CsvDraft {
    /// The files.
    pub paths: Vec<String>,
    /// The origin of names.
    pub header: CsvHeader,
    /// The separator of fields. `None`: a tab for `.tsv` files, otherwise a comma.
    pub delimiter: Option<char>,
    /// The quote of fields; `None` if they have none.
    pub quote: Option<char>,
    /// The fields that mean a missing value, as they are written.
    pub null: Vec<String>,
    /// Whether quoted fields may have line breaks. `None`: true if one at the beginning of the first file has.
    pub multiline: Option<bool>,
    /// The columns to read and their types. `None`: types are inferred.
    pub fields: Option<Vec<Field>>,
    /// The columns to read, with inferred types. `None`: all.
    pub columns: Option<Vec<String>>,
}

/// The origin of the names of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CsvHeader {
    /// The first record of each file.
    InFiles,
    /// `column_1`, `column_2`, and so on.
    Numbered,
    /// The user.
    Named(Vec<String>),
}

/// How the files of a table are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Together {
    /// Whether `key=value` parts of their paths are columns.
    pub partitions: bool,
    /// Whether the columns of all files are merged. Otherwise all files have the columns of the first.
    pub merged: bool,
}

/// The part of a TFRecord to read.
#[derive(Debug, Clone, PartialEq)]
pub enum Features {
    /// The record's bytes.
    Raw,
    /// The features of the first records.
    Infer,
    /// These features.
    Given(Vec<Field>),
}

impl Draft {
    /// Returns the paths and patterns that the user gave.
    pub fn paths(&self) -> &[String] {
        match self {
            Self::ImageFolder { root } => std::slice::from_ref(root),
            Self::Csv(csv) => &csv.paths,
            Self::Files { paths }
            | Self::Tar { paths, .. }
            | Self::Tfrecord { paths, .. }
            | Self::Parquet { paths, .. }
            | Self::Arrow { paths, .. }
            | Self::Text { paths }
            | Self::Tokens { paths, .. }
            | Self::Megatron { paths, .. }
            | Self::Mds { paths, .. }
            | Self::Litdata { paths, .. }
            | Self::Json { paths, .. }
            | Self::Jsonl { paths, .. } => paths,
        }
    }
}

/// The source of a draft, and what its files say besides.
pub struct Inferred {
    /// The source.
    pub source: Source,
    /// The units of its time columns.
    pub times: BTreeMap<String, TimeUnit>,
}

impl From<Source> for Inferred {
    fn from(source: Source) -> Self {
        Self { source, times: BTreeMap::new() }
    }
}
