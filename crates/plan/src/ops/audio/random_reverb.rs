//! Convolves a sound with the impulse response of a room, at random: `random_reverb`.

use forebay_core::{Error, Result};
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use super::checks::sound;
use crate::ops::access::Access;
use crate::ops::checks::coin;
use crate::ops::spec::{About, Class, OpSpec};

const NAME: &str = "random_reverb";

/// Nanoseconds for a byte of sound: two Fourier transforms.
const BYTE_NS: f64 = 12.0;

/// A measure of the level of a sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SoundLevel {
    /// The greatest absolute value.
    Peak,
    /// The root of the mean square.
    Rms,
}

/// Convolves a sound with an impulse response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomReverb {
    /// The column, changed in place.
    pub column: String,
    /// The column of impulse responses, at the sampling rate of the sound.
    pub impulse_response: String,
    /// Whether the result begins at the greatest absolute value of the response, which is then without delay.
    pub shift: bool,
    /// The level that stays. `None`: the result is the convolution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_level: Option<SoundLevel>,
    /// The probability, 0 to 1.
    pub probability: f64,
}

impl OpSpec for RandomReverb {
    fn about(&self) -> About {
        About { name: NAME, class: Class::RowWise, is_random: true }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        coin(NAME, self.probability)?;
        let own = sound(NAME, input.field(&self.column)?)?;
        let other = sound(NAME, input.field(&self.impulse_response)?)?;
        let channels = other.get(1).copied().unwrap_or(Some(1));
        if channels != Some(1) && own.get(1) != Some(&channels) {
            let (column, other) = (&self.column, &self.impulse_response);
            return Err(Error::invalid(format!("{NAME}: {column:?} and {other:?} have other numbers of channels"))
                .hint(
                    "decode the impulse response with mono=True, which fits any sound, or both with equal channels=",
                ));
        }
        Ok(input.clone())
    }

    fn is_audio(&self) -> bool {
        true
    }

    fn arguments(&self) -> String {
        let level = match self.keep_level {
            None => "None",
            Some(SoundLevel::Peak) => "peak",
            Some(SoundLevel::Rms) => "rms",
        };
        let Self { column, impulse_response, shift, probability, .. } = self;
        format!("{column}, {impulse_response}, shift={shift}, keep_level={level}, p={probability}")
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        let reads = vec![self.column.clone(), self.impulse_response.clone()];
        Some(Access { reads, writes: vec![self.column.clone()], may_fail: true, ..Access::default() })
    }

    fn ns(&self, _read: f64, made: f64) -> f64 {
        made * self.probability * BYTE_NS
    }
}
