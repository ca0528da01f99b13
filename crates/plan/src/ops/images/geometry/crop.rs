//! Keeps a part of an image: `crop`.

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::checks::range;
use crate::ops::images::checks::{SIDE_MAX, image, resized, sides};
use crate::ops::images::spec::{AboutImage, ImageSpec};

/// The corner of an image from which a place is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Corner {
    /// The upper left one.
    #[default]
    TopLeft,
    /// The upper right one.
    TopRight,
    /// The lower left one.
    BottomLeft,
    /// The lower right one.
    BottomRight,
}

impl Corner {
    fn is_top_left(&self) -> bool {
        *self == Self::TopLeft
    }

    /// Returns the name of its place, as a user writes it.
    fn name(self) -> &'static str {
        match self {
            Self::TopLeft => "top_left",
            Self::TopRight => "top_right",
            Self::BottomLeft => "bottom_left",
            Self::BottomRight => "bottom_right",
        }
    }
}

/// Keeps a part of an image, at the same place in each; a smaller image is an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crop {
    /// The column.
    pub column: String,
    /// Rows above it; of a lower corner, below it.
    pub top: usize,
    /// Columns left of it; of a right corner, right of it.
    pub left: usize,
    /// Pixels.
    pub height: usize,
    /// Pixels.
    pub width: usize,
    /// The corner from which the place is counted.
    #[serde(default, skip_serializing_if = "Corner::is_top_left")]
    pub corner: Corner,
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
        let Self { column, top, left, height, width, corner } = self;
        let corner = if corner.is_top_left() { String::new() } else { format!(", corner={}", corner.name()) };
        format!("{column}, top={top}, left={left}, size=({height}, {width}){corner}")
    }

    fn ns(&self, _from: f64, to: f64) -> f64 {
        0.2 * to
    }

    fn sides(&self, _before: (f64, f64)) -> (f64, f64) {
        (self.height as f64, self.width as f64)
    }
}
