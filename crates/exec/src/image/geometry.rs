//! Where to crop and how large to resize: torchvision's rules, with Forebay's own draws.
//!
//! The exponential and the logarithm are `libm`'s, because a platform's own may differ in the last bit, and a bit of an
//! aspect ratio can become a pixel of a crop.

use forebay_core::rng::SampleRng;
use forebay_core::{Error, Result};

use super::view::Region;

/// A crop that may be larger than its image: `region` of the image goes to (`left`, `top`) of an output of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CenterCrop {
    /// The pixels that are kept.
    pub region: Region,
    /// Columns of zeros left of them.
    pub left: usize,
    /// Rows of zeros above them.
    pub top: usize,
}

/// Places a central crop, like torchvision's `center_crop`: missing parts are zeros around the image.
pub fn center_crop(image: (usize, usize), crop: (usize, usize)) -> CenterCrop {
    let ((width, height), (crop_width, crop_height)) = (image, crop);
    let (x, left, width) = center(width, crop_width);
    let (y, top, height) = center(height, crop_height);
    CenterCrop { region: Region { x, y, width, height }, left, top }
}

/// Returns for one axis: the skipped part of the image, the padding before it, the kept part.
fn center(image: usize, crop: usize) -> (usize, usize, usize) {
    if crop > image {
        return (0, (crop - image) / 2, image);
    }
    // Python's round(): a half goes to the even side.
    let spare = image - crop;
    let skipped = if spare % 4 == 3 { spare / 2 + 1 } else { spare / 2 };
    (skipped, 0, crop)
}

/// Draws torchvision's `RandomResizedCrop` region of an image of `width` x `height`.
///
/// Ten tries of a share of the area within `scale` and an aspect ratio (width by height) log-uniform within `ratio`; if
/// none fits, the largest central crop with an allowed ratio. Both ranges must be positive, finite and not reversed.
pub fn random_resized_crop(
    (width, height): (usize, usize),
    scale: (f64, f64),
    ratio: (f64, f64),
    rng: &mut SampleRng,
) -> Region {
    let area = width as f64 * height as f64;
    let log_ratio = (libm::log(ratio.0), libm::log(ratio.1));
    for _ in 0..10 {
        let target = area * rng.uniform(scale.0, scale.1);
        let aspect = libm::exp(rng.uniform(log_ratio.0, log_ratio.1));
        let w = (target * aspect).sqrt().round_ties_even() as usize;
        let h = (target / aspect).sqrt().round_ties_even() as usize;
        let region = Region { x: 0, y: 0, width: w, height: h };
        if region.fits(width, height) {
            let y = rng.up_to((height - h) as u32) as usize;
            let x = rng.up_to((width - w) as u32) as usize;
            return Region { x, y, ..region };
        }
    }
    let whole = width as f64 / height as f64;
    let round = |v: f64, most: usize| (v.round_ties_even() as usize).clamp(1, most);
    let (w, h) = if whole < ratio.0 {
        (width, round(width as f64 / ratio.0, height))
    } else if whole > ratio.1 {
        (round(height as f64 * ratio.1, width), height)
    } else {
        (width, height)
    };
    Region { x: (width - w) / 2, y: (height - h) / 2, width: w, height: h }
}

/// Draws torchvision's `RandomCrop` region of `crop` columns and rows.
///
/// # Errors
/// Data when the image is smaller.
pub(super) fn random_crop(
    (width, height): (usize, usize),
    (w, h): (usize, usize),
    rng: &mut SampleRng,
) -> Result<Region> {
    if w > width || h > height {
        let message = format!("a crop of ({h}, {w}) of an image of {height} rows, {width} columns");
        return Err(Error::data(message).hint("resize the image before, or give padding="));
    }
    let y = rng.up_to((height - h) as u32) as usize;
    let x = rng.up_to((width - w) as u32) as usize;
    Ok(Region { x, y, width: w, height: h })
}

/// A larger image on which an image is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Canvas {
    /// Columns left of the image.
    pub(super) left: usize,
    /// Rows above it.
    pub(super) top: usize,
    /// Columns and rows of the canvas.
    pub(super) size: (usize, usize),
}

/// Draws torchvision's `RandomZoomOut`: with probability `p`, a canvas whose sides are `side` times those of the image,
/// and the place of the image on it. `None` leaves the image as it is.
pub(super) fn random_zoom_out(
    (width, height): (usize, usize),
    side: (f64, f64),
    p: f64,
    rng: &mut SampleRng,
) -> Option<Canvas> {
    if rng.unit() >= p {
        return None;
    }
    let by = rng.uniform(side.0, side.1);
    let canvas = |len: usize| (len as f64 * by) as usize;
    let size = (canvas(width).max(width), canvas(height).max(height));
    let mut first = |spare: usize| (spare as f64 * rng.unit()) as usize;
    let (left, top) = (first(size.0 - width), first(size.1 - height));
    Some(Canvas { left, top, size })
}

/// Draws torchvision's `RandomErasing` region of an image of `width` x `height`: ten tries of a share of the area
/// within `scale` and a ratio (height by width) log-uniform within `ratio`, or `None`.
pub(super) fn random_erasing(
    (width, height): (usize, usize),
    scale: (f64, f64),
    ratio: (f64, f64),
    rng: &mut SampleRng,
) -> Option<Region> {
    let area = width as f64 * height as f64;
    let log_ratio = (libm::log(ratio.0), libm::log(ratio.1));
    for _ in 0..10 {
        let target = area * rng.uniform(scale.0, scale.1);
        let aspect = libm::exp(rng.uniform(log_ratio.0, log_ratio.1));
        let h = (target * aspect).sqrt().round_ties_even() as usize;
        let w = (target / aspect).sqrt().round_ties_even() as usize;
        if h < height && w < width {
            let y = rng.up_to((height - h) as u32) as usize;
            let x = rng.up_to((width - w) as u32) as usize;
            return Some(Region { x, y, width: w, height: h });
        }
    }
    None
}

/// Returns the size with the same shape and the shorter side `size`, like torchvision's `resize(size, max_size)`: the
/// longer side is rounded down; if it would exceed `max_size`, it becomes `max_size`, and the shorter side is rounded
/// down.
pub fn shorter_side((width, height): (usize, usize), size: usize, max_size: Option<usize>) -> (usize, usize) {
    let part = |of: usize, by: usize, to: usize| (of as u128 * by as u128 / to as u128) as usize;
    let longer = part(size, width.max(height), width.min(height));
    let (shorter, longer) = match max_size {
        Some(most) if longer > most => (part(most, size, longer).max(1), most),
        _ => (size, longer),
    };
    if width <= height { (shorter, longer) } else { (longer, shorter) }
}

#[cfg(test)]
mod tests {
    use forebay_core::SampleId;

    use super::*;

    #[test]
    fn center_crop_rounds_halves_to_even_and_pads() {
        // int(round(1 / 2)) = 0, int(round(3 / 2)) = 2, int(round(5 / 2)) = 2, int(round(7 / 2)) = 4.
        let skipped: Vec<_> = (0..=8).map(|spare| center(10 + spare, 10).0).collect();
        assert_eq!(skipped, [0, 0, 1, 2, 2, 2, 3, 4, 4]);
        let crop = center_crop((5, 20), (8, 10));
        let region = Region { x: 0, y: 5, width: 5, height: 10 };
        assert_eq!(crop, CenterCrop { region, left: 1, top: 0 });
    }

    #[test]
    fn random_crops_stay_inside_and_spread_as_asked() {
        let (mut shares, mut ratios) = (0.0, 0.0);
        for sample in 0..20_000 {
            let mut rng = SampleRng::new(7, SampleId(sample));
            let r = random_resized_crop((500, 400), (0.08, 0.5), (3.0 / 4.0, 4.0 / 3.0), &mut rng);
            assert!(r.fits(500, 400), "{r:?}");
            let share = (r.width * r.height) as f64 / 200_000.0;
            assert!((0.075..0.505).contains(&share), "{share}");
            shares += share;
            ratios += (r.width as f64 / r.height as f64).ln();
        }
        assert!((shares / 20_000.0 - 0.29).abs() < 0.003, "{shares}");
        assert!((ratios / 20_000.0).abs() < 0.003, "{ratios}");
    }

    #[test]
    fn a_crop_that_cannot_fit_falls_back_to_the_centre() {
        let mut rng = SampleRng::new(1, SampleId(1));
        let wide = random_resized_crop((1000, 10), (0.9, 1.0), (0.75, 4.0 / 3.0), &mut rng);
        assert_eq!(wide, Region { x: 493, y: 0, width: 13, height: 10 });
        let tall = random_resized_crop((10, 1000), (0.9, 1.0), (0.75, 4.0 / 3.0), &mut rng);
        assert_eq!(tall, Region { x: 0, y: 493, width: 10, height: 13 });
        assert_eq!(random_resized_crop((1, 1), (0.01, 0.02), (1.0, 1.0), &mut rng), Region::whole(1, 1));
    }

    #[test]
    fn erased_regions_stay_inside_and_spread_as_asked() {
        let (mut shares, mut ratios, mut left) = (0.0, 0.0, 0.0);
        for sample in 0..20_000 {
            let mut rng = SampleRng::new(8, SampleId(sample));
            // Small enough that no try is rejected, because rejections would favour one shape.
            let r = random_erasing((500, 400), (0.02, 0.2), (0.3, 3.3), &mut rng).expect("it fits");
            assert!(r.fits(500, 400), "{r:?}");
            shares += (r.width * r.height) as f64 / 200_000.0;
            ratios += (r.height as f64 / r.width as f64).ln();
            left += r.x as f64 / (500 - r.width) as f64;
        }
        assert!((shares / 20_000.0 - 0.11).abs() < 0.002, "{shares}");
        assert!((ratios / 20_000.0).abs() < 0.02, "{ratios}");
        assert!((left / 20_000.0 - 0.5).abs() < 0.01, "{left}");
        assert_eq!(random_erasing((10, 1), (0.5, 1.0), (1.0, 1.0), &mut SampleRng::new(8, SampleId(0))), None);
    }

    #[test]
    fn shorter_side_keeps_the_shape() {
        assert_eq!(shorter_side((500, 375), 256, None), (341, 256));
        assert_eq!(shorter_side((375, 500), 256, None), (256, 341));
        assert_eq!(shorter_side((7, 7), 9, None), (9, 9));
        assert_eq!(shorter_side((500, 375), 256, Some(341)), (341, 256));
        assert_eq!(shorter_side((500, 375), 256, Some(300)), (300, 225));
        assert_eq!(shorter_side((375, 500), 256, Some(301)), (225, 301));
        assert_eq!(shorter_side((1, 10_000), 5, Some(20)), (1, 20));
    }
}
