//! The boxes of a row: their formats, their checks, and which are dropped.

use forebay_core::{Error, Result};
use forebay_plan::{Annotations, BoxFormat};

use super::motion::Motion;
use super::rows::Numbers;
use crate::image::{Region, has_centre};

/// How far a box may reach over the border without an error, in pixels: coordinates of data sets are rounded.
const OVER_MAX: f64 = 1.0;
/// Pixels of a side below which a box is dropped: rounding leaves less than this of a box that an edge touches.
const SIDE_MIN: f64 = 1e-3;

/// The boxes of a row.
#[derive(Debug)]
pub(super) struct Boxes {
    /// Four numbers for each box, in the column's format.
    numbers: Numbers,
    format: BoxFormat,
    relative: bool,
    min_area: f64,
    min_visibility: f64,
}

impl Boxes {
    pub(super) fn new(numbers: Numbers, rules: &Annotations) -> Self {
        let Annotations { format, relative, min_area, min_visibility, .. } = *rules;
        Self { numbers, format, relative, min_area, min_visibility }
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.values.len() / 4
    }

    pub(super) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Returns left, top, right, bottom of each box in pixels.
    pub(super) fn corners(&self, size: (usize, usize)) -> impl Iterator<Item = [f64; 4]> {
        let (format, scale) = (self.format, self.scale(size));
        self.numbers.values.as_chunks::<4>().0.iter().map(move |&[a, b, c, d]| {
            let (a, b, c, d) = (a * scale.0, b * scale.1, c * scale.0, d * scale.1);
            match format {
                BoxFormat::Xyxy => [a, b, c, d],
                BoxFormat::Xywh => [a, b, a + c, b + d],
                BoxFormat::Cxcywh => [a - c * 0.5, b - d * 0.5, a + c * 0.5, b + d * 0.5],
            }
        })
    }

    fn scale(&self, (width, height): (usize, usize)) -> (f64, f64) {
        if self.relative { (width as f64, height as f64) } else { (1.0, 1.0) }
    }

    /// Refuses boxes without an area; if `clip` is false, also boxes that reach over the border.
    ///
    /// # Errors
    /// Data, with the first such box.
    pub(super) fn check(&self, name: &str, size: (usize, usize), clip: Option<bool>) -> Result<()> {
        for (at, (corners, given)) in self.corners(size).zip(self.numbers.values.as_chunks::<4>().0).enumerate() {
            let [left, top, right, bottom] = corners;
            let error = |what: &str| Error::data(format!("box {at} of column {name:?} {what}: {given:?}"));
            if !corners.iter().all(|v| v.is_finite()) {
                return Err(error("has a number that is not finite").hint("repair it, or leave the sample out"));
            }
            if right < left || bottom < top {
                let hint = "its format may be another: format=\"xyxy\", \"xywh\" or \"cxcywh\"";
                return Err(error("is inverted: its right or lower edge comes first").hint(hint));
            }
            let (width, height) = (size.0 as f64, size.1 as f64);
            let hint = "clip=True clips boxes and drops empty ones; on_error=\"skip\" leaves the sample out";
            let over = left < -OVER_MAX || top < -OVER_MAX || right > width + OVER_MAX || bottom > height + OVER_MAX;
            let beside = right <= 0.0 || bottom <= 0.0 || left >= width || top >= height;
            if clip == Some(false) && (over || beside) {
                let what = format!("reaches over the image of {} rows and {} columns", size.1, size.0);
                return Err(error(&what).hint(hint));
            }
            if clip == Some(false) && (right == left || bottom == top) {
                return Err(error("is empty").hint(hint));
            }
        }
        Ok(())
    }

    /// Moves and clips the boxes, and returns which are kept, by their place among those before. A box is dropped if
    /// its centre is outside of `centres`.
    pub(super) fn follow(&mut self, motion: &Motion, from: (usize, usize), centres: Option<Region>) -> Vec<u32> {
        let (width, height) = (motion.size.0 as f64, motion.size.1 as f64);
        let (mut kept, mut values) = (Vec::new(), Vec::new());
        for (at, corners) in self.corners(from).enumerate() {
            if centres.is_some_and(|centres| !has_centre(centres, &corners)) {
                continue;
            }
            let Some(moved) = motion.bounds(corners) else { continue };
            let [left, top, right, bottom] = moved;
            let clipped =
                [left.clamp(0.0, width), top.clamp(0.0, height), right.clamp(0.0, width), bottom.clamp(0.0, height)];
            let (whole, visible) = (area(moved), area(clipped));
            let is_seen = clipped[2] - clipped[0] >= SIDE_MIN && clipped[3] - clipped[1] >= SIDE_MIN;
            if is_seen && visible >= self.min_area && visible >= self.min_visibility * whole {
                kept.push(at as u32);
                values.extend(self.written(clipped, motion.size));
            }
        }
        self.numbers = self.numbers.with(values);
        kept
    }

    /// Returns left, top, right, bottom in pixels as numbers of the column's format.
    fn written(&self, [left, top, right, bottom]: [f64; 4], size: (usize, usize)) -> [f64; 4] {
        let (width, height) = self.scale(size);
        let [a, b, c, d] = match self.format {
            BoxFormat::Xyxy => [left, top, right, bottom],
            BoxFormat::Xywh => [left, top, right - left, bottom - top],
            BoxFormat::Cxcywh => [(left + right) * 0.5, (top + bottom) * 0.5, right - left, bottom - top],
        };
        [a / width, b / height, c / width, d / height]
    }
}

fn area([left, top, right, bottom]: [f64; 4]) -> f64 {
    (right - left) * (bottom - top)
}
