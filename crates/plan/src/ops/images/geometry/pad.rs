//! Puts a border around an image: `pad`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::checks::range;
use crate::ops::images::checks::{SIDE_MAX, fill as check_fill, image, resized};
use crate::ops::images::spec::{AboutImage, ImageSpec};

/// Pixels that are added to each side of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Border {
    /// Columns left of it.
    pub left: usize,
    /// Rows above it.
    pub top: usize,
    /// Columns right of it.
    pub right: usize,
    /// Rows below it.
    pub bottom: usize,
}

/// Puts a border of one colour around an image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pad {
    /// The column.
    pub column: String,
    /// Its sides.
    pub border: Border,
    /// Its colour: one level, or one for each channel.
    pub fill: Vec<u8>,
}

impl Border {
    /// Returns whether there is none.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns rows and columns of an image with it.
    pub fn around(&self, height: usize, width: usize) -> (usize, usize) {
        (height + self.top + self.bottom, width + self.left + self.right)
    }

    /// Checks its sides and its colour.
    pub(in crate::ops::images) fn check(&self, op: &str, fill: &[u8], field: &Field) -> Result<()> {
        let Self { left, top, right, bottom } = *self;
        if let Some(bad) = [left, top, right, bottom].into_iter().find(|side| *side > SIDE_MAX) {
            return Err(range(op, "padding", bad, &format!("0 to {SIDE_MAX} for each side")));
        }
        check_fill(op, fill, &field.kind)
    }

    /// Returns it as the user would write it.
    pub(in crate::ops::images) fn text(&self) -> String {
        let Self { left, top, right, bottom } = self;
        format!("padding=({left}, {top}, {right}, {bottom})")
    }
}

impl ImageSpec for Pad {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "pad", column: &self.column, is_random: false }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let (_, shape) = image(self.name(), field)?;
        self.border.check(self.name(), &self.fill, field)?;
        let height = shape[0].map(|height| self.border.around(height, 0).0);
        let width = shape[1].map(|width| self.border.around(0, width).1);
        resized(self.name(), field, height, width)
    }

    fn arguments(&self) -> String {
        format!("{}, {}, fill={:?}", self.column, self.border.text(), self.fill)
    }

    fn ns(&self, _from: f64, to: f64) -> f64 {
        0.2 * to
    }

    fn sides(&self, (height, width): (f64, f64)) -> (f64, f64) {
        let (rows, columns) = self.border.around(0, 0);
        (height + rows as f64, width + columns as f64)
    }
}
