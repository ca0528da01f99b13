//! Loops over whole buffers: plain ones over slices, which the compiler vectorises, in place where the buffer is not
//! shared.
//!
//! Invariant: a buffer is overwritten only by its single owner; the buffer's reference count decides.

use arrow_buffer::Buffer;

use super::number::Element;
use super::shape::Numbers;

/// Runs `$body` with `$t` as the type that stores numbers of `$dtype`.
macro_rules! native {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            forebay_data::DType::Bool | forebay_data::DType::Int8 => {
                crate::table::expr::numbers::kernel::native!(@ i8, $t, $body)
            }
            forebay_data::DType::Int16 => crate::table::expr::numbers::kernel::native!(@ i16, $t, $body),
            forebay_data::DType::Int32 => crate::table::expr::numbers::kernel::native!(@ i32, $t, $body),
            forebay_data::DType::Int64 => crate::table::expr::numbers::kernel::native!(@ i64, $t, $body),
            forebay_data::DType::Uint8 => crate::table::expr::numbers::kernel::native!(@ u8, $t, $body),
            forebay_data::DType::Uint16 => crate::table::expr::numbers::kernel::native!(@ u16, $t, $body),
            forebay_data::DType::Uint32 => crate::table::expr::numbers::kernel::native!(@ u32, $t, $body),
            forebay_data::DType::Uint64 => crate::table::expr::numbers::kernel::native!(@ u64, $t, $body),
            forebay_data::DType::Float16 => {
                crate::table::expr::numbers::kernel::native!(@ crate::table::expr::numbers::number::Half, $t, $body)
            }
            forebay_data::DType::Float32 => crate::table::expr::numbers::kernel::native!(@ f32, $t, $body),
            forebay_data::DType::Float64 => crate::table::expr::numbers::kernel::native!(@ f64, $t, $body),
        }
    };
    (@ $native:ty, $t:ident, $body:expr) => {{
        type $t = $native;
        $body
    }};
}

/// As [`native`] for floats; `$else` for other dtypes.
macro_rules! real {
    ($dtype:expr, $t:ident => $body:expr, else $else:expr) => {
        match $dtype {
            forebay_data::DType::Float16 => {
                crate::table::expr::numbers::kernel::native!(@ crate::table::expr::numbers::number::Half, $t, $body)
            }
            forebay_data::DType::Float32 => crate::table::expr::numbers::kernel::native!(@ f32, $t, $body),
            forebay_data::DType::Float64 => crate::table::expr::numbers::kernel::native!(@ f64, $t, $body),
            _ => $else,
        }
    };
}

/// As [`native`] where only the width matters: numbers are copied, not computed.
macro_rules! bits {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype.size() {
            1 => crate::table::expr::numbers::kernel::native!(@ u8, $t, $body),
            2 => crate::table::expr::numbers::kernel::native!(@ u16, $t, $body),
            4 => crate::table::expr::numbers::kernel::native!(@ u32, $t, $body),
            _ => crate::table::expr::numbers::kernel::native!(@ u64, $t, $body),
        }
    };
}

pub(in crate::table::expr) use {bits, native, real};

/// Computes each number from one.
pub(in crate::table::expr) fn map<T: Element, U: Element>(values: &Buffer, f: impl Fn(T) -> U) -> Buffer {
    collect(values.typed_data().iter().map(|&x| f(T::load(x))))
}

fn collect<U: Element>(values: impl Iterator<Item = U>) -> Buffer {
    Buffer::from_vec(values.map(U::store).collect::<Vec<_>>())
}

/// Computes each number from itself.
pub(in crate::table::expr) fn update<T: Element>(values: Buffer, f: impl Fn(T) -> T) -> Buffer {
    match values.into_vec::<T::Stored>() {
        Ok(mut own) => {
            own.iter_mut().for_each(|x| *x = f(T::load(*x)).store());
            Buffer::from_vec(own)
        }
        Err(shared) => map(&shared, f),
    }
}

/// Computes each number from two. The sides have one layout, or are single numbers.
pub(in crate::table::expr) fn zip<T: Element, S: Element, U: Element>(
    a: &Numbers,
    b: &Numbers,
    f: impl Fn(T, S) -> U,
) -> Buffer {
    match (a.single(), b.single()) {
        (_, Some(y)) => map(&a.values, |x| f(x, y)),
        (Some(x), _) => map(&b.values, |y| f(x, y)),
        _ => pairs(&a.values, &b.values, f),
    }
}

fn pairs<T: Element, S: Element, U: Element>(a: &Buffer, b: &Buffer, f: impl Fn(T, S) -> U) -> Buffer {
    collect(a.typed_data().iter().zip(b.typed_data()).map(|(&x, &y)| f(T::load(x), S::load(y))))
}

/// As [`zip`] for one type, in the buffer of a side that is not shared.
pub(in crate::table::expr) fn merge<T: Element>(a: Numbers, b: Numbers, f: impl Fn(T, T) -> T) -> Buffer {
    match (a.single(), b.single()) {
        (_, Some(y)) => return update(a.values, |x| f(x, y)),
        (Some(x), _) => return update(b.values, |y| f(x, y)),
        _ => {}
    }
    let a = match a.values.into_vec::<T::Stored>() {
        Ok(mut own) => {
            let b = b.values.typed_data::<T::Stored>();
            own.iter_mut().zip(b).for_each(|(x, &y)| *x = f(T::load(*x), T::load(y)).store());
            return Buffer::from_vec(own);
        }
        Err(shared) => shared,
    };
    match b.values.into_vec::<T::Stored>() {
        Ok(mut own) => {
            let a = a.typed_data::<T::Stored>();
            own.iter_mut().zip(a).for_each(|(y, &x)| *y = f(T::load(x), T::load(*y)).store());
            Buffer::from_vec(own)
        }
        Err(b) => pairs(&a, &b, f),
    }
}
