//! One random operation of torchvision's TrivialAugment: `trivial_augment`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::augment::filled::{self, Interpolation};
use crate::ops::checks::range;
use crate::ops::images::{AboutImage, ImageSpec};

/// One random operation of torchvision's TrivialAugment, of any strength.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrivialAugment {
    /// The column.
    pub column: String,
    /// The number of magnitudes.
    pub num_magnitude_bins: usize,
    /// The interpolation between pixels.
    pub interpolation: Interpolation,
    /// The pixel outside, one level or one for each channel; zeros without it.
    pub fill: Option<Vec<u8>>,
}

impl ImageSpec for TrivialAugment {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "trivial_augment", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        if !(2..=1_000_000).contains(&self.num_magnitude_bins) {
            return Err(range(self.name(), "num_magnitude_bins", self.num_magnitude_bins, "2 to 1000000"));
        }
        filled::kind(self.name(), field, self.fill.as_deref())
    }

    fn arguments(&self) -> String {
        let Self { column, num_magnitude_bins: bins, interpolation, fill } = self;
        let bins = if *bins == 31 { String::new() } else { format!(", num_magnitude_bins={bins}") };
        format!("{column}{bins}{}", filled::arguments(*interpolation, fill.as_deref()))
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        3.0 * from
    }
}
