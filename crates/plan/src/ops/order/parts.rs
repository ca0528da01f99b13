//! Parts of the rows, by their places: `take`, `skip` and `shard`.

use forebay_core::{Error, Result};
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use crate::ops::spec::{Class, Names, OpSpec};

/// The first rows only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Take {
    /// How many.
    pub count: u64,
}

/// All but the first rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    /// How many.
    pub count: u64,
}

/// Every `count`-th row, from `index`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Of how many shards.
    pub count: u64,
    /// Which one.
    pub index: u64,
}

impl OpSpec for Take {
    fn name(&self) -> &'static str {
        "take"
    }

    fn class(&self) -> Class {
        Class::Order
    }

    fn is_random(&self) -> bool {
        false
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
    fn name(&self) -> &'static str {
        "skip"
    }

    fn class(&self) -> Class {
        Class::Order
    }

    fn is_random(&self) -> bool {
        false
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
    fn name(&self) -> &'static str {
        "shard"
    }

    fn class(&self) -> Class {
        Class::Order
    }

    fn is_random(&self) -> bool {
        false
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
