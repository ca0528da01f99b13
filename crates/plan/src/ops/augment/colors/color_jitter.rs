//! Random changes of colours: `color_jitter`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::checks::{between, coin};
use crate::ops::images::checks::changed;
use crate::ops::images::{AboutImage, Effect, ImageSpec};

/// Brightness, contrast, saturation and hue changed in random order (torchvision's rule).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColorJitter {
    /// The column.
    pub column: String,
    /// Least and greatest factor; `None` does not change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brightness: Option<(f64, f64)>,
    /// Least and greatest factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contrast: Option<(f64, f64)>,
    /// Least and greatest factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturation: Option<(f64, f64)>,
    /// Least and greatest part of a circle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hue: Option<(f64, f64)>,
    /// The probability, 0 to 1.
    pub probability: f64,
}

impl ImageSpec for ColorJitter {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "color_jitter", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let op = self.name();
        let factors = [("brightness", self.brightness), ("contrast", self.contrast), ("saturation", self.saturation)];
        for (name, interval) in factors {
            between(op, name, interval.unwrap_or((1.0, 1.0)), (0.0, 1e9))?;
        }
        between(op, "hue", self.hue.unwrap_or((0.0, 0.0)), (-0.5, 0.5))?;
        coin(op, self.probability)?;
        changed(op, field)
    }

    fn arguments(&self) -> String {
        let Self { column, brightness, contrast, saturation, hue, probability } = self;
        let named = [("brightness", brightness), ("contrast", contrast), ("saturation", saturation), ("hue", hue)];
        let given = named.iter().filter_map(|(name, given)| given.map(|given| format!(", {name}={given:?}")));
        format!("{column}{}, p={probability}", given.collect::<String>())
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        let parts = [(self.brightness, 1.0), (self.contrast, 1.5), (self.saturation, 1.0), (self.hue, 4.0)];
        let used: f64 = parts.iter().filter(|(part, _)| part.is_some()).map(|(_, ns)| ns).sum();
        used * self.probability * from
    }

    /// Contrast depends on the mean grey of the whole image.
    fn effect(&self) -> Effect {
        Effect::Recolours { by_pixel: self.contrast.is_none(), keeps_means: true }
    }

    fn may_fail(&self) -> bool {
        false
    }
}
