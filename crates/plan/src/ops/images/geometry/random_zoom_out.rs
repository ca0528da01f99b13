//! Puts an image on a larger canvas at a random place, at random: `random_zoom_out`, the expansion of SSD.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::checks::{between, coin};
use crate::ops::images::checks::{fill, resized};
use crate::ops::images::spec::{AboutImage, ImageSpec};

/// The longest side of a canvas, in sides of the image.
const SIDE_MAX: f64 = 100.0;

/// Puts an image on a larger canvas at a random place, at random (torchvision's rule).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomZoomOut {
    /// The column.
    pub column: String,
    /// Least and greatest side of the canvas, in sides of the image.
    pub side_range: (f64, f64),
    /// The colour of the canvas: one level, or one for each channel.
    pub fill: Vec<u8>,
    /// The probability, 0 to 1.
    pub probability: f64,
}

impl ImageSpec for RandomZoomOut {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "random_zoom_out", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let op = self.name();
        between(op, "side_range", self.side_range, (1.0, SIDE_MAX))?;
        coin(op, self.probability)?;
        let kind = resized(op, field, None, None)?;
        fill(op, &self.fill, &kind)?;
        Ok(kind)
    }

    fn draws_size(&self) -> bool {
        true
    }

    fn arguments(&self) -> String {
        let Self { column, side_range, fill, probability } = self;
        format!("{column}, side_range={side_range:?}, fill={fill:?}, p={probability}")
    }

    fn ns(&self, _from: f64, to: f64) -> f64 {
        0.3 * to
    }

    fn sides(&self, (height, width): (f64, f64)) -> (f64, f64) {
        let by = 1.0 + self.probability * ((self.side_range.0 + self.side_range.1) / 2.0 - 1.0);
        (height * by, width * by)
    }
}
