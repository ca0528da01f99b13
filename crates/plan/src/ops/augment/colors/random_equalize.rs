//! Spreads each channel's levels evenly, at random: `random_equalize`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::checks::coin;
use crate::ops::images::checks::changed;
use crate::ops::images::{AboutImage, Effect, ImageSpec};

/// Spreads each channel's levels evenly, at random (torchvision's rule).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomEqualize {
    /// The column.
    pub column: String,
    /// The probability, 0 to 1.
    pub probability: f64,
}

impl ImageSpec for RandomEqualize {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "random_equalize", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        coin(self.name(), self.probability)?;
        changed(self.name(), field)
    }

    fn arguments(&self) -> String {
        format!("{}, p={}", self.column, self.probability)
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        1.0 * self.probability * from
    }

    fn effect(&self) -> Effect {
        Effect::Recolours { by_pixel: false, keeps_means: false }
    }

    fn may_fail(&self) -> bool {
        false
    }
}
