//! A hash of each value, modulo a number of buckets: stable splits of data into train and test, sampling by key.
//!
//! This hash never changes, because users' splits depend on it. With `mix` the SplitMix64 finaliser and G =
//! 0x9E3779B97F4A7C15, all arithmetic modulo 2^64:
//!
//! | value | hash |
//! |---|---|
//! | integer, bool | `mix(v + G)` of its value as a signed 64-bit integer (uint64: its bits) |
//! | float | `mix(b ^ G)` of its bits as float64, after -0.0 → 0.0 and any not-a-number → 0x7FF8000000000000 |
//! | string, bytes | `h = mix(len + G)`; for each 8 bytes, little-endian, the last padded with zeros: `h = mix((h + G) ^ word)` |
//!
//! The result is `hash % buckets`. So it depends on the value, not on the width of the dtype. A string and its UTF-8
//! bytes have one hash; an integer and the equal float have different ones.

use arrow_array::{Array, LargeBinaryArray, LargeStringArray};
use arrow_buffer::Buffer;
use forebay_core::rng::mix64;
use forebay_core::{Error, Result};
use forebay_data::DType;

use super::numbers::kernel::{map, native};
use super::numbers::number::Number;
use super::numbers::shape::{Layout, Numbers};
use super::value::Value;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const NAN: u64 = 0x7FF8_0000_0000_0000;

/// Hashes each value into `0..buckets`.
///
/// # Errors
/// Invalid when `buckets` is 0.
pub(super) fn hash_mod(value: Value, buckets: u64, rows: usize) -> Result<Value> {
    if buckets == 0 {
        return Err(Error::invalid("hash_mod needs at least 1 bucket"));
    }
    let bucket = |hash: u64| (hash % buckets) as i64;
    let column = match value {
        Value::Word(word) => return Ok(Value::Numbers(Numbers::once(DType::Int64, bucket(bytes(word.as_bytes()))))),
        Value::Text(column) => column,
        other => {
            let numbers = other.numbers()?;
            let values = match numbers.dtype {
                DType::Bool => map::<i8, i64>(&numbers.values, |x| bucket(integer(i64::from(x != 0)))),
                dtype if dtype.is_float() => {
                    native!(dtype, T => map::<T, i64>(&numbers.values, |x| bucket(float(x.f64()))))
                }
                dtype => native!(dtype, T => map::<T, i64>(&numbers.values, |x| bucket(integer(x.u64() as i64)))),
            };
            return Ok(Value::Numbers(numbers.with(DType::Int64, values)));
        }
    };
    let wrong = || Error::internal("a text is a string or bytes");
    let hash = |text: &[u8]| bucket(bytes(text));
    let hashes: Vec<i64> = match column.as_any().downcast_ref::<LargeStringArray>() {
        Some(strings) => (0..rows).map(|i| hash(strings.value(i).as_bytes())).collect(),
        None => {
            let binary = column.as_any().downcast_ref::<LargeBinaryArray>().ok_or_else(wrong)?;
            (0..rows).map(|i| hash(binary.value(i))).collect()
        }
    };
    let (values, nulls) = (Buffer::from_vec(hashes), column.nulls().cloned());
    Ok(Value::Numbers(Numbers { dtype: DType::Int64, values, nulls, layout: Layout::Rows }))
}

fn integer(value: i64) -> u64 {
    mix64((value as u64).wrapping_add(GOLDEN))
}

fn float(value: f64) -> u64 {
    // Adding 0.0 turns -0.0 into 0.0 and changes no other number.
    let bits = if value.is_nan() { NAN } else { (value + 0.0).to_bits() };
    mix64(bits ^ GOLDEN)
}

fn bytes(text: &[u8]) -> u64 {
    let step = |h: u64, word: u64| mix64(h.wrapping_add(GOLDEN) ^ word);
    let (words, rest) = text.as_chunks::<8>();
    let mut h = mix64((text.len() as u64).wrapping_add(GOLDEN));
    for word in words {
        h = step(h, u64::from_le_bytes(*word));
    }
    if rest.is_empty() {
        return h;
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    step(h, u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_never_change() {
        let integers: [u64; 3] = [0xE220_A839_7B1D_CDAF, 0x910A_2DEC_8902_5CC1, 0xE4D9_7177_1B65_2C20];
        let floats: [u64; 3] = [0xE220_A839_7B1D_CDAF, 0x8874_7B63_583E_67C7, 0x8709_D8D1_9B4C_0AC2];
        let texts: [u64; 4] =
            [0xE220_A839_7B1D_CDAF, 0x4488_E597_EE6B_41F2, 0xF0A2_E49D_3420_28C2, 0xF743_3238_ECC4_5289];
        assert_eq!([0, 1, -1].map(integer), integers);
        assert_eq!([0.0, 1.5, f64::NAN].map(float), floats);
        assert_eq!(["", "a", "forebay!", "forebay is upstream"].map(|t| bytes(t.as_bytes())), texts);
        assert_eq!(float(-0.0), float(0.0));
        assert_ne!(bytes(b"a"), bytes(b"a\0"));
    }
}
