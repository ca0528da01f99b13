//! `check_finite`: checks columns of floats without changing them, and reports the place of the first number that is
//! not finite. A missing number is not finite: an array has NaN in its place.

use forebay_core::{Error, Result};
use forebay_data::{Chunk, DType, Kind, tensor_shape_of_row, tensor_values};

/// Refuses a chunk in which a number of one of these columns is missing or not finite.
///
/// # Errors
/// Data, naming column, sample, the place in the row and the value.
pub(super) fn check(columns: &[String], chunk: &Chunk) -> Result<()> {
    columns.iter().try_for_each(|name| check_column(name, chunk))
}

fn check_column(name: &str, chunk: &Chunk) -> Result<()> {
    let (kind, column) = (&chunk.schema().field(name)?.kind, chunk.column(name)?);
    let dtype = kind.dtype().ok_or_else(|| Error::internal("check_finite is for numbers"))?;
    let values = tensor_values(kind, column)?;
    let mut rest = values.as_slice();
    if column.null_count() == 0 && first(dtype, rest).is_none() {
        return Ok(());
    }
    for (row, id) in chunk.ids().iter().enumerate() {
        let shape = match kind {
            Kind::Scalar { .. } => Vec::new(),
            kind => tensor_shape_of_row(kind, column, row)?,
        };
        let (numbers, after) = rest.split_at(rest.len().min(shape.iter().product::<usize>() * dtype.size()));
        rest = after;
        if column.is_null(row) {
            return Err(missing(name).with("sample", id.sample));
        }
        if let Some((at, value)) = first(dtype, numbers) {
            let error = Error::data(format!("column {name:?} holds {value}, which is not finite"))
                .with("column", name)
                .with("sample", id.sample);
            let error = if shape.is_empty() { error } else { error.with("index", format!("{:?}", place(at, &shape))) };
            return Err(error.hint("mend the sample or what computes it, or leave it out with filter"));
        }
    }
    Ok(())
}

fn missing(name: &str) -> Error {
    let column = format!("fb.col({name:?})");
    Error::data(format!("column {name:?} is missing in this row, which is NaN in an array")).with("column", name).hint(
        format!("leave it out with filter(~{column}.is_null()), or fill it: fb.where({column}.is_null(), 0, {column})"),
    )
}

/// Finds the first number that is not finite.
fn first(dtype: DType, bytes: &[u8]) -> Option<(usize, f64)> {
    // An exponent of all ones means infinity or not-a-number; other half floats are irrelevant here.
    let half = |bits: u16| match (bits & 0x3ff, bits >> 15) {
        (0, 0) => f64::INFINITY,
        (0, _) => f64::NEG_INFINITY,
        _ => f64::NAN,
    };
    fn find<const N: usize>(bytes: &[u8], wrong: impl Fn([u8; N]) -> bool) -> Option<(usize, [u8; N])> {
        let numbers = bytes.as_chunks().0;
        numbers.iter().position(|n| wrong(*n)).map(|at| (at, numbers[at]))
    }
    match dtype {
        DType::Float16 => {
            find(bytes, |n| u16::from_le_bytes(n) & 0x7c00 == 0x7c00).map(|(at, n)| (at, half(u16::from_le_bytes(n))))
        }
        DType::Float32 => {
            find(bytes, |n| !f32::from_le_bytes(n).is_finite()).map(|(at, n)| (at, f32::from_le_bytes(n).into()))
        }
        DType::Float64 => {
            find(bytes, |n| !f64::from_le_bytes(n).is_finite()).map(|(at, n)| (at, f64::from_le_bytes(n)))
        }
        _ => None,
    }
}

/// Returns the place of a number in a row of this shape.
fn place(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut place: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&len| {
            let here = at % len.max(1);
            at /= len.max(1);
            here
        })
        .collect();
    place.reverse();
    place
}
