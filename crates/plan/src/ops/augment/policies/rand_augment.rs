//! Random operations of torchvision's RandAugment: `rand_augment`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::augment::filled::{self, Interpolation};
use crate::ops::checks::range;
use crate::ops::images::{AboutImage, ImageSpec};

/// The most operations.
const OPS_MAX: usize = 100;

/// Random operations of torchvision's RandAugment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandAugment {
    /// The column.
    pub column: String,
    /// The number of operations.
    pub num_ops: usize,
    /// Their strength.
    pub magnitude: usize,
    /// The number of magnitudes.
    pub num_magnitude_bins: usize,
    /// The interpolation between pixels.
    pub interpolation: Interpolation,
    /// The pixel outside, one level or one for each channel; zeros without it.
    pub fill: Option<Vec<u8>>,
}

impl ImageSpec for RandAugment {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "rand_augment", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let (op, magnitude, bins) = (self.name(), self.magnitude, self.num_magnitude_bins);
        if self.num_ops > OPS_MAX {
            return Err(range(op, "num_ops", self.num_ops, &format!("0 to {OPS_MAX}")));
        }
        if bins < 2 {
            return Err(range(op, "num_magnitude_bins", bins, "2 or more"));
        }
        if magnitude >= bins {
            return Err(range(op, "magnitude", magnitude, &format!("0..{bins}, less than num_magnitude_bins")));
        }
        filled::kind(op, field, self.fill.as_deref())
    }

    fn arguments(&self) -> String {
        let Self { column, num_ops, magnitude, num_magnitude_bins: bins, interpolation, fill } = self;
        let bins = if *bins == 31 { String::new() } else { format!(" of {bins}") };
        let how = filled::arguments(*interpolation, fill.as_deref());
        format!("{column}, num_ops={num_ops}, magnitude={magnitude}{bins}{how}")
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        3.0 * self.num_ops as f64 * from
    }
}
