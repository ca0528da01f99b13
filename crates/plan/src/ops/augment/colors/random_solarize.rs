//! Inverts bright levels, at random: `random_solarize`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::checks::{coin, range};
use crate::ops::images::checks::changed;
use crate::ops::images::{AboutImage, Effect, ImageSpec};

/// Inverts levels from a threshold on, at random (torchvision's rule).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomSolarize {
    /// The column.
    pub column: String,
    /// The least level that is inverted, 0 to 255.
    pub threshold: f64,
    /// The probability, 0 to 1.
    pub probability: f64,
}

impl ImageSpec for RandomSolarize {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "random_solarize", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        if !(0.0..=255.0).contains(&self.threshold) {
            return Err(range(self.name(), "threshold", self.threshold, "0 <= threshold <= 255"));
        }
        coin(self.name(), self.probability)?;
        changed(self.name(), field)
    }

    fn arguments(&self) -> String {
        format!("{}, threshold={}, p={}", self.column, self.threshold, self.probability)
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        0.5 * self.probability * from
    }

    /// Inverting a mean of levels differs from the mean of inverted levels, so no resize may move past it.
    fn effect(&self) -> Effect {
        Effect::Recolours { by_pixel: self.threshold as f32 > 0.0, keeps_means: false }
    }

    fn may_fail(&self) -> bool {
        false
    }
}
