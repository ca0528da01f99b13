//! A Gaussian blur, at random: `gaussian_blur`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::checks::{between, coin, range};
use crate::ops::images::checks::changed;
use crate::ops::images::{AboutImage, Effect, ImageSpec};

/// The most rows of a kernel.
const KERNEL_MAX: usize = 1001;

/// A Gaussian blur, at random.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GaussianBlur {
    /// The column.
    pub column: String,
    /// Rows and columns of the kernel, an odd number.
    pub kernel_size: usize,
    /// Least and greatest standard deviation, in pixels.
    pub sigma: (f64, f64),
    /// The probability, 0 to 1.
    pub probability: f64,
}

impl ImageSpec for GaussianBlur {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "gaussian_blur", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let (op, size) = (self.name(), self.kernel_size);
        if size.is_multiple_of(2) || size > KERNEL_MAX {
            return Err(range(op, "kernel_size", size, &format!("an odd number within 1 to {KERNEL_MAX}")));
        }
        between(op, "sigma", self.sigma, (1e-9, 1e9))?;
        coin(op, self.probability)?;
        changed(op, field)
    }

    fn arguments(&self) -> String {
        let Self { column, kernel_size, sigma, probability } = self;
        format!("{column}, {kernel_size}, sigma={sigma:?}, p={probability}")
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        0.5 * self.kernel_size as f64 * self.probability * from
    }

    fn effect(&self) -> Effect {
        Effect::Blurs
    }
}
