//! Keeps rows by a Python function or an expression: `filter`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Kind, Schema};
use serde::{Deserialize, Serialize};

use super::{Function, expression};
use crate::ops::access::Access;
use crate::ops::expr::Expr;
use crate::ops::spec::{About, Class, Names, OpSpec};

/// Keeps the rows for which a Python function is true.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterFunction {
    /// The function.
    pub function: Function,
}

/// Keeps the rows for which an expression is true; a missing value is not true.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterExpr {
    /// The expression.
    pub predicate: Expr,
}

impl OpSpec for FilterFunction {
    fn about(&self) -> About {
        About { name: "filter", class: Class::Filter, is_random: self.function.with_rng }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        self.function.check(input).map(|()| input.clone())
    }

    fn arguments(&self) -> String {
        self.function.arguments()
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        Some(Access {
            reads: self.function.reads.clone()?,
            writes: Vec::new(),
            may_fail: true,
            grouped: self.function.batched,
            filters: true,
        })
    }

    /// It changes no value of the rows that it keeps.
    fn changed_after(&self, _input: &Schema, changed: Names) -> Names {
        changed
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

impl OpSpec for FilterExpr {
    fn about(&self) -> About {
        About { name: "filter", class: Class::Filter, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        let predicate = &self.predicate;
        match predicate.kind(input)?.column() {
            Kind::Scalar { dtype: DType::Bool } => Ok(input.without_missing(&predicate.proven())),
            other => {
                Err(Error::invalid(format!("filter needs a truth value for each row, and {predicate} is {other}"))
                    .hint("compare it with something, for example fb.col(\"x\") > 0"))
            }
        }
    }

    fn arguments(&self) -> String {
        self.predicate.to_string()
    }

    fn access(&self, input: &Schema) -> Option<Access> {
        Some(Access { filters: true, ..expression::access(&self.predicate, input) })
    }

    fn ns(&self, read: f64, made: f64) -> f64 {
        expression::ns(&self.predicate, read, made)
    }
}
