//! The channels of an image in a random order: `random_channel_permutation`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::images::checks::changed;
use crate::ops::images::{AboutImage, Effect, ImageSpec};

/// The channels of an image in a random order (torchvision's rule).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomChannelPermutation {
    /// The column.
    pub column: String,
}

impl ImageSpec for RandomChannelPermutation {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "random_channel_permutation", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        changed(self.name(), field)
    }

    fn arguments(&self) -> String {
        self.column.clone()
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        0.5 * from
    }

    fn effect(&self) -> Effect {
        Effect::Recolours { by_pixel: true, keeps_means: true }
    }

    fn may_fail(&self) -> bool {
        false
    }
}
