//! How many batches may wait for the consumer: `prefetch`.

use forebay_core::{Error, Result};
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use crate::ops::spec::{About, Class, Names, OpSpec};

/// How many batches (or rows) may wait for the consumer. By default the engine decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetch {
    /// The number.
    pub count: usize,
}

impl OpSpec for Prefetch {
    fn about(&self) -> About {
        About { name: "prefetch", class: Class::Hint, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        match self.count {
            1..=4096 => Ok(input.clone()),
            count => Err(Error::invalid(format!("prefetch: count {count} is out of range")).hint("use 1 to 4096")),
        }
    }

    fn arguments(&self) -> String {
        self.count.to_string()
    }

    fn needs(&self, _input: &Schema, after: Names) -> Names {
        after
    }
}
