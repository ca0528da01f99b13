//! A view of the image from another side, at random: `random_perspective`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::augment::filled::{self, Interpolation};
use crate::ops::checks::{coin, range};
use crate::ops::images::{AboutImage, ImageSpec};

/// A view of the image from another side, at random (torchvision's rule); the size stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomPerspective {
    /// The column.
    pub column: String,
    /// How far each corner may move towards the middle of the image: 0 not at all, 1 to the middle.
    pub distortion_scale: f64,
    /// The probability, 0 to 1.
    pub probability: f64,
    /// The interpolation between pixels.
    pub interpolation: Interpolation,
    /// The pixel outside, one level or one for each channel.
    pub fill: Option<Vec<u8>>,
}

impl ImageSpec for RandomPerspective {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "random_perspective", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let op = self.name();
        if !(0.0..=1.0).contains(&self.distortion_scale) {
            return Err(range(op, "distortion_scale", self.distortion_scale, "0 to 1"));
        }
        coin(op, self.probability)?;
        filled::kind(op, field, self.fill.as_deref())
    }

    fn arguments(&self) -> String {
        let Self { column, distortion_scale, probability, interpolation, fill } = self;
        let how = filled::arguments(*interpolation, fill.as_deref());
        format!("{column}, distortion_scale={distortion_scale}, p={probability}{how}")
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        15.0 * self.probability * from
    }
}
