//! Changes how loud a sound is: `normalize_audio` to one level, `random_gain` at random.

use forebay_core::Result;
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use super::checks::{decibels, sound};
use crate::ops::access::Access;
use crate::ops::checks::coin;
use crate::ops::spec::{About, BYTE_NS, Class, OpSpec};

/// The measure that is the same for all sounds after `normalize_audio`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loudness {
    /// The largest absolute value.
    Peak,
    /// The root of the mean square.
    Rms,
    /// Mean 0 and variance 1, as wav2vec 2.0 takes it.
    Standard,
}

impl Loudness {
    fn name(self) -> &'static str {
        match self {
            Loudness::Peak => "peak",
            Loudness::Rms => "rms",
            Loudness::Standard => "standard",
        }
    }
}

/// Scales each sound to one level. A sound of zeros stays as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormalizeAudio {
    /// The column, changed in place.
    pub column: String,
    /// What becomes the same.
    pub to: Loudness,
    /// Its level in decibels: 0 is a value of 1. `Standard` ignores it.
    pub db: f64,
}

/// Makes a sound louder or softer, at random.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomGain {
    /// The column, changed in place.
    pub column: String,
    /// The least and the greatest gain, in decibels.
    pub db: (f64, f64),
    /// The probability, 0 to 1.
    pub probability: f64,
}

impl OpSpec for NormalizeAudio {
    fn about(&self) -> About {
        About { name: "normalize_audio", class: Class::RowWise, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        decibels("normalize_audio", "db", (self.db, self.db))?;
        sound("normalize_audio", input.field(&self.column)?).map(|_| input.clone())
    }

    fn is_audio(&self) -> bool {
        true
    }

    fn arguments(&self) -> String {
        let db = if self.db == 0.0 { String::new() } else { format!(", db={}", self.db) };
        format!("{}, to={}{db}", self.column, self.to.name())
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        Some(Access::in_place([&self.column]))
    }

    fn ns(&self, _read: f64, made: f64) -> f64 {
        made * 2.0 * BYTE_NS
    }
}

impl OpSpec for RandomGain {
    fn about(&self) -> About {
        About { name: "random_gain", class: Class::RowWise, is_random: true }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        decibels("random_gain", "db", self.db)?;
        coin("random_gain", self.probability)?;
        sound("random_gain", input.field(&self.column)?).map(|_| input.clone())
    }

    fn is_audio(&self) -> bool {
        true
    }

    fn arguments(&self) -> String {
        let (low, high) = self.db;
        format!("{}, db=({low}, {high}), p={}", self.column, self.probability)
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        Some(Access::in_place([&self.column]))
    }

    fn ns(&self, _read: f64, made: f64) -> f64 {
        made * BYTE_NS
    }
}
