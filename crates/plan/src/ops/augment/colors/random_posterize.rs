//! Keeps a few bits of each level, at random: `random_posterize`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::checks::{coin, range};
use crate::ops::images::checks::changed;
use crate::ops::images::{AboutImage, Effect, ImageSpec};

/// Keeps a few bits of each level, at random (torchvision's rule).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomPosterize {
    /// The column.
    pub column: String,
    /// The bits that are kept, 1 to 8.
    pub bits: usize,
    /// The probability, 0 to 1.
    pub probability: f64,
}

impl ImageSpec for RandomPosterize {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "random_posterize", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        if !(1..=8).contains(&self.bits) {
            return Err(range(self.name(), "bits", self.bits, "1 to 8"));
        }
        coin(self.name(), self.probability)?;
        changed(self.name(), field)
    }

    fn arguments(&self) -> String {
        format!("{}, bits={}, p={}", self.column, self.bits, self.probability)
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        0.3 * self.probability * from
    }

    fn effect(&self) -> Effect {
        Effect::Recolours { by_pixel: true, keeps_means: false }
    }

    fn may_fail(&self) -> bool {
        false
    }
}
