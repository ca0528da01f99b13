//! Numbers of one dtype as numbers of another, with one defined result on every processor.
//!
//! | from, to | result |
//! |---|---|
//! | integer → integer | the low bits (wraps) |
//! | float → integer | truncated, then the nearest that fits (saturates); not-a-number becomes 0 |
//! | number → bool | whether it is not 0; not-a-number is true |
//! | number → float | the nearest, ties to even, in one rounding |

use forebay_data::DType;

use super::kernel::{map, native};
use super::number::Number;
use super::shape::Numbers;

/// Returns numbers as another dtype.
pub(in crate::table::expr) fn convert(numbers: Numbers, dtype: DType) -> Numbers {
    let from = numbers.dtype;
    if from == dtype {
        return numbers;
    }
    let values = match (from, dtype) {
        (_, DType::Bool) => native!(from, S => map::<S, i8>(&numbers.values, |x| i8::from(x != S::default()))),
        (DType::Bool, _) => native!(dtype, T => map::<i8, T>(&numbers.values, |x| T::of(i8::from(x != 0)))),
        _ => native!(from, S => native!(dtype, T => map::<S, T>(&numbers.values, T::of))),
    };
    numbers.with(dtype, values)
}
