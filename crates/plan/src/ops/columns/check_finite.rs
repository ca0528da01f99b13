//! Refuses numbers that are not finite: `check_finite`.

use forebay_core::{Error, Result};
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use crate::ops::spec::{About, Class, Names, OpSpec, with_read};

/// Returns the same rows; a number in these columns that is not finite is an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckFinite {
    /// Their names.
    pub columns: Vec<String>,
}

// It has no access, so it stays where the user wrote it and checks the values at that place.
impl OpSpec for CheckFinite {
    fn about(&self) -> About {
        About { name: "check_finite", class: Class::RowWise, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        if self.columns.is_empty() {
            return Err(Error::invalid("check_finite: there is no column of floating-point numbers"));
        }
        self.columns.iter().try_for_each(|column| floating(input, column)).map(|()| input.clone())
    }

    fn arguments(&self) -> String {
        self.columns.join(", ")
    }

    fn needs(&self, input: &Schema, after: Names) -> Names {
        with_read(input, after, &self.columns)
    }

    fn changed_after(&self, _input: &Schema, changed: Names) -> Names {
        changed
    }
}

/// Refuses a column whose type has only finite values, or no numbers.
fn floating(input: &Schema, column: &str) -> Result<()> {
    let kind = &input.field(column)?.kind;
    match kind.dtype() {
        Some(dtype) if dtype.is_float() => Ok(()),
        _ => Err(Error::invalid(format!(
            "check_finite: column {column:?} is {kind}, which has no floating-point numbers"
        ))
        .hint("name columns of floats, or none for all of them")),
    }
}
