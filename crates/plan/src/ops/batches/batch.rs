//! Groups rows to batches: `batch`.

use forebay_core::{Error, Result};
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use crate::ops::spec::{About, Class, Names, OpSpec};

/// Groups rows to batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Rows of a batch.
    pub size: usize,
    /// Whether a short last batch is dropped.
    pub drop_remainder: bool,
}

impl OpSpec for Batch {
    fn about(&self) -> About {
        About { name: "batch", class: Class::Group, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        match self.size {
            0 => Err(Error::invalid("batch: size must be at least 1").hint("give the rows of a batch")),
            _ => Ok(input.clone()),
        }
    }

    fn arguments(&self) -> String {
        format!("{}{}", self.size, if self.drop_remainder { ", drop_remainder=True" } else { "" })
    }

    fn needs(&self, _input: &Schema, after: Names) -> Names {
        after
    }
}
