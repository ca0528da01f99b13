//! Crops a random part and resizes it: `random_resized_crop`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use super::resample::Resample;
use crate::ops::checks::range;
use crate::ops::images::checks::{resized, sides};
use crate::ops::images::spec::{AboutImage, Effect, ImageSpec};

/// Crops a random part and resizes it (torchvision's rule).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomResizedCrop {
    /// The column.
    pub column: String,
    /// Pixels.
    pub height: usize,
    /// Pixels.
    pub width: usize,
    /// Least and greatest share of the area.
    pub scale: (f64, f64),
    /// Least and greatest width / height.
    pub ratio: (f64, f64),
    /// As in `Resize`.
    pub antialias: bool,
    /// Pillow's filter.
    #[serde(default, skip_serializing_if = "Resample::is_bilinear")]
    pub interpolation: Resample,
}

impl ImageSpec for RandomResizedCrop {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "random_resized_crop", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let op = self.name();
        sides(op, self.height, self.width)?;
        interval(op, "scale", self.scale, 1.0)?;
        interval(op, "ratio", self.ratio, f64::INFINITY)?;
        self.interpolation.check(op, self.antialias, field)?;
        resized(op, field, Some(self.height), Some(self.width))
    }

    fn arguments(&self) -> String {
        let Self { column, height, width, scale, ratio, interpolation, .. } = self;
        // The texts of existing pipelines must not change, so the text leaves `antialias` out.
        let how = interpolation.arguments(true);
        format!("{column}, ({height}, {width}), scale={scale:?}, ratio=({:.3}, {:.3}){how}", ratio.0, ratio.1)
    }

    /// Only the cropped part is read.
    fn ns(&self, from: f64, to: f64) -> f64 {
        (self.scale.0 + self.scale.1) / 2.0 * from + 2.0 * to
    }

    fn sides(&self, _before: (f64, f64)) -> (f64, f64) {
        (self.height as f64, self.width as f64)
    }

    fn effect(&self) -> Effect {
        Effect::Scales { keeps_shape: false }
    }
}

fn interval(op: &str, argument: &str, (low, high): (f64, f64), max: f64) -> Result<()> {
    if low > 0.0 && low <= high && high <= max && high.is_finite() {
        return Ok(());
    }
    let most = if max.is_finite() { format!(" <= {max}") } else { String::new() };
    Err(range(op, argument, format!("({low}, {high})"), &format!("0 < low <= high{most}")))
}
