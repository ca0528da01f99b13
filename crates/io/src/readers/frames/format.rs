//! What a frame is.

use forebay_core::Result;
use forebay_data::Field;

use crate::formats::{compressed, csv, lines, tfrecord};
use crate::store::{CodecOf, Forward};

/// What a frame is.
#[derive(Debug)]
pub(crate) enum Format {
    Text,
    /// With the fields as the source has them: of a list that may be missing the schema says only that it is one.
    Jsonl {
        fields: Vec<Field>,
    },
    Csv(Box<CsvFormat>),
    Record {
        verify: bool,
    },
    /// With the features as the source has them, too.
    Example {
        verify: bool,
        features: Vec<Field>,
    },
}

/// How records of CSV are read.
#[derive(Debug)]
pub(crate) struct CsvFormat {
    pub(crate) dialect: csv::Dialect,
    /// The fields that mean a missing value.
    pub(crate) null: Vec<String>,
    /// Whether files begin with the names.
    pub(crate) has_header: bool,
    /// The names of all fields of a record, and the columns that are read.
    pub(crate) names: Vec<String>,
    pub(crate) fields: Vec<Field>,
    /// The column that each of all fields fills.
    pub(crate) places: Vec<Option<usize>>,
}

impl Format {
    /// Says whether a row is a line, or more lines.
    pub(super) fn has_lines(&self) -> bool {
        matches!(self, Format::Text | Format::Jsonl { .. } | Format::Csv(_))
    }

    /// Returns where the first row of a file begins.
    pub(super) fn first(&self, forward: &mut Forward) -> Result<u64> {
        match self {
            Format::Text | Format::Jsonl { .. } => lines::begin(forward),
            Format::Csv(csv) => csv.dialect.begin(forward, csv.has_header.then_some(&csv.names)),
            Format::Record { .. } | Format::Example { .. } => Ok(0),
        }
    }

    /// Returns what tells how a file of it is compressed.
    pub(super) fn codec_of(&self) -> CodecOf {
        match self {
            Format::Text | Format::Jsonl { .. } | Format::Csv(_) => compressed::codec,
            Format::Record { .. } | Format::Example { .. } => tfrecord::codec,
        }
    }
}
