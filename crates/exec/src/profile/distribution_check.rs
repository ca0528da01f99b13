//! Checks on some samples whether two orders of ops draw from the same distribution.
//!
//! Used for an order that may change bytes. Both orders must yield the same rows, columns and shapes; the same bits in
//! each column that the order does not change; and where numbers differ in the others, nearly the same mean and
//! deviation. The check detects mistakes, and does not prove equality. Only the plan decides which orders are legal.

use std::collections::BTreeSet;

use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use arrow_array::{Array, ArrayRef};
use forebay_core::Result;
use forebay_data::{Chunk, DType, Kind, tensor_shape_of_row, tensor_values};

type F16 = <Float16Type as ArrowPrimitiveType>::Native;

/// The largest difference of means and deviations, in deviations.
const MEANS_APART: f64 = 0.05;
const DEVIATIONS_APART: f64 = 0.1;
/// The largest effect of rounding where numbers vary little, as a share of the range of the numbers: one level of an
/// image.
const LEVEL: f64 = 1.0 / 255.0;

/// Returns the first difference between two chunks of the same rows that is larger than chance and rounding. Columns
/// that are not in `changed` must be equal in every bit.
///
/// # Errors
/// Internal when a column does not match its kind.
pub(crate) fn difference(written: &Chunk, other: &Chunk, changed: &BTreeSet<String>) -> Result<Option<String>> {
    if written.schema() != other.schema() {
        return Ok(Some("the columns".to_owned()));
    }
    if written.ids() != other.ids() {
        return Ok(Some("which samples there are".to_owned()));
    }
    for ((field, a), b) in written.schema().fields().iter().zip(written.columns()).zip(other.columns()) {
        if a.to_data() == b.to_data() {
            continue;
        }
        let what = if changed.contains(&field.name) { column(&field.kind, a, b)? } else { Some("bits") };
        if let Some(what) = what {
            return Ok(Some(format!("the {what} of {:?}", field.name)));
        }
    }
    Ok(None)
}

fn column(kind: &Kind, a: &ArrayRef, b: &ArrayRef) -> Result<Option<&'static str>> {
    let Some(dtype) = kind.dtype() else { return Ok(Some("values")) };
    if a.logical_nulls() != b.logical_nulls() {
        return Ok(Some("missing values"));
    }
    if matches!(kind, Kind::Tensor { .. }) {
        for row in 0..a.len() {
            if tensor_shape_of_row(kind, a, row)? != tensor_shape_of_row(kind, b, row)? {
                return Ok(Some("shapes"));
            }
        }
    }
    let [a, b] = [a, b].map(|column| tensor_values(kind, column).map(|values| Moments::of(dtype, &values)));
    let (a, b) = (a?, b?);
    if a.not_finite != b.not_finite {
        return Ok(Some("non-finite numbers"));
    }
    // NaN is near to no number, and after an overflow of a sum no number is near.
    let near = |x: f64, y: f64, share: f64| {
        let apart_max = (share * a.deviation).max(LEVEL * a.range);
        apart_max.is_finite() && (x - y).abs() <= apart_max
    };
    if !near(a.mean, b.mean, MEANS_APART) {
        return Ok(Some("mean"));
    }
    Ok((!near(a.deviation, b.deviation, DEVIATIONS_APART)).then_some("deviation"))
}

/// The moments of the finite numbers of a column.
struct Moments {
    mean: f64,
    deviation: f64,
    /// The largest number less the least.
    range: f64,
    /// The counts of NaN, infinity and negative infinity.
    not_finite: [usize; 3],
}

impl Moments {
    fn of(dtype: DType, bytes: &[u8]) -> Self {
        let (values, others): (Vec<f64>, Vec<f64>) = numbers(dtype, bytes).into_iter().partition(|x| x.is_finite());
        let among = |is_one: fn(f64) -> bool| others.iter().filter(|x| is_one(**x)).count();
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        let ends = values.iter().fold(None, |ends: Option<(f64, f64)>, &x| {
            Some(ends.map_or((x, x), |(least, largest)| (least.min(x), largest.max(x))))
        });
        Self {
            mean,
            deviation: (squares / count).sqrt(),
            range: ends.map_or(0.0, |(least, largest)| largest - least),
            not_finite: [among(f64::is_nan), among(|x| x == f64::INFINITY), among(|x| x == f64::NEG_INFINITY)],
        }
    }
}

fn numbers(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    macro_rules! read {
        ($t:ty) => {
            bytes.as_chunks::<{ size_of::<$t>() }>().0.iter().map(|x| <$t>::from_ne_bytes(*x) as f64).collect()
        };
    }
    match dtype {
        DType::Bool | DType::Int8 => read!(i8),
        DType::Int16 => read!(i16),
        DType::Int32 => read!(i32),
        DType::Int64 => read!(i64),
        DType::Uint8 => read!(u8),
        DType::Uint16 => read!(u16),
        DType::Uint32 => read!(u32),
        DType::Uint64 => read!(u64),
        DType::Float16 => {
            let half = |x: &[u8; 2]| f64::from(F16::from_bits(u16::from_ne_bytes(*x)).to_f32());
            bytes.as_chunks::<2>().0.iter().map(half).collect()
        }
        DType::Float32 => read!(f32),
        DType::Float64 => read!(f64),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float32Array, Int8Array, LargeBinaryArray};
    use forebay_core::{Epoch, SampleId};
    use forebay_data::{Field, FixedTensorBuilder, RowId, Schema};

    use super::*;

    fn rows(fields: Vec<Field>, columns: Vec<ArrayRef>) -> Chunk {
        let ids = (0..columns[0].len() as u64).map(|row| RowId { sample: SampleId::new(0, row), epoch: Epoch(0) });
        Chunk::new(Arc::new(Schema::new(fields).expect("valid")), columns, ids.collect()).expect("valid")
    }

    /// Two images with the levels of `level`, and a text.
    fn chunk(text: &str, level: impl Fn(usize) -> u8) -> Chunk {
        let mut images = FixedTensorBuilder::new(DType::Uint8, &[64], 2);
        images.all().iter_mut().enumerate().for_each(|(i, at)| *at = level(i));
        let fields = vec![Field::new("image", Kind::fixed(DType::Uint8, &[64])), Field::new("text", Kind::Bytes)];
        let texts: ArrayRef = Arc::new(LargeBinaryArray::from_vec(vec![text.as_bytes(); 2]));
        rows(fields, vec![images.finish().expect("valid"), texts])
    }

    fn floats(number: impl Fn(usize) -> f32) -> Chunk {
        let numbers: Float32Array = (0..100).map(number).collect::<Vec<f32>>().into();
        rows(vec![Field::new("x", Kind::scalar(DType::Float32))], vec![Arc::new(numbers)])
    }

    fn small(dtype: DType, number: impl Fn(usize) -> i8) -> Chunk {
        let numbers: Int8Array = (0..100).map(number).collect::<Vec<i8>>().into();
        rows(vec![Field::new("x", Kind::scalar(dtype))], vec![Arc::new(numbers)])
    }

    /// Returns the difference where every column may change.
    fn says(a: &Chunk, b: &Chunk) -> Option<String> {
        let all = a.schema().fields().iter().map(|field| field.name.clone()).collect();
        difference(a, b, &all).expect("comparable")
    }

    #[test]
    fn chance_and_rounding_are_no_difference_and_a_mistake_is() {
        let wave = |i: usize| (100 + (i * 37) % 50) as u8;
        let written = chunk("a", wave);
        assert_eq!(says(&written, &written), None);
        assert_eq!(says(&written, &chunk("a", |i| wave(i) + (i % 2) as u8)), None, "a level here and there");
        assert_eq!(says(&written, &chunk("a", |i| wave(127 - i))), None, "mirrored");
        assert_eq!(says(&written, &chunk("a", |i| wave(i) + 20)).as_deref(), Some("the mean of \"image\""));
        let louder = chunk("a", |i| (2 * (i32::from(wave(i)) - 124) + 124) as u8);
        assert_eq!(says(&written, &louder).as_deref(), Some("the deviation of \"image\""));
        assert_eq!(says(&written, &chunk("b", wave)).as_deref(), Some("the values of \"text\""));
        assert_eq!(says(&written, &written.slice(0, 1)).as_deref(), Some("which samples there are"));
        let images = written.project(&["image".to_owned()]).expect("there");
        assert_eq!(says(&written, &images).as_deref(), Some("the columns"));
    }

    #[test]
    fn unchanged_columns_have_the_same_bits() {
        let written = chunk("a", |i| (100 + (i * 37) % 50) as u8);
        let other = chunk("a", |i| (100 + (i * 37) % 50) as u8 + u8::from(i == 5));
        let says = |changed: &str| difference(&written, &other, &[changed.to_owned()].into()).expect("comparable");
        assert_eq!((says("image"), says("text").as_deref()), (None, Some("the bits of \"image\"")));
    }

    #[test]
    fn nan_and_infinity_are_no_rounding() {
        let wave = |i: usize| ((i * 37) % 50) as f32;
        let others = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(|x| floats(|i| if i == 7 { x } else { wave(i) }));
        let written = floats(wave);
        for (at, other) in others.iter().enumerate() {
            let none = Some("the non-finite numbers of \"x\"");
            assert_eq!([says(&written, other).as_deref(), says(other, &written).as_deref()], [none; 2]);
            assert_eq!(says(other, &others[(at + 1) % 3]).as_deref(), none);
            let near = floats(|i| if i == 8 { [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][at] } else { wave(i) });
            assert_eq!(says(other, &near), None, "as many");
        }
        let vast = rows(
            vec![Field::new("x", Kind::scalar(DType::Float64))],
            vec![Arc::new(arrow_array::Float64Array::from(vec![f64::MAX; 3]))],
        );
        let zero = rows(
            vec![Field::new("x", Kind::scalar(DType::Float64))],
            vec![Arc::new(arrow_array::Float64Array::from(vec![0.0; 3]))],
        );
        assert!(says(&vast, &zero).is_some() && says(&zero, &vast).is_some(), "sums have an end");
    }

    #[test]
    fn nearness_follows_the_scale_of_the_column() {
        let mask = |is_one: fn(usize) -> bool| small(DType::Bool, move |i| i8::from(is_one(i)));
        assert_eq!(
            says(&mask(|i| i % 4 == 0), &mask(|i| i % 4 != 0)).as_deref(),
            Some("the mean of \"x\""),
            "inverted"
        );
        let class = |by: i8| small(DType::Int8, move |i| (i % 10) as i8 + by);
        assert_eq!(says(&class(0), &class(1)).as_deref(), Some("the mean of \"x\""), "another class");
        let tiny = |by: f32| floats(move |i| by * ((i * 37) % 50) as f32 * 1e-5);
        assert_eq!(says(&tiny(1.0), &tiny(1.01)), None);
        assert!(says(&tiny(1.0), &tiny(2.0)).is_some() && says(&tiny(1.0), &tiny(-1.0)).is_some());
        assert!(says(&floats(|_| 1.0), &floats(|_| 1.001)).is_some(), "nothing varies, so nothing is chance");
    }

    #[test]
    fn numbers_of_each_dtype_are_read() {
        for dtype in DType::ALL {
            let bytes: Vec<u8> = match dtype {
                DType::Float16 => vec![0, 0x3c, 0, 0x42],
                DType::Float32 => [1f32, 3.0].iter().flat_map(|x| x.to_ne_bytes()).collect(),
                DType::Float64 => [1f64, 3.0].iter().flat_map(|x| x.to_ne_bytes()).collect(),
                _ => [1u64, 3].iter().flat_map(|x| x.to_le_bytes()[..dtype.size()].to_vec()).collect(),
            };
            let moments = Moments::of(dtype, &bytes);
            assert_eq!((moments.mean, moments.deviation), (2.0, 1.0), "{dtype:?}");
        }
    }
}
