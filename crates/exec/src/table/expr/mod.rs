//! Expressions over columns, computed a whole column at a time.
//!
//! `plan` defines expressions and their dtypes; only this module computes them, a whole column at a time. Semantics are
//! NumPy 2's on arrays, fixed where NumPy leaves them to the processor:
//!
//! - integers wrap; `//` and `%` have Python's sign rule, and yield 0 where an integer is divided by 0;
//! - float to integer truncates and saturates, not-a-number becomes 0 (NumPy leaves both to the processor);
//! - a missing row stays missing through arithmetic, comparisons, functions and casts; `&` and `|` are Kleene's (false
//!   and missing is false); `where` uses `no` where its condition is missing, just as a filter drops such a row;
//!   `fill_null` replaces missing values;
//! - a row fails only for what it needs: an error in the side of `where` that it does not take, or in the right side of
//!   `&`, `|` or `fill_null` where the left one decides, is none ([`branches`]).
//!
//! Invariants: T-1 [`evaluate`] returns exactly the kind of [`Expr::kind`]; T-2 the value of a row depends on that row
//! alone, so that chunks can be cut anywhere; T-3 literals stay single numbers until a column is needed. Memory: the
//! first step over a column makes a buffer; each further step overwrites it in place. `plan` decides which expressions
//! are allowed.

mod branches;
mod cast;
mod choose;
mod compare;
mod concat;
mod hash;
mod logic;
mod lookup;
mod numbers;
mod stack;
#[cfg(test)]
mod tests;
mod texts;
mod value;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray};
use arrow_buffer::BooleanBuffer;
use forebay_core::{Error, Result};
use forebay_data::Chunk;
use forebay_plan::{Binary, Call, Expr, Unary};

use branches::Needed;
use numbers::{arithmetic, lists, math};
use texts::{text, text_lists, time, words};
use value::Value;

/// Returns the column of `expr` over the rows of `chunk`.
///
/// # Errors
/// The errors of [`Expr::kind`]; Data when a value has no result (text that is no number, a negative integer power).
pub fn evaluate(expr: &Expr, chunk: &Chunk) -> Result<ArrayRef> {
    let kind = expr.kind(chunk.schema())?.column();
    branches::computed(expr, chunk)?.into_array(&kind, chunk.num_rows())
}

/// Returns the rows for which `predicate` is true; a missing value is not true.
///
/// # Errors
/// As [`evaluate`]; Invalid when the predicate is not one bool for each row.
pub fn filter(predicate: &Expr, chunk: &Chunk) -> Result<Chunk> {
    chunk.filter(&BooleanArray::new(truths(predicate, chunk, false)?, None))
}

/// Returns one bit for each row: whether `predicate` is true, or missing where `or_missing`.
///
/// # Errors
/// As [`filter`].
pub(super) fn truths(predicate: &Expr, chunk: &Chunk, or_missing: bool) -> Result<BooleanBuffer> {
    let rows = chunk.num_rows();
    let Value::Numbers(truth) = branches::computed(predicate, chunk)? else {
        return Err(Error::invalid(format!("filter needs a truth value for each row, not {predicate}")));
    };
    let missing = truth.nulls.as_ref().filter(|_| or_missing).map(|known| !known.inner());
    let stays = logic::mask(truth, rows)?;
    Ok(match missing {
        Some(missing) => &stays | &missing,
        None => stays,
    })
}

fn value(expr: &Expr, chunk: &Chunk, needed: Needed) -> Result<Value> {
    let rows = chunk.num_rows();
    match expr {
        Expr::Col { name } => Value::load(&chunk.schema().field(name)?.kind, chunk.column(name)?),
        Expr::Int { value } => Ok(Value::Int(*value)),
        Expr::Float { value } => Ok(Value::Float(*value)),
        Expr::Bool { value } => Ok(Value::truth(*value)),
        Expr::Str { value } => Ok(Value::Word(value.clone())),
        Expr::Binary { op, left, right } => {
            let a = value(left, chunk, needed)?;
            let b = match op {
                Binary::And | Binary::Or if needed == Needed::Taken => branches::second(*op, &a, right, chunk)?,
                _ => value(right, chunk, needed)?,
            };
            match op {
                Binary::And | Binary::Or => logic::join(*op, a, b, rows),
                Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge => {
                    compare::compare(*op, a, b, rows)
                }
                Binary::Add if a.is_text() => words::join(&a, &b, rows),
                _ => arithmetic::join(*op, a, b, rows),
            }
        }
        Expr::Unary { op, arg } => {
            let arg = value(arg, chunk, needed)?;
            match op {
                Unary::Not => logic::not(arg),
                Unary::IsNull => Ok(logic::is_null(&arg)),
                Unary::Len => text::len(&arg, rows),
                _ => math::function(*op, arg),
            }
        }
        Expr::Clip { arg, low, high } => choose::clip(value(arg, chunk, needed)?, *low, *high),
        Expr::Where { cond, yes, no } => {
            let cond = value(cond, chunk, needed)?;
            let (yes, no) = match needed {
                Needed::All => (value(yes, chunk, needed)?, value(no, chunk, needed)?),
                Needed::Taken => branches::sides(&cond, yes, no, chunk)?,
            };
            choose::choose(cond, yes, no, rows)
        }
        Expr::FillNull { arg, value: filling } => {
            let arg = value(arg, chunk, needed)?;
            let filling = match needed {
                Needed::All => value(filling, chunk, needed)?,
                Needed::Taken => branches::filling(&arg, filling, chunk)?,
            };
            choose::fill(arg, filling, rows)
        }
        Expr::HashMod { arg, buckets } => hash::hash_mod(value(arg, chunk, needed)?, *buckets, rows),
        Expr::Call { call, arg } => called(call, value(arg, chunk, needed)?, rows),
        Expr::Cast { arg, dtype } => cast::cast(value(arg, chunk, needed)?, *dtype, rows),
        Expr::ConcatList { args } => {
            let parts = args.iter().map(|arg| value(arg, chunk, needed)).collect::<Result<_>>()?;
            concat::concat(&expr.kind(chunk.schema())?.column(), parts, rows)
        }
        Expr::Stack { args } => {
            let parts = args.iter().map(|arg| value(arg, chunk, needed)).collect::<Result<_>>()?;
            stack::stack(args, parts, rows)
        }
    }
}

// A frame of its own: the frames of `value` are as many as an expression has levels.
#[inline(never)]
fn called(call: &Call, arg: Value, rows: usize) -> Result<Value> {
    match (call, &arg) {
        (Call::IsIn { values }, _) => lookup::is_in(arg, values, rows),
        (Call::Lookup { table }, _) => lookup::found(arg, table, rows),
        (Call::LookupItems { table }, _) => lookup::found_items(arg, table, rows),
        (Call::Time { part, unit }, _) => time::part(arg, *part, *unit),
        (Call::ToTime { unit, format }, _) => time::read(&words::strings(&arg, rows)?, *unit, format.as_deref()),
        (Call::FormatTime { unit, format }, _) => time::write(arg, *unit, format, rows),
        (Call::Bucketize { bounds, right }, _) => lookup::bucketize(arg, bounds, *right),
        (Call::OneHot { classes }, _) => lookup::one_hot(arg, *classes, rows),
        (Call::Substring { start, stop }, Value::Text(column)) if column.as_binary_opt::<i64>().is_some() => {
            words::slice_bytes(column, *start, *stop)
        }
        (_, Value::Texts(column)) => text_lists::call(call, column),
        (Call::SplitAll { separator }, _) => {
            text_lists::split(&words::strings(&arg, rows)?, |text| text.split(separator.as_str()).collect())
        }
        (Call::Words { index: None }, _) => {
            text_lists::split(&words::strings(&arg, rows)?, |text| words::words(text).collect())
        }
        (_, Value::Text(_) | Value::Word(_)) => words::call(call, &arg, rows),
        _ => lists::call(call, arg, rows),
    }
}
