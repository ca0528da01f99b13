//! Repeats the epoch's samples: `repeat`.

use forebay_core::{Error, Result};
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use crate::ops::spec::{About, Class, Names, OpSpec};

/// Repeats the epoch's samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// The number of repetitions; `None` is endless.
    pub count: Option<u64>,
}

impl OpSpec for Repeat {
    fn about(&self) -> About {
        About { name: "repeat", class: Class::Order, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        match self.count {
            Some(0) => Err(Error::invalid("repeat: count must be at least 1, or None for ever")
                .hint("leave repeat out, or use take to give fewer rows")),
            _ => Ok(input.clone()),
        }
    }

    fn arguments(&self) -> String {
        self.count.map_or("for ever".to_owned(), |n| n.to_string())
    }

    fn needs(&self, _input: &Schema, after: Names) -> Names {
        after
    }
}
