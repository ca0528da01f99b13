//! Keeps the middle of an image: `center_crop`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::images::checks::{resized, sides};
use crate::ops::images::spec::{AboutImage, Effect, ImageSpec};

/// Keeps the middle, padded with zeros if the image is smaller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CenterCrop {
    /// The column.
    pub column: String,
    /// Pixels.
    pub height: usize,
    /// Pixels.
    pub width: usize,
}

impl ImageSpec for CenterCrop {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "center_crop", column: &self.column, is_random: false }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        sides(self.name(), self.height, self.width)?;
        resized(self.name(), field, Some(self.height), Some(self.width))
    }

    fn arguments(&self) -> String {
        format!("{}, ({}, {})", self.column, self.height, self.width)
    }

    fn ns(&self, _from: f64, to: f64) -> f64 {
        0.2 * to
    }

    fn sides(&self, _before: (f64, f64)) -> (f64, f64) {
        (self.height as f64, self.width as f64)
    }

    fn effect(&self) -> Effect {
        Effect::CropsMiddle { height: self.height, width: self.width }
    }
}
