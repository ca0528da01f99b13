//! A rotation about the centre, at random: `random_rotation`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::augment::filled::{self, Interpolation};
use crate::ops::checks::between;
use crate::ops::images::{AboutImage, Effect, ImageSpec};

/// A rotation about the centre, at random.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomRotation {
    /// The column.
    pub column: String,
    /// Least and greatest angle to the left, in degrees.
    pub degrees: (f64, f64),
    /// The interpolation between pixels.
    pub interpolation: Interpolation,
    /// The pixel outside, one level or one for each channel.
    pub fill: Option<Vec<u8>>,
}

impl ImageSpec for RandomRotation {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "random_rotation", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        between(self.name(), "degrees", self.degrees, (-1e6, 1e6))?;
        filled::kind(self.name(), field, self.fill.as_deref())
    }

    fn arguments(&self) -> String {
        let how = filled::arguments(self.interpolation, self.fill.as_deref());
        format!("{}, {:?}{how}", self.column, self.degrees)
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        6.0 * from
    }

    fn effect(&self) -> Effect {
        Effect::Turns
    }
}
