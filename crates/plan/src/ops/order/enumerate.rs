//! Gives each row its number in the epoch: `enumerate`.

use forebay_core::Result;
use forebay_data::{DType, Field, Kind, Schema};
use serde::{Deserialize, Serialize};

use crate::ops::spec::{About, Class, Names, OpSpec};

/// Adds a column with the number of the row in the epoch, in the order at this place of the pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enumerate {
    /// The column, of int64.
    pub column: String,
    /// The number of the first row.
    pub start: i64,
}

impl OpSpec for Enumerate {
    fn about(&self) -> About {
        About { name: "enumerate", class: Class::Order, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        Ok(input.with(Field::new(self.column.clone(), Kind::scalar(DType::Int64))))
    }

    fn arguments(&self) -> String {
        let start = if self.start == 0 { String::new() } else { format!(", start={}", self.start) };
        format!("{}{start}", self.column)
    }

    fn needs(&self, _input: &Schema, mut after: Names) -> Names {
        after.remove(&self.column);
        after
    }

    fn changed_after(&self, _input: &Schema, mut changed: Names) -> Names {
        changed.remove(&self.column);
        changed
    }
}
