//! Converts to float32: `normalize`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};
use serde::{Deserialize, Serialize};

use super::checks::image;
use super::layout::Layout;
use super::spec::{AboutImage, ImageSpec};
use crate::ops::checks::range;

/// Converts to float32: `(x / 255 - mean) / std` for uint8, `(x / 65535 - mean) / std` for uint16.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Normalize {
    /// The column.
    pub column: String,
    /// One for each channel.
    pub mean: Vec<f64>,
    /// One for each channel.
    pub std: Vec<f64>,
    /// The order of the result's dimensions.
    pub layout: Layout,
}

impl ImageSpec for Normalize {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "normalize", column: &self.column, is_random: false }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let (dtype, shape) = image(self.name(), field)?;
        let channels = shape[2].unwrap_or(0);
        if !matches!((dtype, channels), (DType::Uint8, 1..) | (DType::Uint16, 1)) {
            return Err(Error::invalid(format!("normalize: column {:?} is {}", field.name, field.kind))
                .hint("normalize takes uint8 of known channels or uint16 of one channel, once"));
        }
        for (name, values) in [("mean", &self.mean), ("std", &self.std)] {
            if values.len() != channels {
                let message = format!("normalize: {name} has {} values for {channels} channels", values.len());
                return Err(Error::invalid(message).hint("give one for each channel"));
            }
        }
        if let Some(bad) = self.std.iter().find(|s| !(s.is_finite() && **s > 0.0)) {
            return Err(range(self.name(), "std", bad, "positive numbers"));
        }
        let shape = match self.layout {
            Layout::Hwc => shape,
            Layout::Chw | Layout::Cthw => vec![shape[2], shape[0], shape[1]],
        };
        Ok(Kind::Tensor { dtype: DType::Float32, shape })
    }

    fn arguments(&self) -> String {
        let Self { column, mean, std, layout } = self;
        format!("{column}, mean={mean:?}, std={std:?}, layout={}", format!("{layout:?}").to_uppercase())
    }

    fn puts_channels_before_frames(&self) -> bool {
        self.layout == Layout::Cthw
    }

    fn moves_pixels(&self) -> bool {
        false
    }

    fn ns(&self, _from: f64, to: f64) -> f64 {
        1.0 * to
    }

    fn may_fail(&self) -> bool {
        false
    }

    fn may_run_on_consumer(&self) -> bool {
        true
    }
}
