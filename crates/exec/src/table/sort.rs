//! The order of rows by a column, as Python's `sorted`: equal rows keep their order.
//!
//! A row is a pair: a number that orders values as far as it can, and the row. No two pairs are equal, so there is one
//! order, on any number of threads.

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::{Array, LargeStringArray};
use forebay_core::{Error, Result};
use forebay_data::{Chunk, DType, Kind, tensor_values};
use forebay_plan::Expr;

use super::evaluate;

/// The least rows that another thread sorts.
const THREAD_ROWS_MIN: usize = 1 << 15;
const SIGN: u64 = 1 << 63;

type Pair = (u64, u32);

/// Returns the rows of a chunk in the order of a column of numbers or strings, on at most `threads` threads;
/// `descending`, with the greatest value first.
///
/// # Errors
/// Invalid when a value is missing or not a number, or the column is of another type.
pub fn sorted_rows(chunk: &Chunk, column: &str, descending: bool, threads: usize) -> Result<Vec<u64>> {
    let kind = &chunk.schema().field(column)?.kind;
    let keys = match kind {
        Kind::Utf8 => Keys::Texts(chunk.column(column)?.as_string_opt().ok_or_else(|| other(column))?),
        Kind::Scalar { dtype } => Keys::Numbers(numbers(chunk, column, *dtype)?),
        _ => return Err(other(column)),
    };
    if chunk.column(column)?.null_count() > 0 {
        return Err(missing(column));
    }
    let turned = |number: u64| if descending { !number } else { number };
    let first = |row: u32| turned(keys.first(row));
    let rows = u32::try_from(chunk.num_rows()).map_err(|_| Error::invalid("sort: more than 2^32 rows"))?;
    let mut pairs: Vec<Pair> = (0..rows).map(|row| (first(row), row)).collect();
    match keys {
        Keys::Numbers(_) => sort(&mut pairs, threads, |a, b| whole(*a).cmp(&whole(*b))),
        Keys::Texts(texts) => sort(&mut pairs, threads, |a, b| {
            let rest = || {
                let order = texts.value(a.1 as usize).cmp(texts.value(b.1 as usize));
                if descending { order.reverse() } else { order }
            };
            a.0.cmp(&b.0).then_with(rest).then(a.1.cmp(&b.1))
        }),
    }
    Ok(pairs.into_iter().map(|(_, row)| u64::from(row)).collect())
}

/// Returns a pair as one number of the same order, which is compared without a branch.
fn whole((first, row): Pair) -> u128 {
    u128::from(first) << 32 | u128::from(row)
}

enum Keys<'a> {
    /// Numbers in the order of values.
    Numbers(Vec<u64>),
    Texts(&'a LargeStringArray),
}

impl Keys<'_> {
    /// Returns a number for a row: where two differ, the values are in their order.
    fn first(&self, row: u32) -> u64 {
        match self {
            Keys::Numbers(numbers) => numbers[row as usize],
            Keys::Texts(texts) => {
                let text = texts.value(row as usize).as_bytes();
                let mut bytes = [0; 8];
                let count = text.len().min(8);
                bytes[..count].copy_from_slice(&text[..count]);
                u64::from_be_bytes(bytes)
            }
        }
    }
}

/// Returns the values of a column of numbers as whole numbers of the same order: 0.0 and -0.0 are one.
fn numbers(chunk: &Chunk, column: &str, dtype: DType) -> Result<Vec<u64>> {
    let wide = match dtype {
        DType::Uint64 => DType::Uint64,
        dtype if dtype.is_float() => DType::Float64,
        _ => DType::Int64,
    };
    let arg = Box::new(Expr::Col { name: column.to_owned() });
    let values = evaluate(&Expr::Cast { arg, dtype: wide.into() }, chunk)?;
    let values = tensor_values(&Kind::scalar(wide), &values)?;
    Ok(match wide {
        DType::Uint64 => values.typed_data().to_vec(),
        DType::Int64 => values.typed_data::<i64>().iter().map(|value| *value as u64 ^ SIGN).collect(),
        _ => {
            let ordered = |value: &f64| match (value + 0.0).to_bits() {
                _ if value.is_nan() => Err(missing(column)),
                bits if bits & SIGN == 0 => Ok(bits | SIGN),
                bits => Ok(!bits),
            };
            values.typed_data().iter().map(ordered).collect::<Result<_>>()?
        }
    })
}

/// Sorts runs of pairs on threads, and joins the runs.
fn sort(pairs: &mut [Pair], threads: usize, order: impl Fn(&Pair, &Pair) -> Ordering + Sync) {
    let run = pairs.len().div_ceil(threads.max(1)).max(THREAD_ROWS_MIN);
    if pairs.len() <= run {
        return pairs.sort_unstable_by(order);
    }
    std::thread::scope(|scope| {
        let order = &order;
        for run in pairs.chunks_mut(run) {
            scope.spawn(move || run.sort_unstable_by(order));
        }
    });
    // A stable sort finds the runs, and only joins them.
    pairs.sort_by(order);
}

fn missing(column: &str) -> Error {
    Error::invalid(format!("sort: a value of {column:?} is missing or nan"))
        .hint("fill_null it before; or save the samples that have it once, and sort what was saved")
}

fn other(column: &str) -> Error {
    Error::invalid(format!("sort: {column:?} holds neither numbers nor strings"))
        .hint("name a column of numbers or strings")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, Int64Array, LargeStringArray, UInt64Array};
    use forebay_core::{Epoch, SampleId};
    use forebay_data::{Field, RowId, Schema};
    use proptest::prelude::*;

    use super::*;

    fn sorted(kind: Kind, values: ArrayRef, descending: bool, threads: usize) -> Vec<u64> {
        let ids = (0..values.len() as u64).map(|i| RowId { sample: SampleId(i), epoch: Epoch(0) }).collect();
        let schema = Arc::new(Schema::new(vec![Field::new("x", kind)]).expect("one name"));
        sorted_rows(&Chunk::new(schema, vec![values], ids).expect("valid"), "x", descending, threads).expect("sorted")
    }

    /// Sorts as Python's `sorted`: `reverse=True` keeps the order of equal values, too.
    fn model<T>(values: &[T], descending: bool, order: impl Fn(&T, &T) -> Ordering) -> Vec<u64> {
        let mut rows: Vec<u64> = (0..values.len() as u64).collect();
        rows.sort_by(|a, b| {
            let order = order(&values[*a as usize], &values[*b as usize]);
            if descending { order.reverse() } else { order }
        });
        rows
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn rows_are_in_the_order_of_a_stable_sort_on_any_number_of_threads(
            some in prop::collection::vec(prop_oneof![-3i64..3, any::<i64>()], 1..60),
            repeated in prop_oneof![Just(1usize), Just(2 * THREAD_ROWS_MIN)], descending: bool,
        ) {
            let values: Vec<i64> = some.iter().copied().cycle().take(some.len().max(repeated)).collect();
            let whole: Vec<u64> = values.iter().map(|value| *value as u64).collect();
            let floats: Vec<f64> = values.iter().map(|v| if *v == 1 { -0.0 } else { *v as f64 * 0.5 }).collect();
            let texts: Vec<String> = values.iter().map(|v| format!("{}{v}", "same\0bytes".repeat((v & 1) as usize))).collect();
            for threads in [1, 3] {
                let of = |dtype, values| sorted(Kind::scalar(dtype), values, descending, threads);
                let got = of(DType::Int64, Arc::new(Int64Array::from(values.clone())));
                prop_assert_eq!(got, model(&values, descending, Ord::cmp));
                let got = of(DType::Uint64, Arc::new(UInt64Array::from(whole.clone())));
                prop_assert_eq!(got, model(&whole, descending, Ord::cmp));
                let got = of(DType::Float64, Arc::new(Float64Array::from(floats.clone())));
                prop_assert_eq!(got, model(&floats, descending, |a, b| a.partial_cmp(b).expect("numbers")));
                let got = sorted(Kind::Utf8, Arc::new(LargeStringArray::from(texts.clone())), descending, threads);
                prop_assert_eq!(got, model(&texts, descending, Ord::cmp));
            }
        }
    }
}
