//! Masks bands of frequencies and spans of time: `spec_augment` (Park et al., 2019).

use forebay_core::{Error, Result};
use forebay_data::{DType, Kind, Schema};
use serde::{Deserialize, Serialize};

use crate::ops::access::Access;
use crate::ops::checks::range;
use crate::ops::spec::{About, BYTE_NS, Class, OpSpec};

/// The most masks of one direction.
const MASKS_MAX: usize = 1_000;

/// Masks bands of frequencies and spans of time, at random.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpecAugment {
    /// The column, changed in place.
    pub column: String,
    /// Whether the first dimension is time, and not frequency.
    pub time_first: bool,
    /// The number of bands.
    pub freq_masks: usize,
    /// The greatest width of a band.
    pub freq_width: usize,
    /// The number of spans.
    pub time_masks: usize,
    /// The greatest length of a span, in frames.
    pub time_width: usize,
    /// The greatest share of the frames that one span masks.
    pub time_ratio: f64,
    /// The value of masked places.
    pub value: f64,
}

impl OpSpec for SpecAugment {
    fn about(&self) -> About {
        About { name: "spec_augment", class: Class::RowWise, is_random: true }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        const OP: &str = "spec_augment";
        let field = input.field(&self.column)?;
        if !matches!(&field.kind, Kind::Tensor { dtype: DType::Float32, shape } if shape.len() == 2) {
            return Err(Error::invalid(format!("{OP}: column {:?} is {}, not a spectrogram", field.name, field.kind))
                .hint("name a column of float32[frames, bins], as log_mel makes it"));
        }
        for (name, masks) in [("freq_masks", self.freq_masks), ("time_masks", self.time_masks)] {
            if masks > MASKS_MAX {
                return Err(range(OP, name, masks, &format!("0 to {MASKS_MAX}")));
            }
        }
        if !(0.0..=1.0).contains(&self.time_ratio) {
            return Err(range(OP, "time_ratio", self.time_ratio, "0 <= time_ratio <= 1"));
        }
        if !(self.value as f32).is_finite() {
            return Err(range(OP, "value", self.value, "a number that float32 holds"));
        }
        Ok(input.clone())
    }

    fn is_audio(&self) -> bool {
        true
    }

    fn arguments(&self) -> String {
        let Self { column, freq_masks, freq_width, time_masks, time_width, .. } = self;
        let ratio = if self.time_ratio < 1.0 { format!(", time_ratio={}", self.time_ratio) } else { String::new() };
        let value = if self.value == 0.0 { String::new() } else { format!(", value={}", self.value) };
        let order = if self.time_first { "" } else { ", time_first=False" };
        format!(
            "{column}, freq_masks={freq_masks}, freq_width={freq_width}, time_masks={time_masks}, \
             time_width={time_width}{ratio}{value}{order}"
        )
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        Some(Access::in_place([&self.column]))
    }

    fn ns(&self, _read: f64, made: f64) -> f64 {
        made * BYTE_NS
    }
}
