//! Masks random ids, as BERT is trained: `mask_tokens`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Schema};
use serde::{Deserialize, Serialize};

use super::checks::{ids, list_of};
use crate::ops::access::Access;
use crate::ops::checks::{coin, count, range};
use crate::ops::spec::{About, Class, OpSpec};

/// The most ids of a vocabulary.
const VOCAB_MAX: usize = 1 << 30;
/// Nanoseconds for an id.
const ID_NS: f64 = 4.0;

/// Masks random ids (Devlin et al. 2019, "BERT"), as the collator of `transformers` does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskTokens {
    /// The column of ids; it is changed in place.
    pub column: String,
    /// The column of labels: the ids that were chosen, and -100; `int32[?]`.
    pub labels: String,
    /// The id of `[MASK]`.
    pub mask_id: i32,
    /// The number of ids of the vocabulary: a random id is less.
    pub vocab_size: usize,
    /// The probability with which an id is chosen.
    pub probability: f64,
    /// The probability with which a chosen id becomes `mask_id`.
    pub mask_replace: f64,
    /// The probability with which a chosen id becomes a random id. Otherwise it stays.
    pub random_replace: f64,
    /// Ids that are never chosen, in ascending order.
    pub special_ids: Vec<i32>,
}

impl OpSpec for MaskTokens {
    fn about(&self) -> About {
        About { name: "mask_tokens", class: Class::RowWise, is_random: true }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        ids("mask_tokens", input, &self.column)?;
        if self.labels == self.column {
            return Err(Error::invalid("mask_tokens: labels= is the column of ids").hint("give it another name"));
        }
        coin("mask_tokens", self.probability)?;
        count("mask_tokens", "vocab_size", self.vocab_size, VOCAB_MAX)?;
        for (name, part) in [("mask_replace", self.mask_replace), ("random_replace", self.random_replace)] {
            // A sum of decimals may be past 1 by its rounding.
            if !(0.0..=1.0).contains(&part) || self.mask_replace + self.random_replace > 1.0 + 1e-9 {
                return Err(range("mask_tokens", name, part, "probabilities whose sum is at most 1"));
            }
        }
        Ok(input.with(Field::new(&self.labels, list_of(DType::Int32))))
    }

    fn arguments(&self) -> String {
        let Self { column, labels, mask_id, vocab_size, probability, .. } = self;
        format!("{column}, labels={labels}, mask_id={mask_id}, vocab_size={vocab_size}, p={probability}")
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        let writes = vec![self.column.clone(), self.labels.clone()];
        Some(Access { reads: vec![self.column.clone()], writes, ..Access::default() })
    }

    fn ns(&self, read: f64, _made: f64) -> f64 {
        read / 4.0 * ID_NS
    }
}
