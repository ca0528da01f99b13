//! Keeps a part of an image at a random place: `random_crop`.

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use super::pad::Border;
use crate::ops::images::checks::{image, resized, sides};
use crate::ops::images::spec::{AboutImage, ImageSpec};

/// Keeps a part of an image at a random place (torchvision's rule); an image that is too small is an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomCrop {
    /// The column.
    pub column: String,
    /// Pixels.
    pub height: usize,
    /// Pixels.
    pub width: usize,
    /// Pixels that are added to each side before.
    #[serde(default, skip_serializing_if = "Border::is_none")]
    pub border: Border,
    /// Their colour: one level, or one for each channel.
    pub fill: Vec<u8>,
}

impl ImageSpec for RandomCrop {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "random_crop", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let op = self.name();
        sides(op, self.height, self.width)?;
        let (_, shape) = image(op, field)?;
        self.border.check(op, &self.fill, field)?;
        let (rows, columns) = self.border.around(0, 0);
        let fits = |side: Option<usize>, more: usize, len: usize| side.is_none_or(|side| len <= side + more);
        if !fits(shape[0], rows, self.height) || !fits(shape[1], columns, self.width) {
            return Err(Error::invalid(format!("random_crop: column {:?} is {}, too small", self.column, field.kind))
                .hint("give a smaller size, or padding="));
        }
        resized(op, field, Some(self.height), Some(self.width))
    }

    fn arguments(&self) -> String {
        let Self { column, height, width, border, fill } = self;
        let padding = if border.is_none() { String::new() } else { format!(", {}, fill={fill:?}", border.text()) };
        format!("{column}, ({height}, {width}){padding}")
    }

    fn ns(&self, from: f64, to: f64) -> f64 {
        if self.border.is_none() { 0.2 * to } else { 0.2 * (from + to) }
    }

    fn sides(&self, _before: (f64, f64)) -> (f64, f64) {
        (self.height as f64, self.width as f64)
    }
}
