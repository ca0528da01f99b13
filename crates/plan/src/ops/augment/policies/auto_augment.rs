//! A learned policy of two random operations: `auto_augment`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::augment::filled::{self, Interpolation};
use crate::ops::images::{AboutImage, ImageSpec};

/// The data set on which a policy was learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AutoPolicy {
    /// ImageNet.
    Imagenet,
    /// CIFAR-10.
    Cifar10,
    /// Street View House Numbers.
    Svhn,
}

/// Two operations of a learned policy, each with its own probability (torchvision's AutoAugment).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoAugment {
    /// The column.
    pub column: String,
    /// The policy.
    pub policy: AutoPolicy,
    /// The interpolation between pixels.
    pub interpolation: Interpolation,
    /// The pixel outside, one level or one for each channel; zeros without it.
    pub fill: Option<Vec<u8>>,
}

impl ImageSpec for AutoAugment {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "auto_augment", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        filled::kind(self.name(), field, self.fill.as_deref())
    }

    fn arguments(&self) -> String {
        let policy = format!("{:?}", self.policy).to_lowercase();
        let how = filled::arguments(self.interpolation, self.fill.as_deref());
        format!("{}, policy={policy}{how}", self.column)
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        4.0 * from
    }
}
