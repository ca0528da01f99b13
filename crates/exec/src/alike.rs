//! Whether two orders of ops draw their samples from the same distribution, as far as some samples can say.
//!
//! For whoever tries an order that changes bytes: the same rows, columns and shapes, each column's bits or, of numbers that differ,
//! their mean and deviation. A sieve for mistakes, not a proof: that an order may be taken at all is the plan's to say.

use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use arrow_array::{Array, ArrayRef};
use forebay_core::Result;
use forebay_data::{Chunk, DType, Kind, tensor_shape_of_row, tensor_values};

type F16 = <Float16Type as ArrowPrimitiveType>::Native;

/// How far means may be apart, and how far deviations, in deviations.
const MEANS_APART: f64 = 0.05;
const DEVIATIONS_APART: f64 = 0.1;
/// What rounding may do to a mean where nothing varies: a level of an image, before and after it was made a float.
const LEVEL: f64 = 1.0;
const LEVEL_FLOAT: f64 = 0.02;

/// Says in what two chunks of the same rows differ by more than chance and rounding; `None` where in nothing.
///
/// # Errors
/// Internal when a column is not what its kind says.
pub(crate) fn difference(written: &Chunk, other: &Chunk) -> Result<Option<String>> {
    if written.schema() != other.schema() {
        return Ok(Some("the columns".to_owned()));
    }
    if written.ids() != other.ids() {
        return Ok(Some("which samples there are".to_owned()));
    }
    for ((field, a), b) in written.schema().fields().iter().zip(written.columns()).zip(other.columns()) {
        if a.to_data() != b.to_data()
            && let Some(what) = column(&field.kind, a, b)?
        {
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
    let level = if dtype.is_float() { LEVEL_FLOAT } else { LEVEL };
    let apart = |x: f64, y: f64, share: f64| (x - y).abs() > (share * a.deviation).max(level);
    if apart(a.mean, b.mean, MEANS_APART) {
        return Ok(Some("mean"));
    }
    Ok(apart(a.deviation, b.deviation, DEVIATIONS_APART).then_some("deviation"))
}

/// Of all the numbers of a column.
struct Moments {
    mean: f64,
    deviation: f64,
}

impl Moments {
    fn of(dtype: DType, bytes: &[u8]) -> Self {
        let values = numbers(dtype, bytes);
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        Self { mean, deviation: (squares / count).sqrt() }
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

    use arrow_array::LargeBinaryArray;
    use forebay_core::{Epoch, SampleId};
    use forebay_data::{Field, FixedTensorBuilder, RowId, Schema};

    use super::*;

    /// Two pictures whose levels `level` says, and a text.
    fn chunk(text: &str, level: impl Fn(usize) -> u8) -> Chunk {
        let mut images = FixedTensorBuilder::new(DType::Uint8, &[64], 2);
        images.all().iter_mut().enumerate().for_each(|(i, at)| *at = level(i));
        let fields = vec![Field::new("image", Kind::fixed(DType::Uint8, &[64])), Field::new("text", Kind::Bytes)];
        let ids = (0..2).map(|row| RowId { sample: SampleId::new(0, row), epoch: Epoch(0) }).collect();
        let texts: ArrayRef = Arc::new(LargeBinaryArray::from_vec(vec![text.as_bytes(); 2]));
        Chunk::new(Arc::new(Schema::new(fields).expect("valid")), vec![images.finish().expect("valid"), texts], ids)
            .expect("valid")
    }

    fn says(a: &Chunk, b: &Chunk) -> Option<String> {
        difference(a, b).expect("comparable")
    }

    #[test]
    fn what_chance_and_rounding_do_is_no_difference_and_what_a_mistake_does_is() {
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
