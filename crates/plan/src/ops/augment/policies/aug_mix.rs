//! Blends an image with copies of itself that were changed differently: `aug_mix`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::augment::filled::{self, Interpolation};
use crate::ops::checks::{count, range};
use crate::ops::images::{AboutImage, ImageSpec};

/// The greatest severity.
const SEVERITY_MAX: usize = 10;
/// The most copies, and the most operations on one.
const WIDTH_MAX: usize = 16;

/// Blends an image with copies of itself that were changed differently (torchvision's AugMix).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AugMix {
    /// The column.
    pub column: String,
    /// The strength, 1 to 10.
    pub severity: usize,
    /// The number of copies.
    pub mixture_width: usize,
    /// The operations on each copy; `None` draws 1 to 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_depth: Option<usize>,
    /// How alike the shares of a blend are: large numbers make them equal.
    pub alpha: f64,
    /// Whether brightness, contrast, colour and sharpness are among the operations.
    pub all_ops: bool,
    /// The interpolation between pixels.
    pub interpolation: Interpolation,
    /// The pixel outside, one level or one for each channel; zeros without it.
    pub fill: Option<Vec<u8>>,
}

impl ImageSpec for AugMix {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "aug_mix", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let op = self.name();
        count(op, "severity", self.severity, SEVERITY_MAX)?;
        count(op, "mixture_width", self.mixture_width, WIDTH_MAX)?;
        count(op, "chain_depth", self.chain_depth.unwrap_or(1), WIDTH_MAX)?;
        if !(1e-3..=1e6).contains(&self.alpha) {
            return Err(range(op, "alpha", self.alpha, "0.001 to 1000000"));
        }
        filled::kind(op, field, self.fill.as_deref())
    }

    fn arguments(&self) -> String {
        let Self { column, severity, mixture_width, chain_depth, alpha, all_ops, interpolation, fill } = self;
        let depth = chain_depth.map_or(String::new(), |depth| format!(", chain_depth={depth}"));
        let few = if *all_ops { "" } else { ", all_ops=False" };
        let how = filled::arguments(*interpolation, fill.as_deref());
        format!("{column}, severity={severity}, mixture_width={mixture_width}{depth}, alpha={alpha}{few}{how}")
    }

    /// A blend of copies that were moved differently has no places of its own.
    fn has_places(&self) -> bool {
        false
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        let depth = self.chain_depth.unwrap_or(2) as f64;
        (2.0 + self.mixture_width as f64 * (2.0 + 3.0 * depth)) * from
    }
}
