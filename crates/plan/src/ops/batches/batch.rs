//! Groups rows to batches: `batch`.
//!
//! Lists are stacked: all rows of a batch need lists of one length, as with tf.data's `batch`. Only the rows tell, so `exec`
//! checks each batch.

use forebay_core::{Error, Result};
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use crate::ops::batches::pad::{is_list, stacked};
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
            _ => stacked(input),
        }
    }

    fn arguments(&self) -> String {
        format!("{}{}", self.size, if self.drop_remainder { ", drop_remainder=True" } else { "" })
    }

    fn needs(&self, _input: &Schema, after: Names) -> Names {
        after
    }
}

impl Batch {
    /// Says whether it stacks lists of these rows.
    pub fn stacks(&self, input: &Schema) -> bool {
        input.fields().iter().any(is_list)
    }
}
