//! The operations of the kernels on one number: NumPy's arithmetic, and conversion to every other dtype.
//!
//! Invariants: no operation panics, for any bits; results depend neither on the processor nor on the system's C
//! library, so powers are computed by `libm`, in Rust (below 1 unit of the last place in float64). Half floats are
//! computed as float32 and rounded once, on the way to memory, which is exact for `+ - * /` and the square root.

use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use arrow_buffer::ArrowNativeType;

type F16 = <Float16Type as ArrowPrimitiveType>::Native;

/// A type that kernels compute with, and its form in memory.
pub(in crate::table::expr) trait Element: Copy + Default {
    type Stored: ArrowNativeType;
    fn load(stored: Self::Stored) -> Self;
    fn store(self) -> Self::Stored;
}

macro_rules! stored_as_it_is {
    ($($t:ident)*) => {$(
        impl Element for $t {
            type Stored = $t;
            fn load(stored: $t) -> $t {
                stored
            }
            fn store(self) -> $t {
                self
            }
        }
    )*};
}

stored_as_it_is!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);

/// A float32 that is loaded from or stored as a half float.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub(in crate::table::expr) struct Half(f32);

impl Element for Half {
    type Stored = u16;
    fn load(stored: u16) -> Self {
        Half(F16::from_bits(stored).to_f32())
    }
    fn store(self) -> u16 {
        F16::from_f32(self.0).to_bits()
    }
}

/// One number of a dtype.
pub(in crate::table::expr) trait Number: Element + PartialOrd {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn floor_div(self, other: Self) -> Self;
    /// The remainder with the sign of `other`.
    fn modulo(self, other: Self) -> Self;
    /// `other` is not negative if it is an integer.
    fn pow(self, other: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn of<S: Number>(other: S) -> Self;
    fn i8(self) -> i8;
    fn i16(self) -> i16;
    fn i32(self) -> i32;
    fn i64(self) -> i64;
    fn u8(self) -> u8;
    fn u16(self) -> u16;
    fn u32(self) -> u32;
    fn u64(self) -> u64;
    fn half(self) -> Half;
    fn f32(self) -> f32;
    fn f64(self) -> f64;
}

/// One floating point number.
pub(super) trait Real: Number {
    fn div(self, other: Self) -> Self;
    fn sqrt(self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    /// Rounds half to even.
    fn round(self) -> Self;
}

/// `as` truncates and saturates floats, and wraps integers, on every processor.
macro_rules! conversions {
    ($half:expr, $name:ident) => {
        fn of<S: Number>(other: S) -> Self {
            other.$name()
        }
        conversions!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
        fn half(self) -> Half {
            Half($half(self))
        }
    };
    ($($to:ident)*) => {$(
        fn $to(self) -> $to {
            self as $to
        }
    )*};
}

macro_rules! integer {
    ($t:ident, $div:expr, $modulo:expr, $abs:expr) => {
        impl Number for $t {
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn floor_div(self, other: Self) -> Self {
                if other == 0 { 0 } else { $div(self, other) }
            }
            fn modulo(self, other: Self) -> Self {
                if other == 0 { 0 } else { $modulo(self, other) }
            }
            fn pow(self, other: Self) -> Self {
                let (mut base, mut rest, mut product) = (self, other as u64, 1 as $t);
                while rest != 0 {
                    if rest & 1 == 1 {
                        product = product.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    rest >>= 1;
                }
                product
            }
            fn neg(self) -> Self {
                self.wrapping_neg()
            }
            fn abs(self) -> Self {
                $abs(self)
            }
            // Integers beyond float32's 24 bits are beyond float16's range too, so this rounds once.
            conversions!(|x: $t| x as f32, $t);
        }
    };
}

macro_rules! signed {
    ($($t:ident)*) => {$(
        integer!(
            $t,
            |a: $t, b: $t| {
                let (q, r) = (a.wrapping_div(b), a.wrapping_rem(b));
                if r != 0 && (r < 0) != (b < 0) { q - 1 } else { q }
            },
            |a: $t, b: $t| {
                let r = a.wrapping_rem(b);
                if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
            },
            $t::wrapping_abs
        );
    )*};
}

macro_rules! unsigned {
    ($($t:ident)*) => {$(
        integer!($t, |a: $t, b: $t| a / b, |a: $t, b: $t| a % b, |a: $t| a);
    )*};
}

signed!(i8 i16 i32 i64);
unsigned!(u8 u16 u32 u64);

macro_rules! float {
    ($t:ident, $half:expr, $pow:expr) => {
        impl Number for $t {
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn floor_div(self, other: Self) -> Self {
                if other == 0.0 {
                    return self / other;
                }
                let rest = self % other;
                let mut quotient = (self - rest) / other;
                if rest != 0.0 && (other < 0.0) != (rest < 0.0) {
                    quotient -= 1.0;
                }
                if quotient == 0.0 {
                    return (0.0 as $t).copysign(self / other);
                }
                let floor = quotient.floor();
                if quotient - floor > 0.5 { floor + 1.0 } else { floor }
            }
            fn modulo(self, other: Self) -> Self {
                let rest = self % other;
                if other == 0.0 {
                    rest
                } else if rest == 0.0 {
                    (0.0 as $t).copysign(other)
                } else if (other < 0.0) != (rest < 0.0) {
                    rest + other
                } else {
                    rest
                }
            }
            fn pow(self, other: Self) -> Self {
                $pow(self, other)
            }
            fn neg(self) -> Self {
                -self
            }
            fn abs(self) -> Self {
                $t::abs(self)
            }
            conversions!($half, $t);
        }

        impl Real for $t {
            fn div(self, other: Self) -> Self {
                self / other
            }
            fn sqrt(self) -> Self {
                $t::sqrt(self)
            }
            fn floor(self) -> Self {
                $t::floor(self)
            }
            fn ceil(self) -> Self {
                $t::ceil(self)
            }
            fn round(self) -> Self {
                self.round_ties_even()
            }
        }
    };
}

float!(f32, |x: f32| x, |x: f32, y: f32| libm::pow(f64::from(x), f64::from(y)) as f32);
float!(f64, round_to_odd, libm::pow);

macro_rules! as_float32 {
    ($($name:ident($($arg:ident)?))*) => {$(
        fn $name(self, $($arg: Self)?) -> Self {
            Half(self.0.$name($($arg.0)?))
        }
    )*};
    ($($to:ident)*) => {$(
        fn $to(self) -> $to {
            self.0 as $to
        }
    )*};
}

impl Number for Half {
    as_float32!(add(other) sub(other) mul(other) floor_div(other) modulo(other) neg() abs());
    fn pow(self, other: Self) -> Self {
        libm::pow(self.f64(), other.f64()).half()
    }
    fn of<S: Number>(other: S) -> Self {
        other.half()
    }
    as_float32!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
    fn half(self) -> Half {
        self
    }
}

impl Real for Half {
    as_float32!(div(other) sqrt() floor() ceil());
    fn round(self) -> Self {
        Half(self.0.round_ties_even())
    }
}

/// Records in the last bit that float32 dropped a part of `x`, so that a later rounding to half float gives the same
/// result as a single rounding.
fn round_to_odd(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) == x || x.is_nan() {
        return near;
    }
    let towards_zero = if f64::from(near).abs() > x.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(towards_zero | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_divide_as_python_does_and_never_panic() {
        for (a, b, quotient, rest) in
            [(7i8, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (5, 0, 0, 0), (-128, -1, -128, 0)]
        {
            assert_eq!((a.floor_div(b), a.modulo(b)), (quotient, rest), "{a} {b}");
        }
        assert_eq!((250u8.floor_div(7), 250u8.modulo(7), 250u8.floor_div(0)), (35, 5, 0));
        assert_eq!((Number::pow(3i8, 5), Number::pow(0u8, 0), Number::pow(2i64, 64)), (-13, 1, 0));
        assert_eq!((Number::abs(i8::MIN), Number::neg(3u8)), (i8::MIN, 253));
    }

    #[test]
    fn floats_divide_as_numpy_does() {
        for (a, b, quotient, rest) in [
            (7.0f64, -2.0f64, -4.0f64, -1.0f64),
            (-7.5, 2.0, -4.0, 0.5),
            (-1.0, f64::INFINITY, -1.0, f64::INFINITY),
            (0.0, -3.0, -0.0, -0.0),
            (1.0, 0.1, 9.0, 1.0 % 0.1),
        ] {
            assert_eq!(a.floor_div(b).to_bits(), quotient.to_bits(), "{a} // {b}");
            assert_eq!(a.modulo(b).to_bits(), rest.to_bits(), "{a} % {b}");
        }
        assert_eq!(1f32.floor_div(0.0), f32::INFINITY);
        assert!(1f32.modulo(0.0).is_nan());
    }

    #[test]
    fn doubles_become_halves_in_one_rounding() {
        let half = |x: f64| F16::from_bits(x.half().store()).to_f64();
        // Just above the middle of 1 and its successor: float32 drops the deciding bit.
        let x = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(half(x), 1.0 + 2f64.powi(-10));
        assert_eq!(half(-x), -1.0 - 2f64.powi(-10));
        assert_eq!(half(1.0 + 2f64.powi(-11)), 1.0);
        assert_eq!(half(1e300), f64::INFINITY);
        assert_eq!(half(1e-300), 0.0);
        assert!(half(f64::NAN).is_nan());
    }

    #[test]
    fn floats_become_integers_by_truncation_and_saturation() {
        assert_eq!([1.9, -1.9, 300.0, -300.0, f64::NAN].map(i8::of), [1, -1, 127, -128, 0]);
        assert_eq!([300i64, -1].map(u8::of), [44, 255]);
    }
}
