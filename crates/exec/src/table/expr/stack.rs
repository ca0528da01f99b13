//! `stack`: joins columns of numbers to one tensor for each row.

use arrow_buffer::{Buffer, NullBuffer};
use forebay_core::{Error, Result};
use forebay_data::DType;
use forebay_plan::{Expr, stack_dtype};

use super::numbers::kernel::bits;
use super::numbers::shape::{Layout, Numbers};
use super::value::Value;

/// Rows that are copied at a time, so that their input and output stay in the first-level cache.
const ROWS: usize = 256;

/// Returns one tensor for each row, with a number from each part; a missing number is nan.
///
/// # Errors
/// The errors of [`stack_dtype`]; Data when a number is missing and the dtype has no nan.
pub(super) fn stack(args: &[Expr], parts: Vec<Value>, rows: usize) -> Result<Value> {
    let kinds: Vec<_> = parts.iter().map(Value::kind).collect();
    let dtype = stack_dtype(args, &kinds)?;
    let parts = parts.into_iter().map(|part| part.bend(dtype)).collect::<Result<Vec<Numbers>>>()?;
    let width = parts.len();
    let values = bits!(dtype, T => {
        let columns: Vec<&[T]> = parts.iter().map(|part| part.values.typed_data::<T>()).collect();
        if columns.iter().any(|column| column.len() != rows && column.len() != 1) {
            return Err(Error::internal("a part of a stack has not one number for each row"));
        }
        let mut out = vec![T::default(); rows * width];
        for (block, out) in out.chunks_mut(ROWS * width).enumerate() {
            for (at, column) in columns.iter().enumerate() {
                let to = out[at..].iter_mut().step_by(width);
                match **column {
                    [one] => to.for_each(|to| *to = one),
                    _ => to.zip(&column[block * ROWS..]).for_each(|(to, &from)| *to = from),
                }
            }
        }
        for (at, part) in parts.iter().enumerate() {
            for row in part.nulls.iter().flat_map(missing) {
                out[row * width + at] = nan(dtype).ok_or_else(|| unsaid(&args[at], dtype))? as T;
            }
        }
        Buffer::from_vec(out)
    });
    Ok(Value::Numbers(Numbers { dtype, values, nulls: None, layout: Layout::Fixed(vec![width]) }))
}

fn missing(nulls: &NullBuffer) -> impl Iterator<Item = usize> {
    (0..nulls.len()).filter(|&row| nulls.is_null(row))
}

fn unsaid(part: &Expr, dtype: DType) -> Error {
    Error::data(format!("stack: {part} is missing in a row, and {dtype} has no number for that"))
        .hint("cast it to a float: a missing number is nan there")
}

/// Returns the bits of not-a-number, as in NumPy.
fn nan(dtype: DType) -> Option<u64> {
    match dtype {
        DType::Float16 => Some(0x7E00),
        DType::Float32 => Some(f32::NAN.to_bits().into()),
        DType::Float64 => Some(f64::NAN.to_bits()),
        _ => None,
    }
}
