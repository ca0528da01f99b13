//! Declares the boxes, masks and points of an image, and checks them: `annotate`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};
use serde::{Deserialize, Serialize};

use super::annotations::Annotations;
use super::checks::image;
use super::spec::{AboutImage, ImageSpec};

/// Declares the columns that follow an image from here on, and checks their rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Annotate {
    /// The image.
    pub column: String,
    /// The columns that follow it.
    pub with: Annotations,
    /// Whether boxes that reach over the border are clipped, instead of an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clip: bool,
}

impl ImageSpec for Annotate {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "annotate", column: &self.column, is_random: false }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        self.with.check(self.name(), &self.column)?;
        let (dtype, shape) = image(self.name(), field)?;
        if dtype != DType::Uint8 || !matches!(shape[2], Some(1 | 3)) {
            return Err(Error::invalid(format!("annotate: column {:?} is {}", self.column, field.kind))
                .hint("it takes an image of uint8[height, width, 1 or 3]; put it before normalize"));
        }
        Ok(field.kind.clone())
    }

    fn arguments(&self) -> String {
        format!("{}{}", self.column, self.with.text())
    }

    fn ns(&self, _from: f64, _to: f64) -> f64 {
        200.0
    }

    fn moves_pixels(&self) -> bool {
        false
    }

    fn annotations(&self) -> Option<&Annotations> {
        Some(&self.with)
    }

    fn annotations_mut(&mut self) -> Option<&mut Annotations> {
        Some(&mut self.with)
    }
}
