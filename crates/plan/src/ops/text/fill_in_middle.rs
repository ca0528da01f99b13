//! Moves a random middle part to the end, at random: `fill_in_middle`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Kind, Schema};
use serde::{Deserialize, Serialize};

use super::checks::{ids, list_of};
use crate::ops::access::Access;
use crate::ops::checks::range;
use crate::ops::spec::{About, Class, OpSpec};

/// Nanoseconds for a byte.
const BYTE_NS: f64 = 1.0;

/// What marks the prefix, the suffix and the middle part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MiddleTokens {
    /// Ids, for lists of ids, which are cut between ids.
    Ids([i32; 3]),
    /// Texts, for texts, which are cut between characters.
    Texts([String; 3]),
}

/// Moves a random middle part to the end (Bavarian et al. 2022, "Efficient Training of Language Models to Fill in the
/// Middle").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FillInMiddle {
    /// The column of texts or ids; it is changed in place.
    pub column: String,
    /// The marks of the prefix, the suffix and the middle part.
    pub tokens: MiddleTokens,
    /// The probability with which a row is changed.
    pub rate: f64,
    /// The probability with which the suffix of a changed row comes first.
    pub spm_rate: f64,
}

impl OpSpec for FillInMiddle {
    fn about(&self) -> About {
        About { name: "fill_in_middle", class: Class::RowWise, is_random: true }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        let kind = &input.field(&self.column)?.kind;
        match self.tokens {
            MiddleTokens::Texts(_) if *kind == Kind::Utf8 => {}
            MiddleTokens::Texts(_) if *kind == list_of(DType::Int32) => {
                return Err(Error::invalid(format!("fill_in_middle: column {:?} has ids", self.column))
                    .hint("give the ids of prefix, suffix and middle, or put it before tokenize"));
            }
            MiddleTokens::Ids(_) if *kind == Kind::Utf8 => {
                return Err(Error::invalid(format!("fill_in_middle: column {:?} has texts", self.column))
                    .hint("give the texts of prefix, suffix and middle, or put it behind tokenize"));
            }
            _ => ids("fill_in_middle", input, &self.column)?,
        }
        for (name, part) in [("rate", self.rate), ("spm_rate", self.spm_rate)] {
            if !(0.0..=1.0).contains(&part) {
                return Err(range("fill_in_middle", name, part, "a probability, 0 to 1"));
            }
        }
        Ok(input.clone())
    }

    fn arguments(&self) -> String {
        format!("{}, rate={}, spm_rate={}", self.column, self.rate, self.spm_rate)
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        Some(Access::in_place([&self.column]))
    }

    fn ns(&self, read: f64, _made: f64) -> f64 {
        read * BYTE_NS
    }
}
