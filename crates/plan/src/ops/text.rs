//! The arguments of the text ops, their checks, and the schema after them.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Schema};
use serde::{Deserialize, Serialize};

use crate::source::BlobId;

/// The most tokens of a packed row, and of a text that is cut.
const LENGTH_MAX: usize = 1 << 24;
/// The most documents that are packed together.
const WINDOW_MAX: usize = 1 << 20;

/// Text to token ids.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokenize {
    /// The column of texts.
    pub column: String,
    /// The column of ids: `int32[?]`.
    pub output: String,
    /// A `tokenizer.json`.
    pub tokenizer: BlobId,
    /// Whether the tokenizer frames each text as it was trained to (`[CLS]`, `</s>`).
    pub add_special_tokens: bool,
    /// The most ids of a text, special ones included; what is past them is cut off. `None` keeps all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
}

impl Tokenize {
    /// Checks the arguments and returns the schema after it. The tokenizer is not looked at.
    pub(crate) fn apply(&self, input: &Schema) -> Result<Schema> {
        let field = input.field(&self.column)?;
        let column = &self.column;
        match field.kind {
            Kind::Utf8 => {}
            ref other => {
                return Err(Error::invalid(format!("tokenize: column {column:?} is {other}, not a string"))
                    .hint("name the column that holds the text"));
            }
        }
        if let Some(length) = self.max_length {
            within("tokenize", "max_length", length, LENGTH_MAX)?;
        }
        Ok(input.with(Field::new(&self.output, Kind::Tensor { dtype: DType::Int32, shape: vec![None] })))
    }
}

/// How documents go into rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "strategy", rename_all = "snake_case", deny_unknown_fields)]
pub enum Packing {
    /// End to end: a row is the next `length` tokens of all documents, and no row but the last of an epoch is padded.
    Concat {
        /// Whether the columns of positions and segments are made.
        segments: bool,
        /// Whether the last row is left out when it would be padded.
        drop_remainder: bool,
    },
    /// Each document, whole, into the first row of its window with room for it.
    FirstFit {
        /// Documents that are packed together.
        window: usize,
    },
    /// The longest document of a window first, each whole into the row that it leaves the least room in
    /// (Ding et al. 2024, "Fewer Truncations Improve Language Modeling").
    BestFit {
        /// Documents that are packed together.
        window: usize,
    },
}

/// Token lists of all lengths to rows of one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pack {
    /// The column of ids, which stays the name of the packed ones: `int32[length]`.
    pub column: String,
    /// Tokens of a row.
    pub length: usize,
    /// How.
    #[serde(flatten)]
    pub packing: Packing,
    /// What ends each document, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eos_id: Option<i32>,
    /// What fills a row that is not full.
    pub pad_id: i32,
}

impl Pack {
    /// The column of a token's place in its document's part of the row, from 0.
    pub const POSITIONS: &'static str = "position_ids";
    /// The column of a token's document, numbered from 1 in each row; 0 is padding.
    pub const SEGMENTS: &'static str = "segment_ids";

    /// Says whether the columns of positions and segments are made.
    pub fn segments(&self) -> bool {
        !matches!(self.packing, Packing::Concat { segments: false, .. })
    }

    /// Checks the arguments and returns the schema after it.
    pub(crate) fn apply(&self, input: &Schema) -> Result<Schema> {
        let field = input.field(&self.column)?;
        match &field.kind {
            Kind::Tensor { dtype: DType::Int32, shape } if shape.len() == 1 => {}
            other => {
                let hint = match other {
                    Kind::Utf8 => format!("put .tokenize({:?}, ...) before it", self.column),
                    _ => "it packs lists of int32: int32[?]".to_owned(),
                };
                return Err(Error::invalid(format!("pack: column {:?} is {other}", self.column)).hint(hint));
            }
        }
        within("pack", "length", self.length, LENGTH_MAX)?;
        if let Packing::FirstFit { window } | Packing::BestFit { window } = self.packing {
            within("pack", "window", window, WINDOW_MAX)?;
        }
        let row = |name: &str| Field::new(name, Kind::fixed(DType::Int32, &[self.length]));
        let beside = [Self::POSITIONS, Self::SEGMENTS].into_iter().filter(|_| self.segments());
        Schema::new(std::iter::once(self.column.as_str()).chain(beside).map(row).collect())
    }
}

fn within(op: &str, argument: &str, value: usize, most: usize) -> Result<()> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!("{op}: {argument}={value} is out of range")).hint(format!("use 1 to {most}")))
}
