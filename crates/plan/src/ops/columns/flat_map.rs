//! Makes any number of rows of each row by a Python function: `flat_map`.

use forebay_core::{Error, Result};
use forebay_data::{Field, Schema};
use serde::{Deserialize, Serialize};

use super::Function;
use crate::ops::checks::range;
use crate::ops::spec::{About, Class, Names, OpSpec, names};

/// Calls a Python function on each row; the rows that the function returns or yields replace the row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlatMap {
    /// The function.
    pub function: Function,
    /// The columns of its rows.
    pub output: Vec<Field>,
    /// The number of rows that it makes of each row, if it is always the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

impl FlatMap {
    /// The most rows that a call may make of one row.
    pub const ROWS_MAX: u32 = 1 << 16;
    /// The most bytes of the rows that a call makes of one row.
    pub const BYTES_MAX: usize = 128 << 20;
}

impl OpSpec for FlatMap {
    fn about(&self) -> About {
        About { name: "flat_map", class: Class::Expand, is_random: self.function.with_rng }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        self.function.check(input)?;
        if self.function.batched {
            return Err(Error::invalid("flat_map calls its function on single rows")
                .hint("leave batched=True out: the rows of a group would belong to no sample"));
        }
        if let Some(count) = self.count.filter(|count| !(1..=Self::ROWS_MAX).contains(count)) {
            return Err(range("flat_map", "count", count, &format!("1 to {}", Self::ROWS_MAX)));
        }
        self.output.iter().try_for_each(Field::check)?;
        Schema::new(self.output.clone())
    }

    fn arguments(&self) -> String {
        let count = self.count.map_or(String::new(), |count| format!(", count={count}"));
        format!("{}{count}", self.function.arguments())
    }

    fn needs(&self, input: &Schema, _after: Names) -> Names {
        self.function.reads.as_ref().map_or_else(|| names(input), |reads| reads.iter().cloned().collect())
    }

    fn changed_after(&self, _input: &Schema, changed: Names) -> Names {
        let differs = match &self.function.reads {
            Some(reads) => reads.iter().any(|name| changed.contains(name)),
            None => !changed.is_empty(),
        };
        self.output.iter().filter(|_| differs).map(|field| field.name.clone()).collect()
    }

    fn is_uncounted(&self) -> bool {
        self.count.is_none()
    }

    fn fan_out(&self) -> Option<u64> {
        self.count.map(u64::from)
    }

    fn function(&self) -> Option<&Function> {
        Some(&self.function)
    }

    fn function_mut(&mut self) -> Option<&mut Function> {
        Some(&mut self.function)
    }

    fn ns(&self, read: f64, made: f64) -> f64 {
        Function::ns(read, made)
    }
}
