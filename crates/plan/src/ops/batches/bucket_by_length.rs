//! Batches rows of about the same length together: `bucket_by_length`.
//!
//! It has the semantics of tf.data's `bucket_by_sequence_length`: a row belongs to the first bucket whose boundary is
//! above its length. A batch is full when its bucket has as many rows as its batches, or when one more row would take
//! more than the tokens of a batch: its rows times their padded length. At the end of an epoch the remaining rows come
//! out bucket by bucket, the shortest first.

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind, Schema};
use serde::{Deserialize, Serialize};

use crate::ops::batches::pad::{LENGTH_MAX, check_padded, is_list, pad_value};
use crate::ops::spec::{About, Class, Names, OpSpec, with_read};

const NAME: &str = "bucket_by_length";

/// The most buckets.
const BUCKETS_MAX: usize = 1024;
/// The most rows of a batch.
pub(super) const ROWS_MAX: usize = 1 << 24;
/// The most tokens of a batch: Arrow counts the numbers of a column with 31 bits.
const TOKENS_MAX: usize = i32::MAX as usize;

/// The padded length of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PadTo {
    /// The longest row of the batch; each column by itself.
    Longest,
    /// The longest row that the bucket may hold: its boundary less one. Then no row may be in the last bucket.
    Boundary,
    /// This length for all.
    Length(usize),
}

/// Batches rows of about the same length together, padded to one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// The column whose length is used.
    pub column: String,
    /// The first length that a bucket does not hold, rising; one more bucket holds all longer rows.
    pub boundaries: Vec<usize>,
    /// The most rows of a batch, for each bucket; empty if `max_tokens` alone bounds batches.
    pub batch_sizes: Vec<usize>,
    /// The most rows of a batch times their padded length. A row of no tokens counts as one token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// The padded length of rows.
    pub pad_to: PadTo,
    /// The padding of columns, if it is not 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub padding: Vec<(String, f64)>,
    /// Whether batches that are not full are dropped.
    pub drop_remainder: bool,
}

impl OpSpec for Bucket {
    fn about(&self) -> About {
        About { name: NAME, class: Class::Group, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        self.check_buckets()?;
        let field = input.field(&self.column)?;
        if !is_list(field) {
            let hint = match field.kind {
                Kind::Utf8 => format!("put .tokenize({:?}, ...) before it", self.column),
                _ => "name a column whose rows differ in their first dimension, as int32[?]".to_owned(),
            };
            let message = format!("{NAME}: column {:?} is {}, which has no length", self.column, field.kind);
            return Err(Error::invalid(message).hint(hint));
        }
        check_padded(NAME, &self.padding, input)?;
        let mut schema = input.clone();
        for field in input.fields().iter().filter(|f| matches!(f.kind, Kind::Tensor { .. })) {
            if is_list(field) {
                self.pad_of(field)?;
                schema = schema.with(Field { uniform: true, ..field.clone() });
            } else if field.kind.known_shape().is_none() {
                let message = format!("{NAME}: column {:?} is {}", field.name, field.kind);
                return Err(Error::invalid(message).hint("rows may differ in their first dimension alone"));
            }
        }
        Ok(schema)
    }

    fn arguments(&self) -> String {
        let pad = match self.pad_to {
            PadTo::Longest => String::new(),
            PadTo::Boundary => ", pad_to=boundary".to_owned(),
            PadTo::Length(length) => format!(", pad_to={length}"),
        };
        let sizes = if self.batch_sizes.is_empty() { String::new() } else { format!(", {:?}", self.batch_sizes) };
        let tokens = self.max_tokens.map(|tokens| format!(", max_tokens={tokens}")).unwrap_or_default();
        let drop = if self.drop_remainder { ", drop_remainder=True" } else { "" };
        format!("{}, {:?}{sizes}{tokens}{pad}{drop}", self.column, self.boundaries)
    }

    fn needs(&self, input: &Schema, after: Names) -> Names {
        with_read(input, after, std::slice::from_ref(&self.column))
    }

    fn restrict(&mut self, input: &Schema) -> bool {
        self.padding.retain(|(column, _)| input.position(column).is_some());
        true
    }

    fn is_uncounted(&self) -> bool {
        true
    }
}

impl Bucket {
    /// Returns the bucket of a length.
    pub fn bucket_of(&self, length: usize) -> usize {
        self.boundaries.partition_point(|boundary| *boundary <= length)
    }

    /// Returns the number of buckets.
    pub fn num_buckets(&self) -> usize {
        self.boundaries.len() + 1
    }

    /// Returns the most rows of a batch of a bucket.
    pub fn rows_of(&self, bucket: usize) -> usize {
        self.batch_sizes.get(bucket).copied().unwrap_or(ROWS_MAX)
    }

    /// Returns the most rows of any batch.
    pub fn rows_max(&self) -> usize {
        let most = self.batch_sizes.iter().copied().max().unwrap_or(ROWS_MAX);
        self.max_tokens.map_or(most, |tokens| most.min(tokens))
    }

    /// Returns the padded length of the rows of a bucket; `None` is the longest of the batch. The last bucket has no
    /// boundary: [`Bucket::check_length`] refuses its rows.
    pub fn padded_length(&self, bucket: usize) -> Option<usize> {
        match self.pad_to {
            PadTo::Longest => None,
            PadTo::Length(length) => Some(length),
            PadTo::Boundary => self.boundaries.get(bucket).map(|boundary| boundary - 1),
        }
    }

    /// Says whether a row may be too long. Such a row fails by itself, before rows are grouped.
    pub fn fits_rows(&self) -> bool {
        self.pad_to != PadTo::Longest || self.max_tokens.is_some()
    }

    /// Checks the length of a row of the column.
    ///
    /// # Errors
    /// Data when no batch can hold the row.
    pub fn check_length(&self, length: usize) -> Result<()> {
        if self.pad_to == PadTo::Boundary && self.bucket_of(length) == self.boundaries.len() {
            return Err(Error::data("a row is as long as the last boundary, or longer")
                .with("last boundary", self.boundaries.last().copied().unwrap_or(0))
                .hint("give a last boundary above every length, or leave such rows out with filter"));
        }
        match self.max_tokens {
            Some(tokens) if length > tokens => {
                let column = &self.column;
                Err(Error::data(format!("a row of column {column:?} has length {length}, and max_tokens is {tokens}"))
                    .hint("raise max_tokens, cut such rows, or leave them out with filter"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the padding of a column, as the bytes of one number.
    ///
    /// # Errors
    /// Invalid when its dtype cannot hold the number.
    pub fn pad_of(&self, field: &Field) -> Result<Vec<u8>> {
        pad_value(NAME, &self.padding, field)
    }

    fn check_buckets(&self) -> Result<()> {
        let (boundaries, sizes) = (&self.boundaries, &self.batch_sizes);
        let wrong = |what: String, hint: &str| Err(Error::invalid(format!("{NAME}: {what}")).hint(hint));
        let least = usize::from(self.max_tokens.is_none());
        if !(least..BUCKETS_MAX).contains(&boundaries.len()) || boundaries.first() == Some(&0) {
            return wrong(format!("boundaries={boundaries:?}"), "give 1 to 1023 lengths, from 1");
        }
        if boundaries.windows(2).any(|pair| pair[0] >= pair[1]) {
            return wrong(format!("boundaries={boundaries:?} do not rise"), "give them in order, each once");
        }
        if sizes.is_empty() && self.max_tokens.is_none() {
            return wrong("nothing bounds a batch".to_owned(), "give batch_sizes, or max_tokens");
        }
        if !sizes.is_empty() && sizes.len() != boundaries.len() + 1 {
            let what = format!("{} batch_sizes for {} boundaries", sizes.len(), boundaries.len());
            return wrong(what, "give one more: the last bucket holds all longer rows");
        }
        if sizes.iter().any(|size| !(1..=ROWS_MAX).contains(size)) {
            return wrong(format!("batch_sizes={sizes:?}"), "a batch has at least 1 row");
        }
        if let PadTo::Length(length) = self.pad_to
            && !(1..=LENGTH_MAX).contains(&length)
        {
            return wrong(format!("pad_to={length} is out of range"), "use 1 to 16777216");
        }
        if self.pad_to == PadTo::Boundary && boundaries.is_empty() {
            return wrong("pad_to=\"boundary\" without boundaries".to_owned(), "give boundaries, or pad_to a length");
        }
        let Some(tokens) = self.max_tokens else { return Ok(()) };
        if !(1..=TOKENS_MAX).contains(&tokens) {
            return wrong(format!("max_tokens={tokens} is out of range"), "use 1 to 2147483647");
        }
        let padded = (0..self.num_buckets()).filter_map(|bucket| self.padded_length(bucket)).max();
        match padded.filter(|length| *length > tokens) {
            Some(length) => wrong(
                format!("rows are padded to {length}, and max_tokens={tokens} holds no such row"),
                "raise max_tokens, or pad to less",
            ),
            None => Ok(()),
        }
    }
}
