//! The draw of `random_iou_crop`: torchvision's rule, with a bound on its tries.

use forebay_core::rng::SampleRng;

use super::view::Region;

/// The most overlaps that are drawn for an image; torchvision goes on until one is met. With its seven overlaps, one
/// image of two thousand that meets none is then left as it is.
const DRAWS_MAX: usize = 50;

/// The arguments of the draw, which the plan has checked.
#[derive(Debug, Clone)]
pub struct IouCrop {
    /// Least and greatest share of each side.
    pub scale: (f64, f64),
    /// Least and greatest width by height.
    pub ratio: (f64, f64),
    /// Overlaps, one of which is drawn; 1 or more leaves the image as it is.
    pub overlaps: Vec<f64>,
    /// Tries for one overlap.
    pub trials: usize,
}

impl IouCrop {
    /// Draws the part of an image that is kept; `None` leaves it as it is. `boxes` are left, top, right, bottom.
    pub(super) fn draw(&self, size: (usize, usize), boxes: &[[f64; 4]], rng: &mut SampleRng) -> Option<Region> {
        for _ in 0..DRAWS_MAX {
            let overlap = self.overlaps[rng.up_to(self.overlaps.len() as u32 - 1) as usize];
            if overlap >= 1.0 {
                return None;
            }
            let found = (0..self.trials).find_map(|_| {
                let part = self.part(size, rng)?;
                let inside = boxes.iter().filter(|given| has_centre(part, given));
                let most = inside.map(|given| overlap_of(part, given)).fold(f64::NEG_INFINITY, f64::max);
                (most >= overlap).then_some(part)
            });
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Draws a part; `None` if it has the wrong shape or no pixels.
    fn part(&self, (width, height): (usize, usize), rng: &mut SampleRng) -> Option<Region> {
        let (low, high) = self.scale;
        let mut side = |len: usize| (len as f64 * rng.uniform(low, high)) as usize;
        let (w, h) = (side(width), side(height));
        let ratio = w as f64 / h as f64;
        if w == 0 || h == 0 || !(self.ratio.0..=self.ratio.1).contains(&ratio) {
            return None;
        }
        let mut first = |spare: usize| (spare as f64 * rng.unit()) as usize;
        let (x, y) = (first(width - w), first(height - h));
        Some(Region { x, y, width: w, height: h })
    }
}

/// Returns left, top, right, bottom of a region.
fn corners(part: Region) -> [f64; 4] {
    [part.x, part.y, part.x + part.width, part.y + part.height].map(|v| v as f64)
}

/// Returns whether the centre of a box lies inside a region, not on its edge.
pub(crate) fn has_centre(part: Region, [left, top, right, bottom]: &[f64; 4]) -> bool {
    let ([l, t, r, b], (x, y)) = (corners(part), ((left + right) * 0.5, (top + bottom) * 0.5));
    l < x && x < r && t < y && y < b
}

/// Returns the intersection of a region and a box over their union.
fn overlap_of(part: Region, given: &[f64; 4]) -> f64 {
    let part = corners(part);
    let area = |[l, t, r, b]: [f64; 4]| (r - l) * (b - t);
    let both = [part[0].max(given[0]), part[1].max(given[1]), part[2].min(given[2]), part[3].min(given[3])];
    let shared = if both[0] < both[2] && both[1] < both[3] { area(both) } else { 0.0 };
    shared / (area(part) + area(*given) - shared)
}

#[cfg(test)]
mod tests {
    use forebay_core::SampleId;

    use super::*;

    #[test]
    fn a_drawn_part_has_a_centre_and_the_overlap() {
        let boxes = [[10.0, 10.0, 40.0, 50.0], [60.0, 5.0, 95.0, 30.0]];
        let crop = |overlap| IouCrop { scale: (0.3, 1.0), ratio: (0.5, 2.0), overlaps: vec![overlap], trials: 40 };
        let mut found = 0;
        for sample in 0..500 {
            for overlap in [0.0, 0.1, 0.3, 0.5] {
                let part = crop(overlap).draw((100, 80), &boxes, &mut SampleRng::new(1, SampleId(sample)));
                let Some(part) = part else { continue };
                found += 1;
                assert!(part.fits(100, 80));
                let held = boxes.iter().filter(|given| has_centre(part, given));
                assert!(held.map(|given| overlap_of(part, given)).fold(-1.0, f64::max) >= overlap, "{part:?}");
            }
        }
        assert!(found > 1900, "{found}");
        let mut rng = SampleRng::new(1, SampleId(7));
        assert_eq!(crop(1.0).draw((100, 80), &boxes, &mut rng), None);
        assert_eq!(crop(0.0).draw((100, 80), &[], &mut rng), None, "no box has its centre anywhere");
    }
}
