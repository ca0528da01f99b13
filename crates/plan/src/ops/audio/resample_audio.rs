//! Changes the sampling rate of a sound: `resample_audio`.

use forebay_core::Result;
use forebay_data::{Field, Schema};
use serde::{Deserialize, Serialize};

use super::checks::{of_length, rate, sound};
use crate::ops::access::Access;
use crate::ops::spec::{About, Class, OpSpec};

/// Nanoseconds for a byte of resampled sound.
const BYTE_NS: f64 = 20.0;

/// Changes the sampling rate of a sound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResampleAudio {
    /// The column, changed in place.
    pub column: String,
    /// Its sampling rate, in Hz.
    pub from_rate: u32,
    /// The new one, in Hz.
    pub sample_rate: u32,
}

impl ResampleAudio {
    /// Returns the number of samples that so many samples become.
    pub fn samples(&self, samples: usize) -> usize {
        let (from, to) = (u128::from(self.from_rate), u128::from(self.sample_rate));
        (samples as u128 * to).div_ceil(from) as usize
    }
}

impl OpSpec for ResampleAudio {
    fn about(&self) -> About {
        About { name: "resample_audio", class: Class::RowWise, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        let shape = sound("resample_audio", input.field(&self.column)?)?;
        rate("resample_audio", "from_rate", self.from_rate)?;
        rate("resample_audio", "sample_rate", self.sample_rate)?;
        let samples = shape[0].map(|samples| self.samples(samples));
        Ok(input.with(Field::new(&self.column, of_length(shape, samples))))
    }

    fn is_audio(&self) -> bool {
        true
    }

    fn arguments(&self) -> String {
        format!("{}, {}, from_rate={}", self.column, self.sample_rate, self.from_rate)
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        Some(Access { may_fail: true, ..Access::in_place([&self.column]) })
    }

    fn ns(&self, _read: f64, made: f64) -> f64 {
        made * BYTE_NS
    }
}
