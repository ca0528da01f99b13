//! Packs token lists into rows of one length: `pack`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Ragged, Schema};
use serde::{Deserialize, Serialize};

use super::checks::{list_of, tokens};
use crate::ops::checks::count;
use crate::ops::spec::{About, Class, Names, OpSpec};

/// The most documents that are packed together.
const WINDOW_MAX: usize = 1 << 20;

/// How documents are placed in rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "strategy", rename_all = "snake_case", deny_unknown_fields)]
pub enum Packing {
    /// End to end: a row is the next `length` tokens of all documents, and no row but the last of an epoch is padded.
    Concat {
        /// Whether to make the columns of positions and segments.
        segments: bool,
        /// Whether to drop the last row if it would be padded.
        drop_remainder: bool,
    },
    /// Puts each document, whole, into the first row of its window with room for it.
    FirstFit {
        /// Documents that are packed together.
        window: usize,
    },
    /// Puts each document, whole and the longest of a window first, into the row where it leaves the least room (Ding
    /// et al. 2024, "Fewer Truncations Improve Language Modeling").
    BestFit {
        /// Documents that are packed together.
        window: usize,
    },
}

/// Packs token lists of all lengths into rows of one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pack {
    /// The column of ids; the packed rows keep this name: `int32[length]`.
    pub column: String,
    /// Tokens of a row.
    pub length: usize,
    /// The strategy.
    #[serde(flatten)]
    pub packing: Packing,
    /// The id that ends each document, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eos_id: Option<i32>,
    /// The id that fills the rest of a row.
    pub pad_id: i32,
    /// Columns whose lists have the lengths of the ids, and are placed as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub along: Vec<Along>,
    /// Whether to make the column of the bounds of documents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cu_seqlens: bool,
}

/// A column of lists that are as long as the lists of ids beside them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Along {
    /// The column; the packed rows keep this name, with its dtype.
    pub column: String,
    /// Fills the rest of a row, and the places of separators.
    pub pad: f64,
}

impl Pack {
    /// The column of a token's place in its document's part of the row, from 0.
    pub const POSITIONS: &'static str = "position_ids";
    /// The column of a token's document, numbered from 1 in each row; 0 is padding.
    pub const SEGMENTS: &'static str = "segment_ids";

    /// The column of the bounds of a row's documents: 0, and where each ends.
    pub const BOUNDS: &'static str = "cu_seqlens";

    /// Returns whether the columns of positions and segments are made.
    pub fn segments(&self) -> bool {
        !matches!(self.packing, Packing::Concat { segments: false, .. })
    }

    /// Checks a column that lies along, and returns it as it is packed.
    fn beside(&self, input: &Schema, along: &Along) -> Result<Field> {
        let (name, kind) = (&along.column, &input.field(&along.column)?.kind);
        let dtype = match kind {
            Kind::Tensor { dtype, shape } if shape[..] == [None] => *dtype,
            _ => {
                return Err(Error::invalid(format!("pack: column {name:?} is {kind}"))
                    .hint("a column along the ids is a list of as many numbers: int32[?], int8[?], float32[?]"));
            }
        };
        if Ragged::number(dtype, along.pad).is_none() {
            return Err(Error::invalid(format!("pack: column {name:?} is {kind}, and {} is no {dtype}", along.pad))
                .hint(format!("give pad={{{name:?}: ...}} a number that {dtype} holds exactly")));
        }
        Ok(Field::new(name, Kind::fixed(dtype, &[self.length])))
    }
}

impl OpSpec for Pack {
    fn about(&self) -> About {
        About { name: "pack", class: Class::Global, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
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
        let along: Vec<Field> = self.along.iter().map(|along| self.beside(input, along)).collect::<Result<_>>()?;
        tokens("pack", "length", self.length)?;
        if let Packing::FirstFit { window } | Packing::BestFit { window } = self.packing {
            count("pack", "window", window, WINDOW_MAX)?;
        }
        let row = |name: &str| Field::new(name, Kind::fixed(DType::Int32, &[self.length]));
        let beside = [Self::POSITIONS, Self::SEGMENTS].into_iter().filter(|_| self.segments()).map(row);
        let bounds = self.cu_seqlens.then(|| Field::new(Self::BOUNDS, list_of(DType::Int32)));
        Schema::new(std::iter::once(row(&self.column)).chain(along).chain(beside).chain(bounds).collect())
    }

    fn arguments(&self) -> String {
        let how = match self.packing {
            Packing::Concat { drop_remainder: false, .. } => "concat".to_owned(),
            Packing::Concat { drop_remainder: true, .. } => "concat, drop_remainder=True".to_owned(),
            Packing::FirstFit { window } => format!("first_fit, window={window}"),
            Packing::BestFit { window } => format!("best_fit, window={window}"),
        };
        let eos = self.eos_id.map_or(String::new(), |id| format!(", eos_id={id}"));
        let along: String = self.along.iter().map(|a| format!(", {}={}", a.column, a.pad)).collect();
        let bounds = if self.cu_seqlens { ", cu_seqlens=True" } else { "" };
        format!("{}, {}, {how}{eos}{along}{bounds}", self.column, self.length)
    }

    fn needs(&self, _input: &Schema, _after: Names) -> Names {
        std::iter::once(&self.column).chain(self.along.iter().map(|along| &along.column)).cloned().collect()
    }
}
