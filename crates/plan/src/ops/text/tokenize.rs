//! Converts text to token ids: `tokenize`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Schema};
use serde::{Deserialize, Serialize};

use super::checks::tokens;
use crate::ops::access::Access;
use crate::ops::spec::{About, Class, OpSpec};
use crate::source::BlobId;

/// Nanoseconds for a byte of text.
const BYTE_NS: f64 = 150.0;

/// Converts text to token ids.
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
    /// The most ids of a text, special ones included; the rest is cut off. `None` keeps all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
}

impl OpSpec for Tokenize {
    fn about(&self) -> About {
        About { name: "tokenize", class: Class::RowWise, is_random: false }
    }

    /// This check does not read the tokenizer.
    fn apply(&self, input: &Schema) -> Result<Schema> {
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
            tokens("tokenize", "max_length", length)?;
        }
        Ok(input.with(Field::new(&self.output, Kind::Tensor { dtype: DType::Int32, shape: vec![None] })))
    }

    fn arguments(&self) -> String {
        let output = if self.output == self.column { String::new() } else { format!(", output={}", self.output) };
        let cut = self.max_length.map_or(String::new(), |n| format!(", max_length={n}"));
        let plain = if self.add_special_tokens { "" } else { ", add_special_tokens=False" };
        format!("{}, {:.12}{output}{plain}{cut}", self.column, self.tokenizer.0)
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        Some(Access {
            reads: vec![self.column.clone()],
            writes: vec![self.output.clone()],
            may_fail: true,
            ..Access::default()
        })
    }

    fn blob(&self) -> Option<&BlobId> {
        Some(&self.tokenizer)
    }

    fn ns(&self, read: f64, _made: f64) -> f64 {
        read * BYTE_NS
    }
}
