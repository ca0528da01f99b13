//! What the text ops make of a schema, and which arguments they take.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Schema};
use serde::{Deserialize, Serialize};

use crate::source::BlobId;

/// The most tokens of a text that is cut.
const LENGTH_MAX: usize = 1 << 24;

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

fn within(op: &str, argument: &str, value: usize, most: usize) -> Result<()> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!("{op}: {argument}={value} is out of range")).hint(format!("use 1..={most}")))
}
