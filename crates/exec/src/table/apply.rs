//! Table ops over a chunk: columns chosen, renamed, cast and computed; rows dropped.
//!
//! Invariant: columns that an op does not compute are shared, never copied.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use forebay_core::{Error, Result};
use forebay_data::{Chunk, Field, Schema};
use forebay_plan::{Expr, Op};

use super::{evaluate, filter};
use crate::tail::buckets::check_keys;

/// Runs a table op; `output_schema` is the result of [`Op::apply`] for the schema of `input`.
///
/// # Errors
/// As [`evaluate`]; Internal for any other op.
pub fn apply(op: &Op, input: &Chunk, output_schema: &Arc<Schema>) -> Result<Chunk> {
    let columns: Vec<ArrayRef> = match op {
        Op::FilterExpr(op) => {
            let kept = filter(&op.predicate, input).map_err(|e| of_row(e, input, |row| filter(&op.predicate, row)))?;
            let proven = op.predicate.proven();
            if proven.is_empty() {
                return Ok(kept);
            }
            // Of the present columns: some may be absent because no later op needs them.
            let schema = Arc::new(kept.schema().without_missing(&proven));
            let columns = kept.columns().to_vec();
            return kept.with_columns(schema, columns);
        }
        Op::CheckFinite(op) => return super::finite::check(&op.columns, input).map(|()| input.clone()),
        Op::Explode(op) => return super::explode::explode(&op.columns, input, output_schema),
        Op::BucketByLength(op) => return super::fit::check_lengths(op, input).map(|()| input.clone()),
        Op::BatchByKey(op) => return check_keys(op, input).map(|()| input.clone()),
        Op::PaddedBatch(op) => super::fit::fit(op, input, output_schema)?,
        Op::Rename(_) => input.columns().to_vec(),
        Op::Select(_) | Op::Drop(_) => each(output_schema, |name| input.column(name).cloned())?,
        Op::Cast(op) => each(output_schema, |name| match op.columns.iter().rfind(|(column, _)| column == name) {
            Some((_, dtype)) => {
                let arg = Box::new(Expr::Col { name: name.to_owned() });
                computed(&Expr::Cast { arg, dtype: *dtype }, input)
            }
            None => input.column(name).cloned(),
        })?,
        Op::EncodeImage(op) => {
            let encoded = super::encode::encode(op, input)?;
            each(
                output_schema,
                |name| if name == op.column { Ok(encoded.clone()) } else { input.column(name).cloned() },
            )?
        }
        Op::WithColumn(op) => {
            let computed = computed(&op.value, input)?;
            check_missing(output_schema.field(&op.column)?, &computed, input)?;
            each(
                output_schema,
                |name| if name == op.column { Ok(computed.clone()) } else { input.column(name).cloned() },
            )?
        }
        other => return Err(Error::internal(format!("{} is not a table op", other.name()))),
    };
    input.with_columns(output_schema.clone(), columns)
}

fn computed(expr: &Expr, input: &Chunk) -> Result<ArrayRef> {
    evaluate(expr, input).map_err(|e| of_row(e, input, |row| evaluate(expr, row)))
}

/// Returns the error of the first row that fails by itself, with its name: rows are computed together, so their common
/// error does not name the row.
fn of_row<T>(error: Error, input: &Chunk, compute: impl Fn(&Chunk) -> Result<T>) -> Error {
    if error.get("sample").is_some() {
        return error;
    }
    let failed = input.ids().iter().enumerate().find_map(|(row, id)| {
        let error = compute(&input.slice(row, 1)).err()?;
        Some(error.with("sample", id.sample))
    });
    failed.unwrap_or(error)
}

/// Refuses a tensor that was not computed in a row because one of its numbers is missing.
fn check_missing(field: &Field, computed: &ArrayRef, input: &Chunk) -> Result<()> {
    let nulls = computed.nulls().filter(|nulls| !field.nullable && nulls.null_count() > 0);
    let Some(row) = nulls.and_then(|nulls| (0..nulls.len()).find(|&row| nulls.is_null(row))) else { return Ok(()) };
    let name = &field.name;
    Err(Error::data(format!("column {name:?} would be missing in this row, and {} is never missing", field.kind))
        .with("column", name)
        .with("sample", input.ids()[row].sample)
        .hint("a number that it is made of is missing: fill that first, as with fb.col(...).fill_null(0)"))
}

fn each(schema: &Schema, column: impl Fn(&str) -> Result<ArrayRef>) -> Result<Vec<ArrayRef>> {
    schema.fields().iter().map(|f| column(&f.name)).collect()
}
