//! A change of an image's geometry as a map of places: pixels are counted from the upper left corner, and pixel 0 covers
//! the places from 0 to 1.

use forebay_plan::Direction;

use crate::image::Change;

/// A map from places in an image to places in the changed image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Motion {
    /// A matrix of homogeneous places. `None`: every place vanishes.
    map: Option<[[f64; 3]; 3]>,
    /// Columns and rows of the changed image.
    pub(super) size: (usize, usize),
}

impl Motion {
    /// Returns the map of a change of an image of `from` columns and rows.
    pub(super) fn of(change: Change<'_>, from: (usize, usize)) -> Self {
        let (width, height) = (from.0 as f64, from.1 as f64);
        let (map, size) = match change {
            Change::Keep | Change::Check { .. } => ([1.0, 0.0, 0.0, 0.0, 1.0, 0.0], from),
            Change::Crop(to) | Change::CropCentres(to) => {
                ([1.0, 0.0, -(to.x as f64), 0.0, 1.0, -(to.y as f64)], (to.width, to.height))
            }
            Change::Mirror(Direction::Horizontal) => ([-1.0, 0.0, width, 0.0, 1.0, 0.0], from),
            Change::Mirror(Direction::Vertical) => ([1.0, 0.0, 0.0, 0.0, -1.0, height], from),
            Change::Resize(w, h) => ([w as f64 / width, 0.0, 0.0, 0.0, h as f64 / height, 0.0], (w, h)),
            Change::Place { left, top, size } => ([1.0, 0.0, left as f64, 0.0, 1.0, top as f64], size),
            Change::Warp(warp) => {
                let (cx, cy) = (width * 0.5, height * 0.5);
                // From the corner to the centre, the map, and back.
                let about = |of: [[f64; 3]; 3]| {
                    let [gx, gy, g1] = of[2];
                    let bottom = [gx, gy, g1 - gx * cx - gy * cy];
                    let moved = |[x, y, one]: [f64; 3], by: f64| {
                        let (x, y) = (x + by * gx, y + by * gy);
                        [x, y, one + by * g1 - x * cx - y * cy]
                    };
                    [moved(of[0], cx), moved(of[1], cy), bottom]
                };
                return Self { map: warp.forward().map(about), size: from };
            }
        };
        let [xx, xy, x1, yx, yy, y1] = map;
        Self { map: Some([[xx, xy, x1], [yx, yy, y1], [0.0, 0.0, 1.0]]), size }
    }

    /// Returns the new place of a place; `None` if it has none.
    pub(super) fn place(&self, [x, y]: [f64; 2]) -> Option<[f64; 2]> {
        let [x, y, by] = self.map?.map(|[of_x, of_y, one]| of_x * x + of_y * y + one);
        // A perspective has no places at its horizon and behind it.
        (by > 1e-9).then_some([x / by, y / by])
    }

    /// Returns the smallest upright box around a box of left, top, right, bottom.
    pub(super) fn bounds(&self, [left, top, right, bottom]: [f64; 4]) -> Option<[f64; 4]> {
        let mut bounds = [f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY];
        for corner in [[left, top], [right, top], [left, bottom], [right, bottom]] {
            let [x, y] = self.place(corner)?;
            bounds = [bounds[0].min(x), bounds[1].min(y), bounds[2].max(x), bounds[3].max(y)];
        }
        Some(bounds)
    }
}
