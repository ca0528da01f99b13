//! Keeps parts of the rows, by their places: `take`, `skip` and `shard`.

use forebay_core::{Error, Result};
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use crate::ops::spec::{About, Class, Names, OpSpec};

/// Keeps the first rows only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Take {
    /// The number of rows.
    pub count: u64,
}

/// Leaves out the first rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    /// The number of rows.
    pub count: u64,
}

/// Keeps every `count`-th row, from `index`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// The number of shards.
    pub count: u64,
    /// The shard, from 0.
    pub index: u64,
}

impl OpSpec for Take {
    fn about(&self) -> About {
        About { name: "take", class: Class::Order, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        Ok(input.clone())
    }

    fn arguments(&self) -> String {
        self.count.to_string()
    }

    fn needs(&self, _input: &Schema, after: Names) -> Names {
        after
    }
}

impl OpSpec for Skip {
    fn about(&self) -> About {
        About { name: "skip", class: Class::Order, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        Ok(input.clone())
    }

    fn arguments(&self) -> String {
        self.count.to_string()
    }

    fn needs(&self, _input: &Schema, after: Names) -> Names {
        after
    }
}

impl OpSpec for Shard {
    fn about(&self) -> About {
        About { name: "shard", class: Class::Order, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        if self.index < self.count {
            return Ok(input.clone());
        }
        Err(Error::invalid(format!("shard: index {} is out of range", self.index))
            .hint(format!("use less than {}", self.count)))
    }

    fn arguments(&self) -> String {
        format!("{}, {}", self.count, self.index)
    }

    fn needs(&self, _input: &Schema, after: Names) -> Names {
        after
    }
}
