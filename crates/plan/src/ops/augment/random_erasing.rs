//! Overwrites a rectangle, at random: `random_erasing`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::checks::{between, coin, range};
use crate::ops::images::checks::{changed, image, per_channel};
use crate::ops::images::{AboutImage, ImageSpec, Layout, image_layout};

/// Overwrites a rectangle, at random; before or after `Normalize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomErasing {
    /// The column.
    pub column: String,
    /// The probability, 0 to 1.
    pub probability: f64,
    /// Least and greatest share of the area.
    pub scale: (f64, f64),
    /// Least and greatest height / width.
    pub ratio: (f64, f64),
    /// One number or one for each channel; without it, normal draws.
    pub value: Option<Vec<f64>>,
}

impl ImageSpec for RandomErasing {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "random_erasing", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let op = self.name();
        coin(op, self.probability)?;
        between(op, "scale", self.scale, (0.0, 1.0))?;
        between(op, "ratio", self.ratio, (1e-9, 1e9))?;
        let (dtype, _) = image(op, field)?;
        let axis = match (dtype, image_layout(&field.kind)) {
            (DType::Uint8, _) => changed(op, field).map(|_| 2)?,
            (DType::Float32, Some(Layout::Hwc)) => 2,
            (DType::Float32, Some(Layout::Chw)) => 0,
            _ => {
                return Err(Error::invalid(format!("random_erasing: column {:?} is {}", field.name, field.kind))
                    .hint("it takes uint8 pixels, or float32 as normalize makes it, of 1 or 3 channels"));
            }
        };
        self.check_value(dtype)?;
        per_channel(op, "value", self.value.as_ref().map_or(1, Vec::len), &field.kind, axis)?;
        Ok(field.kind.clone())
    }

    fn arguments(&self) -> String {
        let Self { column, probability, scale, ratio, value } = self;
        let value = value.as_ref().map_or("random".to_owned(), |value| format!("{value:?}"));
        format!("{column}, p={probability}, scale={scale:?}, ratio={ratio:?}, value={value}")
    }

    fn moves_pixels(&self) -> bool {
        false
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        0.2 * self.probability * from
    }
}

impl RandomErasing {
    fn check_value(&self, dtype: DType) -> Result<()> {
        if let (None, DType::Uint8) = (&self.value, dtype) {
            return Err(Error::invalid("random_erasing: value=\"random\" makes float32 pixels")
                .hint("put it after normalize, or give levels"));
        }
        let most = if dtype == DType::Uint8 { 255.0 } else { 1e30 };
        let whole = |v: f64| dtype != DType::Uint8 || v == v.trunc();
        let least = if dtype == DType::Uint8 { 0.0 } else { -most };
        match self.value.iter().flatten().find(|v| !((least..=most).contains(*v) && whole(**v))) {
            Some(bad) => {
                let want = if dtype == DType::Uint8 { "whole levels within 0..=255" } else { "finite numbers" };
                Err(range(self.name(), "value", bad, want))
            }
            None => Ok(()),
        }
    }
}
