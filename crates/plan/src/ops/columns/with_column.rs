//! Computes a column from others: `with_column`.

use forebay_core::Result;
use forebay_data::{Field, Schema};
use serde::{Deserialize, Serialize};

use super::expression;
use crate::ops::access::Access;
use crate::ops::expr::Expr;
use crate::ops::spec::{About, Class, OpSpec};

/// Computes a column from others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithColumn {
    /// Its name.
    pub column: String,
    /// Its value.
    pub value: Expr,
}

impl OpSpec for WithColumn {
    fn about(&self) -> About {
        About { name: "with_column", class: Class::RowWise, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        let field = Field::new(&self.column, self.value.kind(input)?.column());
        // A missing number in a new tensor is an error of its row.
        let nullable = self.value.is_nullable(input) && field.kind.can_be_missing();
        let uniform = self.value.is_uniform(input);
        Ok(input.with(Field { nullable, uniform, ..field }))
    }

    fn arguments(&self) -> String {
        format!("{}, {}", self.column, self.value)
    }

    fn access(&self, input: &Schema) -> Option<Access> {
        Some(Access { writes: vec![self.column.clone()], ..expression::access(&self.value, input) })
    }

    fn ns(&self, read: f64, made: f64) -> f64 {
        expression::ns(&self.value, read, made)
    }
}
