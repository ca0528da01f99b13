//! Noise on every level of an image, at random: `gaussian_noise`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::checks::{between, coin, range};
use crate::ops::images::checks::changed;
use crate::ops::images::{AboutImage, ImageSpec};

/// Noise on every level of an image, at random (torchvision's rule).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GaussianNoise {
    /// The column.
    pub column: String,
    /// The mean of the noise, as a share of 255.
    pub mean: f64,
    /// Least and greatest standard deviation of the noise, as shares of 255.
    pub sigma: (f64, f64),
    /// The probability, 0 to 1.
    pub probability: f64,
}

impl ImageSpec for GaussianNoise {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "gaussian_noise", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let op = self.name();
        if !(-1.0..=1.0).contains(&self.mean) {
            return Err(range(op, "mean", self.mean, "-1 to 1, a share of 255"));
        }
        between(op, "sigma", self.sigma, (0.0, 10.0))?;
        coin(op, self.probability)?;
        changed(op, field)
    }

    fn arguments(&self) -> String {
        let Self { column, mean, sigma, probability } = self;
        format!("{column}, mean={mean}, sigma={sigma:?}, p={probability}")
    }

    fn moves_pixels(&self) -> bool {
        false
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        60.0 * self.probability * from
    }
}
