//! Adds noise at a random ratio to the sound: `random_noise`.

use forebay_core::{Error, Result};
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use super::checks::{decibels, sound};
use crate::ops::access::Access;
use crate::ops::checks::coin;
use crate::ops::spec::{About, Class, OpSpec};

/// Nanoseconds for a byte of sound: a normal draw for each sample.
const BYTE_NS: f64 = 10.0;

/// Adds noise at a random ratio of the powers of sound and noise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomNoise {
    /// The column, changed in place.
    pub column: String,
    /// A column of noise, from a random place on and repeated where it is shorter. `None`: white Gaussian noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<String>,
    /// The least and the greatest ratio of power, in decibels.
    pub snr_db: (f64, f64),
    /// The probability, 0 to 1.
    pub probability: f64,
}

impl OpSpec for RandomNoise {
    fn about(&self) -> About {
        About { name: "random_noise", class: Class::RowWise, is_random: true }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        decibels("random_noise", "snr_db", self.snr_db)?;
        coin("random_noise", self.probability)?;
        let own = sound("random_noise", input.field(&self.column)?)?;
        if let Some(noise) = &self.noise {
            let other = sound("random_noise", input.field(noise)?)?;
            if own.len() != other.len() || own.get(1) != other.get(1) {
                let message = format!("random_noise: {:?} and {noise:?} have other numbers of channels", self.column);
                return Err(Error::invalid(message).hint("decode both with mono=True, or with equal channels="));
            }
        }
        Ok(input.clone())
    }

    fn is_audio(&self) -> bool {
        true
    }

    fn arguments(&self) -> String {
        let noise = self.noise.as_ref().map_or(String::new(), |noise| format!(", noise={noise}"));
        let (low, high) = self.snr_db;
        format!("{}{noise}, snr_db=({low}, {high}), p={}", self.column, self.probability)
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        let reads = [Some(&self.column), self.noise.as_ref()].into_iter().flatten().cloned().collect();
        Some(Access { reads, writes: vec![self.column.clone()], may_fail: self.noise.is_some(), ..Access::default() })
    }

    fn ns(&self, _read: f64, made: f64) -> f64 {
        made * self.probability * BYTE_NS
    }
}
