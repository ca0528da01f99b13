//! Replaces random spans of ids with sentinels, as T5 is trained: `corrupt_spans`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Schema};
use serde::{Deserialize, Serialize};

use super::checks::{ids, list_of};
use crate::ops::access::Access;
use crate::ops::checks::range;
use crate::ops::spec::{About, Class, OpSpec};

/// The most sentinels. T5 has 100.
const SENTINELS_MAX: usize = 1 << 16;
/// Nanoseconds for an id.
const ID_NS: f64 = 5.0;

/// Replaces random spans of ids with sentinels (Raffel et al. 2020, "Exploring the Limits of Transfer Learning").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorruptSpans {
    /// The column of ids; it is changed in place.
    pub column: String,
    /// The column of the spans that were replaced, each behind its sentinel: `int32[?]`.
    pub labels: String,
    /// The sentinels, in the order in which they are used.
    pub sentinel_ids: Vec<i32>,
    /// The part of the ids that is replaced.
    pub density: f64,
    /// The mean number of ids of a span.
    pub mean_length: f64,
    /// The id that ends both lists, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eos_id: Option<i32>,
}

impl OpSpec for CorruptSpans {
    fn about(&self) -> About {
        About { name: "corrupt_spans", class: Class::RowWise, is_random: true }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        ids("corrupt_spans", input, &self.column)?;
        if self.labels == self.column {
            return Err(Error::invalid("corrupt_spans: labels= is the column of ids").hint("give it another name"));
        }
        let sentinels = self.sentinel_ids.len();
        if !(1..=SENTINELS_MAX).contains(&sentinels) {
            return Err(range("corrupt_spans", "sentinel_ids", sentinels, &format!("1 to {SENTINELS_MAX} ids")));
        }
        if !(0.0 < self.density && self.density < 1.0) {
            return Err(range("corrupt_spans", "density", self.density, "0 < density < 1"));
        }
        if !(1.0..=1e6).contains(&self.mean_length) {
            return Err(range("corrupt_spans", "mean_length", self.mean_length, "1 to 1,000,000"));
        }
        Ok(input.with(Field::new(&self.labels, list_of(DType::Int32))))
    }

    fn arguments(&self) -> String {
        let Self { column, labels, density, mean_length, sentinel_ids, eos_id } = self;
        let eos = eos_id.map_or(String::new(), |id| format!(", eos_id={id}"));
        let sentinels = sentinel_ids.len();
        format!("{column}, labels={labels}, {sentinels} sentinels, density={density}, mean_length={mean_length}{eos}")
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        let writes = vec![self.column.clone(), self.labels.clone()];
        Some(Access { reads: vec![self.column.clone()], writes, ..Access::default() })
    }

    fn ns(&self, read: f64, _made: f64) -> f64 {
        read / 4.0 * ID_NS
    }
}
