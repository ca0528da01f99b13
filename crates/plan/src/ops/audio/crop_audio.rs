//! Keeps a part of a sound: `crop_audio` the same part of each, `random_offset` a part at a random place.

use forebay_core::Result;
use forebay_data::{Field, Schema};
use serde::{Deserialize, Serialize};

use super::checks::{of_length, samples, sound};
use crate::ops::access::Access;
use crate::ops::spec::{About, BYTE_NS, Class, OpSpec};

/// Keeps the same part of each sound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CropAudio {
    /// The column, changed in place.
    pub column: String,
    /// The first sample that is kept.
    pub start: usize,
    /// The number of samples.
    pub length: usize,
    /// Whether zeros are appended to a shorter sound. If not, it stays shorter.
    pub pad: bool,
}

/// Keeps a part of each sound, at a random place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomOffset {
    /// The column, changed in place.
    pub column: String,
    /// The number of samples.
    pub length: usize,
    /// Whether zeros are appended to a shorter sound. If not, it stays shorter.
    pub pad: bool,
}

/// Returns the columns after a part of so many samples.
fn cropped(op: &str, input: &Schema, column: &str, start: usize, length: usize, pad: bool) -> Result<Schema> {
    let shape = sound(op, input.field(column)?)?;
    samples(op, "seconds", length)?;
    let rest = shape[0].map(|samples| samples.saturating_sub(start).min(length));
    let length = if pad { Some(length) } else { rest };
    Ok(input.with(Field::new(column, of_length(shape, length))))
}

fn unpadded(pad: bool) -> &'static str {
    if pad { "" } else { ", pad=False" }
}

impl OpSpec for CropAudio {
    fn about(&self) -> About {
        About { name: "crop_audio", class: Class::RowWise, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        if self.start > 0 {
            samples("crop_audio", "start", self.start)?;
        }
        cropped("crop_audio", input, &self.column, self.start, self.length, self.pad)
    }

    fn is_audio(&self) -> bool {
        true
    }

    fn arguments(&self) -> String {
        let start = if self.start == 0 { String::new() } else { format!(", start={}", self.start) };
        format!("{}, samples={}{start}{}", self.column, self.length, unpadded(self.pad))
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        Some(Access { may_fail: true, ..Access::in_place([&self.column]) })
    }

    fn ns(&self, _read: f64, made: f64) -> f64 {
        made * BYTE_NS
    }
}

impl OpSpec for RandomOffset {
    fn about(&self) -> About {
        About { name: "random_offset", class: Class::RowWise, is_random: true }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        cropped("random_offset", input, &self.column, 0, self.length, self.pad)
    }

    fn is_audio(&self) -> bool {
        true
    }

    fn arguments(&self) -> String {
        format!("{}, samples={}{}", self.column, self.length, unpadded(self.pad))
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        Some(Access { may_fail: true, ..Access::in_place([&self.column]) })
    }

    fn ns(&self, _read: f64, made: f64) -> f64 {
        made * BYTE_NS
    }
}
