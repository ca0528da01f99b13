//! Keeps a part with enough of a box in it, at random: `random_iou_crop`, the crop of SSD.

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::checks::{between, count, range};
use crate::ops::images::annotations::Annotations;
use crate::ops::images::checks::resized;
use crate::ops::images::spec::{AboutImage, ImageSpec};

/// The most tries for one overlap.
const TRIALS_MAX: usize = 1000;
/// The most overlaps.
const OVERLAPS_MAX: usize = 100;

/// Keeps a part whose overlap with a box is at least a drawn one (torchvision's rule).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomIouCrop {
    /// The column.
    pub column: String,
    /// Least and greatest share of each side.
    pub scale: (f64, f64),
    /// Least and greatest width / height.
    pub ratio: (f64, f64),
    /// Overlaps (intersection over union), one of which is drawn; 1 or more leaves the image as it is.
    pub overlaps: Vec<f64>,
    /// Tries for one overlap.
    pub trials: usize,
    /// The columns that follow the image, which a pipeline adds behind `annotate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<Annotations>,
}

impl ImageSpec for RandomIouCrop {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "random_iou_crop", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let op = self.name();
        if self.with.as_ref().is_none_or(|with| with.boxes.is_none()) {
            return Err(Error::invalid(format!("{op}: column {:?} has no boxes", self.column))
                .hint(format!("put .annotate({:?}, boxes=...) before it", self.column)));
        }
        between(op, "scale", self.scale, (1e-3, 1.0))?;
        between(op, "ratio", self.ratio, (1e-3, 1e3))?;
        count(op, "trials", self.trials, TRIALS_MAX)?;
        count(op, "overlaps", self.overlaps.len(), OVERLAPS_MAX)?;
        if let Some(bad) = self.overlaps.iter().find(|v| !(v.is_finite() && **v >= 0.0)) {
            return Err(range(op, "overlaps", bad, "0 or more"));
        }
        resized(op, field, None, None)
    }

    fn draws_size(&self) -> bool {
        true
    }

    fn arguments(&self) -> String {
        let Self { column, scale, ratio, overlaps, with, .. } = self;
        let with = with.as_ref().map_or(String::new(), Annotations::text);
        format!("{column}, scale={scale:?}, ratio={ratio:?}, overlaps={overlaps:?}{with}")
    }

    fn ns(&self, _from: f64, to: f64) -> f64 {
        0.2 * to
    }

    fn annotations(&self) -> Option<&Annotations> {
        self.with.as_ref()
    }

    fn annotations_mut(&mut self) -> Option<&mut Annotations> {
        self.with.as_mut()
    }

    fn reads_boxes(&self) -> bool {
        true
    }
}
