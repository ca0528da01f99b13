//! The formats of frames.

use forebay_core::Result;
use forebay_data::Field;

use crate::formats::json::document;
use crate::formats::{compressed, csv, lines, tfrecord};
use crate::store::{CodecOf, Forward};

/// The format of a frame.
#[derive(Debug)]
pub(crate) enum Format {
    Text,
    /// Has the source's fields, because the schema does not say whether a list may be missing.
    Jsonl {
        fields: Vec<Field>,
    },
    /// The objects of an array: the document, or the member that is named.
    Json {
        field: Option<String>,
        fields: Vec<Field>,
    },
    Csv(Box<CsvFormat>),
    Record {
        verify: bool,
    },
    /// Has the source's features, for the same reason.
    Example {
        verify: bool,
        features: Vec<Field>,
    },
}

/// The parameters of CSV files.
#[derive(Debug)]
pub(crate) struct CsvFormat {
    pub(crate) dialect: csv::Dialect,
    /// The fields that mean a missing value.
    pub(crate) null: Vec<String>,
    /// Whether files begin with a header of the names.
    pub(crate) has_header: bool,
    /// The names of all fields of a record.
    pub(crate) names: Vec<String>,
    pub(crate) fields: Vec<Field>,
    /// For each of these fields, the column that it fills.
    pub(crate) places: Vec<Option<usize>>,
}

impl Format {
    /// Says whether a row is one or more lines.
    pub(super) fn has_lines(&self) -> bool {
        matches!(self, Format::Text | Format::Jsonl { .. } | Format::Csv(_))
    }

    /// Returns where the first row of a file begins.
    pub(super) fn first(&self, forward: &mut Forward) -> Result<u64> {
        match self {
            Format::Text | Format::Jsonl { .. } => lines::begin(forward),
            Format::Json { field, .. } => document::begin(forward, field.as_deref()),
            Format::Csv(csv) => csv.dialect.begin(forward, csv.has_header.then_some(&csv.names)),
            Format::Record { .. } | Format::Example { .. } => Ok(0),
        }
    }

    /// Returns the function that detects the codec of a file.
    pub(super) fn codec_of(&self) -> CodecOf {
        match self {
            Format::Text | Format::Jsonl { .. } | Format::Json { .. } | Format::Csv(_) => compressed::codec,
            Format::Record { .. } | Format::Example { .. } => tfrecord::codec,
        }
    }
}
