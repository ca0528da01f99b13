//! Where each pixel of a changed mask comes from. A mask keeps its values, so every change is a choice of pixels: several
//! changes are one choice, which is made once, for masks of any dtype.

use forebay_plan::Direction;

use crate::image::{Change, nearest};

/// Stands for a pixel outside the image.
const OUTSIDE: u32 = u32::MAX;

/// The place of each pixel in a mask.
#[derive(Debug)]
pub(super) struct PixelMap {
    places: Places,
    /// The columns of the mask as it was.
    width: usize,
}

#[derive(Debug)]
enum Places {
    /// The column of each column, and the row of each row.
    Axes { columns: Vec<u32>, rows: Vec<u32> },
    /// The place of each pixel, row by row.
    Pixels { columns: usize, places: Vec<u32> },
}

impl PixelMap {
    /// Every pixel comes from its own place.
    pub(super) fn whole((width, height): (usize, usize)) -> Self {
        let places = Places::Axes { columns: (0..width as u32).collect(), rows: (0..height as u32).collect() };
        Self { places, width }
    }

    /// Adds a change of an image of `from` columns and rows.
    pub(super) fn follow(&mut self, change: Change<'_>, from: (usize, usize)) {
        let (columns, rows) = (0..from.0 as u32, 0..from.1 as u32);
        match change {
            Change::Keep | Change::Check { .. } => {}
            Change::Crop(to) | Change::CropCentres(to) => {
                let part = |at: usize, len: usize| (at as u32..(at + len) as u32).collect();
                self.choose(part(to.x, to.width), part(to.y, to.height));
            }
            Change::Mirror(Direction::Horizontal) => self.choose(columns.rev().collect(), rows.collect()),
            Change::Mirror(Direction::Vertical) => self.choose(columns.collect(), rows.rev().collect()),
            Change::Resize(width, height) => self.choose(nearest(from.0, width), nearest(from.1, height)),
            Change::Place { size, .. } if size == from => {}
            Change::Place { left, top, size } => {
                let placed = |before: usize, len: usize, of: usize| {
                    let place = |at: usize| at.checked_sub(before).filter(|at| *at < len);
                    (0..of).map(|at| place(at).map_or(OUTSIDE, |at| at as u32)).collect()
                };
                self.choose(placed(left, from.0, size.0), placed(top, from.1, size.1));
            }
            Change::Warp(warp) => {
                let mut places = Vec::with_capacity(from.0 * from.1);
                warp.nearest(from, |at| places.push(at.map_or(OUTSIDE, |(x, y)| self.place(x, y))));
                self.places = Places::Pixels { columns: from.0, places };
            }
        }
    }

    /// Returns the place of a pixel in the mask as it was.
    fn place(&self, x: usize, y: usize) -> u32 {
        match &self.places {
            Places::Axes { columns, rows } if columns[x] != OUTSIDE && rows[y] != OUTSIDE => {
                rows[y] * self.width as u32 + columns[x]
            }
            Places::Axes { .. } => OUTSIDE,
            Places::Pixels { columns, places } => places[y * columns + x],
        }
    }

    /// Makes an image of chosen columns and rows.
    fn choose(&mut self, columns: Vec<u32>, rows: Vec<u32>) {
        let of = |all: &[u32], chosen: &[u32]| -> Vec<u32> {
            chosen.iter().map(|&at| if at == OUTSIDE { OUTSIDE } else { all[at as usize] }).collect()
        };
        self.places = match &self.places {
            Places::Axes { columns: c, rows: r } => Places::Axes { columns: of(c, &columns), rows: of(r, &rows) },
            Places::Pixels { .. } => {
                let outside = |x: u32, y: u32| x == OUTSIDE || y == OUTSIDE;
                let at = |x: u32, y: u32| if outside(x, y) { OUTSIDE } else { self.place(x as usize, y as usize) };
                let places = rows.iter().flat_map(|&y| columns.iter().map(move |&x| at(x, y))).collect();
                Places::Pixels { columns: columns.len(), places }
            }
        };
    }

    /// Appends the changed mask to `out`: pixels of as many bytes as `fill`, which stands outside the image.
    pub(super) fn gather(&self, mask: &[u8], fill: &[u8], out: &mut Vec<u8>) {
        let len = fill.len();
        let pixel = |place: u32| if place == OUTSIDE { fill } else { &mask[place as usize * len..][..len] };
        match &self.places {
            Places::Axes { columns, rows } => {
                for &y in rows {
                    let start = y.wrapping_mul(self.width as u32);
                    let place = |x: u32| if x == OUTSIDE || y == OUTSIDE { OUTSIDE } else { start + x };
                    columns.iter().for_each(|&x| out.extend_from_slice(pixel(place(x))));
                }
            }
            Places::Pixels { places, .. } => places.iter().for_each(|&place| out.extend_from_slice(pixel(place))),
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_plan::Interpolation;

    use super::*;
    use crate::image::{Region, Warp};

    fn gathered(changes: &[Change<'_>]) -> Vec<u8> {
        let (mut map, mut size) = (PixelMap::whole((4, 3)), (4, 3));
        for &change in changes {
            map.follow(change, size);
            size = crate::annotations::motion::Motion::of(change, size).size;
        }
        let mut out = Vec::new();
        map.gather(&(0..12).collect::<Vec<u8>>(), &[99], &mut out);
        assert_eq!(out.len(), size.0 * size.1);
        out
    }

    #[test]
    fn changes_are_composed() {
        let crop = Change::Crop(Region { x: 1, y: 0, width: 2, height: 3 });
        let (across, down) = (Change::Mirror(Direction::Horizontal), Change::Mirror(Direction::Vertical));
        assert_eq!(gathered(&[crop]), [1, 2, 5, 6, 9, 10]);
        assert_eq!(gathered(&[crop, across]), [2, 1, 6, 5, 10, 9]);
        assert_eq!(gathered(&[crop, down, Change::Resize(4, 1)]), [5, 5, 6, 6]);
        let place = Change::Place { left: 1, top: 0, size: (4, 3) };
        assert_eq!(gathered(&[crop, place]), [99, 1, 2, 99, 99, 5, 6, 99, 99, 9, 10, 99]);
        let half = Warp::rotation(180.0, Interpolation::Nearest, None);
        assert_eq!(gathered(&[Change::Warp(&half)]), (0..12).rev().collect::<Vec<u8>>());
        assert_eq!(gathered(&[place_all(), Change::Warp(&half), across]).len(), 30);
        assert_eq!(gathered(&[crop, Change::Warp(&half), place, across])[..4], [99, 9, 10, 99]);
    }

    fn place_all() -> Change<'static> {
        Change::Place { left: 1, top: 1, size: (6, 5) }
    }
}
