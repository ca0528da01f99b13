//! Resizes an image: `resize`, to an exact size or by the shorter side.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use super::resample::Resample;
use crate::ops::checks::{count, range};
use crate::ops::images::checks::{SIDE_MAX, resized, sides};
use crate::ops::images::spec::{AboutImage, Effect, ImageSpec};

/// Resizes to exactly this height and width.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    /// The column.
    pub column: String,
    /// Pixels.
    pub height: usize,
    /// Pixels.
    pub width: usize,
    /// Whether shrinking averages (as Pillow) or samples (as TensorFlow's and DALI's default).
    pub antialias: bool,
    /// Pillow's filter.
    #[serde(default, skip_serializing_if = "Resample::is_bilinear")]
    pub interpolation: Resample,
}

/// Resizes the shorter side to this many pixels and keeps the aspect ratio (torchvision's rule).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResizeShorter {
    /// The column.
    pub column: String,
    /// Pixels.
    pub size: usize,
    /// The most pixels of the longer side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<usize>,
    /// As in `Resize`.
    pub antialias: bool,
    /// Pillow's filter.
    #[serde(default, skip_serializing_if = "Resample::is_bilinear")]
    pub interpolation: Resample,
}

impl ImageSpec for Resize {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "resize", column: &self.column, is_random: false }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        sides(self.name(), self.height, self.width)?;
        self.interpolation.check(self.name(), self.antialias, field)?;
        resized(self.name(), field, Some(self.height), Some(self.width))
    }

    fn arguments(&self) -> String {
        format!("{}, ({}, {}){}", self.column, self.height, self.width, self.interpolation.arguments(self.antialias))
    }

    fn ns(&self, from: f64, to: f64) -> f64 {
        1.0 * from + 2.0 * to
    }

    fn sides(&self, _before: (f64, f64)) -> (f64, f64) {
        (self.height as f64, self.width as f64)
    }

    fn effect(&self) -> Effect {
        Effect::Scales { keeps_shape: false }
    }
}

impl ImageSpec for ResizeShorter {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "resize", column: &self.column, is_random: false }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let (op, size) = (self.name(), self.size);
        count(op, "shorter", size, SIDE_MAX)?;
        if let Some(most) = self.max_size.filter(|most| *most <= size || *most > SIDE_MAX) {
            return Err(range(op, "max_size", most, &format!("{} to {SIDE_MAX}: more than shorter", size + 1)));
        }
        self.interpolation.check(op, self.antialias, field)?;
        resized(op, field, None, None)
    }

    fn arguments(&self) -> String {
        let most = self.max_size.map_or(String::new(), |most| format!(", max_size={most}"));
        format!("{}, shorter={}{most}{}", self.column, self.size, self.interpolation.arguments(self.antialias))
    }

    fn ns(&self, from: f64, to: f64) -> f64 {
        1.0 * from + 2.0 * to
    }

    fn sides(&self, (height, width): (f64, f64)) -> (f64, f64) {
        let by = self.size as f64 / height.min(width).max(1.0);
        (height * by, width * by)
    }

    fn effect(&self) -> Effect {
        Effect::Scales { keeps_shape: true }
    }
}
