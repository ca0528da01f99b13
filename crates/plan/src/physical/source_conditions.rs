//! The conditions of the filters right behind a source of Parquet files. A reader leaves out the rows for which one of
//! them is not met, and decodes the other columns only for the rows that stay.
//!
//! A pure function of the graph as written, so all processes that read a job's rows leave out the same ones: a row that is
//! left out cannot fail for a value that no filter needs. The filters still run on the rows that are read.

use forebay_data::{DType, Kind, Schema};

use super::stages::Stages;
use crate::ops::Op;
use crate::ops::expr::{Binary, Expr, ExprKind};
use crate::source::Source;

/// A part of the condition of a filter.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceCondition {
    /// A truth value of each row, of at least one column.
    pub expr: Expr,
    /// Whether a row stays where the truth value is missing: a part behind this one may fail there.
    pub missing_stays: bool,
}

impl Stages {
    /// Returns the conditions under which a row of the source is needed, in the order in which they are computed. None
    /// where rows are cached: a cached row must not depend on a filter behind the cache point.
    pub fn source_conditions(&self) -> Vec<SourceCondition> {
        let is_cached = self.cached.is_some() || !self.candidates.is_empty();
        let (Source::Parquet { fields, .. }, false) = (self.graph.source(), is_cached) else { return Vec::new() };
        let Ok(schema) = Schema::new(fields.clone()) else { return Vec::new() };
        let ops = self.graph.nodes().iter().map(|node| &node.op);
        let filters = ops.skip_while(|op| chooses_by_place(op)).map_while(|op| match op {
            Op::FilterExpr(filter) => Some(&filter.predicate),
            _ => None,
        });
        let mut found = Vec::new();
        for predicate in filters {
            let mut parts = Vec::new();
            divide(predicate, &schema, &mut parts);
            let last = parts.len().saturating_sub(1);
            let conditions = parts
                .into_iter()
                .enumerate()
                .map(|(at, expr)| SourceCondition { expr: expr.clone(), missing_stays: at < last });
            found.extend(conditions.filter(|condition| has_columns(&condition.expr)));
        }
        found
    }
}

/// Says whether an op chooses rows by their places alone, and adds no column.
fn chooses_by_place(op: &Op) -> bool {
    matches!(
        op,
        Op::Shuffle(_) | Op::Take(_) | Op::Skip(_) | Op::Shard(_) | Op::Repeat(_) | Op::SelectRows(_) | Op::Part(_)
    )
}

/// Divides a condition at each `&` of single truth values.
fn divide<'e>(expr: &'e Expr, schema: &Schema, parts: &mut Vec<&'e Expr>) {
    let is_single =
        |expr: &Expr| matches!(expr.kind(schema), Ok(ExprKind::Column(Kind::Scalar { dtype: DType::Bool })));
    match expr {
        Expr::Binary { op: Binary::And, left, right } if is_single(left) && is_single(right) => {
            divide(left, schema, parts);
            divide(right, schema, parts);
        }
        whole => parts.push(whole),
    }
}

fn has_columns(expr: &Expr) -> bool {
    let mut count = 0;
    expr.columns(&mut |_| count += 1);
    count > 0
}
