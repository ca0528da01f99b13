//! Gives each row its number in the epoch: `enumerate`.

use forebay_core::{Error, Result};
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
        if input.position(&self.column).is_some() {
            return Err(Error::invalid(format!("enumerate: there is a column {:?} already", self.column))
                .hint("give another name, as enumerate(\"number\")"));
        }
        let field = Field::new(self.column.clone(), Kind::scalar(DType::Int64));
        field.check()?;
        Ok(input.with(field))
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
