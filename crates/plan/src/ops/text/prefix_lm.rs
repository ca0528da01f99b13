//! Divides ids at random into a prefix and a part that is learned: `prefix_lm`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Schema};
use serde::{Deserialize, Serialize};

use super::checks::{ids, list_of};
use crate::ops::access::Access;
use crate::ops::spec::{About, Class, OpSpec};

/// Nanoseconds for an id.
const ID_NS: f64 = 1.0;

/// Divides ids at random into a prefix, which a model sees as a whole, and a part that it learns (Raffel et al. 2020).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixLm {
    /// The column of ids; it stays.
    pub column: String,
    /// The column of labels: the ids behind the prefix, and -100; `int32[?]`.
    pub labels: String,
    /// The column of the number of ids of the prefix: `int32`.
    pub prefix_length: String,
}

impl OpSpec for PrefixLm {
    fn about(&self) -> About {
        About { name: "prefix_lm", class: Class::RowWise, is_random: true }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        ids("prefix_lm", input, &self.column)?;
        if self.labels == self.prefix_length || self.labels == self.column || self.prefix_length == self.column {
            return Err(Error::invalid("prefix_lm: two of its columns have one name")
                .hint("give labels= and prefix_length= names of their own"));
        }
        let labels = Field::new(&self.labels, list_of(DType::Int32));
        Ok(input.with(labels).with(Field::new(&self.prefix_length, Kind::scalar(DType::Int32))))
    }

    fn arguments(&self) -> String {
        format!("{}, labels={}, prefix_length={}", self.column, self.labels, self.prefix_length)
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        let writes = vec![self.labels.clone(), self.prefix_length.clone()];
        Some(Access { reads: vec![self.column.clone()], writes, ..Access::default() })
    }

    fn ns(&self, read: f64, _made: f64) -> f64 {
        read / 4.0 * ID_NS
    }
}
