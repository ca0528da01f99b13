//! Batches rows of about the same length together: `bucket_by_length`.
//!
//! It has the semantics of tf.data's `bucket_by_sequence_length`: a row belongs to the first bucket whose boundary is
//! above its length, and a batch is full when its bucket has as many rows as its batches. At the end of an epoch the
//! remaining rows come out bucket by bucket, the shortest first.

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind, Schema};
use serde::{Deserialize, Serialize};

use crate::ops::batches::pad::{LENGTH_MAX, is_list, pad_value};
use crate::ops::spec::{About, Class, Names, OpSpec, with_read};

/// The most buckets.
const BUCKETS_MAX: usize = 1024;
/// The most rows of a batch.
const ROWS_MAX: usize = 1 << 24;

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
    /// Rows of a batch, for each bucket.
    pub batch_sizes: Vec<usize>,
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
        About { name: "bucket_by_length", class: Class::Group, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        self.check_buckets()?;
        let field = input.field(&self.column)?;
        if !is_list(field) {
            let hint = match field.kind {
                Kind::Utf8 => format!("put .tokenize({:?}, ...) before it", self.column),
                _ => "name a column whose rows differ in their first dimension, as int32[?]".to_owned(),
            };
            let message = format!("bucket_by_length: column {:?} is {}, which has no length", self.column, field.kind);
            return Err(Error::invalid(message).hint(hint));
        }
        for (column, _) in &self.padding {
            let field = input.field(column)?;
            if !is_list(field) {
                let message = format!("bucket_by_length: column {column:?} is {}, and is not padded", field.kind);
                return Err(Error::invalid(message).hint("leave it out of pad="));
            }
        }
        let mut schema = input.clone();
        for field in input.fields().iter().filter(|f| matches!(f.kind, Kind::Tensor { .. })) {
            if is_list(field) {
                self.pad_of(field)?;
                schema = schema.with(Field { uniform: true, ..field.clone() });
            } else if field.kind.known_shape().is_none() {
                let message = format!("bucket_by_length: column {:?} is {}", field.name, field.kind);
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
        let drop = if self.drop_remainder { ", drop_remainder=True" } else { "" };
        format!("{}, {:?}, {:?}{pad}{drop}", self.column, self.boundaries, self.batch_sizes)
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

    /// Returns the padded length of the rows of a bucket; `None` is the longest of the batch.
    ///
    /// # Errors
    /// Data when the bucket has no longest length.
    pub fn padded_length(&self, bucket: usize) -> Result<Option<usize>> {
        match (self.pad_to, self.boundaries.get(bucket)) {
            (PadTo::Longest, _) => Ok(None),
            (PadTo::Length(length), _) => Ok(Some(length)),
            (PadTo::Boundary, Some(boundary)) => Ok(Some(boundary - 1)),
            (PadTo::Boundary, None) => Err(Error::data("a row is as long as the last boundary, or longer")
                .with("last boundary", self.boundaries.last().copied().unwrap_or(0))
                .hint("give a last boundary above every length, or leave such rows out with filter")),
        }
    }

    /// Returns the padding of a column, as the bytes of one number.
    ///
    /// # Errors
    /// Invalid when its dtype cannot hold the number.
    pub fn pad_of(&self, field: &Field) -> Result<Vec<u8>> {
        pad_value("bucket_by_length", &self.padding, field)
    }

    fn check_buckets(&self) -> Result<()> {
        let (boundaries, sizes) = (&self.boundaries, &self.batch_sizes);
        let wrong = |what: String, hint: &str| Err(Error::invalid(format!("bucket_by_length: {what}")).hint(hint));
        if boundaries.is_empty() || boundaries.len() >= BUCKETS_MAX || boundaries[0] == 0 {
            return wrong(format!("boundaries={boundaries:?}"), "give 1 to 1023 lengths, from 1");
        }
        if boundaries.windows(2).any(|pair| pair[0] >= pair[1]) {
            return wrong(format!("boundaries={boundaries:?} do not rise"), "give them in order, each once");
        }
        if sizes.len() != boundaries.len() + 1 {
            let what = format!("{} batch_sizes for {} boundaries", sizes.len(), boundaries.len());
            return wrong(what, "give one more: the last bucket holds whatever is longer");
        }
        if sizes.iter().any(|size| !(1..=ROWS_MAX).contains(size)) {
            return wrong(format!("batch_sizes={sizes:?}"), "a batch has at least 1 row");
        }
        match self.pad_to {
            PadTo::Length(length) if !(1..=LENGTH_MAX).contains(&length) => {
                wrong(format!("pad_to={length} is out of range"), "use 1 to 16777216")
            }
            _ => Ok(()),
        }
    }
}
