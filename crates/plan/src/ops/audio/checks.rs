//! Checks of columns and arguments that several ops on sound share.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};

use crate::ops::checks::range;

/// The sampling rates that an op takes, in Hz.
const RATES: std::ops::RangeInclusive<u32> = 100..=768_000;
/// The most samples of a channel that an op outputs: 2 GiB of float32 in one row would pass a column's bound.
const SAMPLES_MAX: usize = 1 << 28;

/// Checks a sampling rate.
pub(super) fn rate(op: &str, argument: &str, value: u32) -> Result<()> {
    if RATES.contains(&value) {
        return Ok(());
    }
    Err(range(op, argument, value, &format!("{} to {} Hz", RATES.start(), RATES.end())))
}

/// Checks a number of samples.
pub(super) fn samples(op: &str, argument: &str, value: usize) -> Result<()> {
    if (1..=SAMPLES_MAX).contains(&value) {
        return Ok(());
    }
    Err(range(op, argument, format!("{value} samples"), &format!("1 to {SAMPLES_MAX} samples")))
}

/// Checks a range of decibels.
pub(super) fn decibels(op: &str, argument: &str, (low, high): (f64, f64)) -> Result<()> {
    crate::ops::checks::between(op, argument, (low, high), (-200.0, 200.0))
}

/// Returns the shape of a column of sound: samples, or samples and channels.
pub(super) fn sound(op: &str, field: &Field) -> Result<Vec<Option<usize>>> {
    let (name, kind) = (&field.name, &field.kind);
    match kind {
        Kind::Tensor { dtype: DType::Float32, shape } if matches!(shape.len(), 1 | 2) => Ok(shape.clone()),
        Kind::Bytes => Err(Error::invalid(format!("{op}: column {name:?} is not decoded yet"))
            .hint(format!("put .decode_audio({name:?}) before it"))),
        other => Err(Error::invalid(format!("{op}: column {name:?} is {other}, not sound"))
            .hint("name a column of float32[samples] or float32[samples, channels], as decode_audio makes it")),
    }
}

/// Returns the kind of a column of sound with another number of samples.
pub(super) fn of_length(mut shape: Vec<Option<usize>>, samples: Option<usize>) -> Kind {
    shape[0] = samples;
    Kind::Tensor { dtype: DType::Float32, shape }
}
