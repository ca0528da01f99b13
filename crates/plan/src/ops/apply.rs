//! The schema after an op. Wrong columns and arguments are refused here, at the line where the user wrote them.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Schema};

use crate::ops::expr::Expr;
use crate::ops::op::Op;

impl Op {
    /// Checks the arguments and returns the schema after this op over rows of `input`.
    ///
    /// # Errors
    /// Invalid or NotFound, saying which argument or column is wrong and what would be right.
    pub fn apply(&self, input: &Schema) -> Result<Schema> {
        match self {
            Op::Map { function, output, keep_others } => {
                known(input, function.reads.iter().flatten())?;
                output.iter().try_for_each(Field::check)?;
                let empty = Schema::default();
                let base = if *keep_others { input } else { &empty };
                Ok(Schema::new(output.clone())?.fields().iter().fold(base.clone(), |s, f| s.with(f.clone())))
            }
            Op::FilterFunction { function } => known(input, function.reads.iter().flatten()).map(|()| input.clone()),
            Op::FilterExpr { predicate } => match predicate.kind(input)?.column() {
                Kind::Scalar { dtype: DType::Bool } => Ok(input.without_missing(&predicate.proven())),
                other => {
                    Err(Error::invalid(format!("filter needs a truth value for each row, and {predicate} is {other}"))
                        .hint("compare it with something, for example fb.col(\"x\") > 0"))
                }
            },
            Op::Select { columns } => {
                Schema::new(columns.iter().map(|c| input.field(c).cloned()).collect::<Result<_>>()?)
            }
            Op::Drop { columns } => {
                known(input, columns)?;
                Schema::new(input.fields().iter().filter(|f| !columns.contains(&f.name)).cloned().collect())
            }
            Op::Rename { columns } => rename(input, columns),
            Op::Cast { columns } => columns.iter().try_fold(input.clone(), |schema, (column, dtype)| {
                let kind =
                    Expr::Cast { arg: Box::new(Expr::Col { name: column.clone() }), dtype: *dtype }.kind(input)?;
                Ok(schema.with(Field { kind: kind.column(), ..input.field(column)?.clone() }))
            }),
            Op::WithColumn { column, value } => {
                let field = Field::new(column, value.kind(input)?.column());
                // A tensor made of a number that is missing is an error of its row.
                let nullable = value.is_nullable(input) && field.kind.can_be_missing();
                Ok(input.with(Field { nullable, ..field }))
            }
            Op::CheckFinite { columns } if columns.is_empty() => {
                Err(Error::invalid("check_finite: there is no column of floating-point numbers"))
            }
            Op::CheckFinite { columns } => {
                columns.iter().try_for_each(|column| floating(input, column)).map(|()| input.clone())
            }
            Op::Tokenize(tokenize) => tokenize.apply(input),
            Op::Pack(pack) => pack.apply(input),
            Op::BucketByLength(bucket) => bucket.apply(input),
            Op::Repeat { count: Some(0) } => Err(Error::invalid("repeat: count must be at least 1, or None for ever")),
            Op::Shard { count, index } if index >= count => {
                Err(Error::invalid(format!("shard: index {index} is out of range"))
                    .hint(format!("use less than {count}")))
            }
            Op::Batch { size: 0, .. } => Err(Error::invalid("batch: size must be at least 1")),
            Op::Prefetch { count } if !(1..=4096).contains(count) => {
                Err(Error::invalid(format!("prefetch: count {count} is out of range")).hint("use 1 to 4096"))
            }
            Op::Mix { .. } => crate::ops::mix::apply(self, input),
            _ if self.image_column().is_some() => crate::ops::image::apply(self, input),
            _ => Ok(input.clone()),
        }
    }
}

fn known<'a>(schema: &Schema, columns: impl IntoIterator<Item = &'a String>) -> Result<()> {
    columns.into_iter().try_for_each(|c| schema.field(c).map(drop))
}

/// Refuses a column all of whose values are finite by their type, or that has no numbers.
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

fn rename(input: &Schema, columns: &[(String, String)]) -> Result<Schema> {
    known(input, columns.iter().map(|(from, _)| from))?;
    let name =
        |f: &Field| columns.iter().find(|(from, _)| *from == f.name).map_or(f.name.clone(), |(_, to)| to.clone());
    Schema::new(input.fields().iter().map(|f| Field { name: name(f), ..f.clone() }).collect())
}
