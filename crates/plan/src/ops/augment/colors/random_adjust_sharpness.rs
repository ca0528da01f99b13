//! Sharpens or smooths, at random: `random_adjust_sharpness`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::checks::{coin, range};
use crate::ops::images::checks::changed;
use crate::ops::images::{AboutImage, Effect, ImageSpec};

/// Sharpens or smooths, at random (torchvision's rule).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomAdjustSharpness {
    /// The column.
    pub column: String,
    /// The factor of the distance from the mean of the surroundings: 0 smooths, 1 changes nothing, 2 sharpens.
    pub factor: f64,
    /// The probability, 0 to 1.
    pub probability: f64,
}

impl ImageSpec for RandomAdjustSharpness {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "random_adjust_sharpness", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        if !(0.0..=1e9).contains(&self.factor) {
            return Err(range(self.name(), "factor", self.factor, "0 or more"));
        }
        coin(self.name(), self.probability)?;
        changed(self.name(), field)
    }

    fn arguments(&self) -> String {
        format!("{}, factor={}, p={}", self.column, self.factor, self.probability)
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        3.0 * self.probability * from
    }

    fn effect(&self) -> Effect {
        Effect::Blurs
    }
}
