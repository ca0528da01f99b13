//! Keeps a part of an image: `crop`.

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use super::checks::{SIDE_MAX, image, resized, sides};
use super::spec::{AboutImage, ImageSpec};
use crate::ops::checks::range;

/// Keeps a part of an image, at the same place in each; a smaller image is an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crop {
    /// The column.
    pub column: String,
    /// Rows above it.
    pub top: usize,
    /// Columns left of it.
    pub left: usize,
    /// Pixels.
    pub height: usize,
    /// Pixels.
    pub width: usize,
}

impl ImageSpec for Crop {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "crop", column: &self.column, is_random: false }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let op = self.name();
        sides(op, self.height, self.width)?;
        for (name, value) in [("top", self.top), ("left", self.left)] {
            if value > SIDE_MAX {
                return Err(range(op, name, value, &format!("0 to {SIDE_MAX}")));
            }
        }
        let (_, shape) = image(op, field)?;
        let fits = |side: Option<usize>, from: usize, len: usize| side.is_none_or(|side| from + len <= side);
        if !fits(shape[0], self.top, self.height) || !fits(shape[1], self.left, self.width) {
            return Err(Error::invalid(format!(
                "crop: column {:?} is {}, and the part is outside",
                self.column, field.kind
            ))
            .hint("give top, left and size within the image, or pad it before"));
        }
        resized(op, field, Some(self.height), Some(self.width))
    }

    fn arguments(&self) -> String {
        let Self { column, top, left, height, width } = self;
        format!("{column}, top={top}, left={left}, size=({height}, {width})")
    }

    fn ns(&self, _from: f64, to: f64) -> f64 {
        0.2 * to
    }

    fn sides(&self, _before: (f64, f64)) -> (f64, f64) {
        (self.height as f64, self.width as f64)
    }
}
