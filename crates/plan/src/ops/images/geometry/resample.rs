//! How the pixels of a resized image are computed.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};
use serde::{Deserialize, Serialize};

/// How the pixels of a resized image are computed: Pillow's filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resample {
    /// The nearest pixel.
    Nearest,
    /// The mean of all pixels that a new one covers.
    Box,
    /// Weights that fall with the distance.
    #[default]
    Bilinear,
    /// A cubic of the distance, with a = -0.5.
    Bicubic,
    /// Lanczos, over three pixels to each side.
    Lanczos,
}

impl Resample {
    pub(super) fn is_bilinear(&self) -> bool {
        *self == Self::Bilinear
    }

    /// Checks that the filter works without `antialias`, if that is off.
    pub(in crate::ops::images) fn check(self, op: &str, antialias: bool, field: &Field) -> Result<()> {
        if antialias || self == Self::Nearest {
            return Ok(());
        }
        if self == Self::Bilinear {
            let is_plain = |shape: &[Option<usize>]| shape.last().is_none_or(|last| !matches!(last, Some(2 | 4)));
            return match &field.kind {
                Kind::Tensor { dtype: DType::Uint8, shape } if is_plain(shape) => Ok(()),
                Kind::Tensor { dtype: DType::Uint8 | DType::Uint16, .. } => {
                    Err(Error::invalid(format!("{op}: antialias=False of column {:?}, {}", field.name, field.kind))
                        .hint(
                            "leave antialias out: without averaging only images of 8 bits without opacity are resized",
                        ))
                }
                _ => Ok(()),
            };
        }
        Err(Error::invalid(format!("{op}: antialias=False with interpolation={:?}", self.name()))
            .hint("without averaging there are \"bilinear\" and \"nearest\""))
    }

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Returns the arguments behind the size, as the user would write them.
    pub(in crate::ops::images) fn arguments(self, antialias: bool) -> String {
        let how = if self.is_bilinear() { String::new() } else { format!(", {}", self.name()) };
        let sampled = if antialias || self == Self::Nearest { "" } else { ", antialias=False" };
        format!("{how}{sampled}")
    }
}
