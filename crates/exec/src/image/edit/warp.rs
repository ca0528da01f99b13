//! Rotation, shear and shift: torchvision's `rotate` and `affine` of uint8 images, the size kept.
//!
//! Each output pixel reads its place in the image. Places are whole numbers of 2^-32 pixels, computed in f64 for the
//! start and the step of a row, so that a row needs only additions. `Nearest` uses the pixel there (PyTorch computes
//! places in f32, so it may use the other pixel where a place is halfway between two); `Bilinear` blends four with
//! weights of 1/2048, within a level of PyTorch. Places are counted from the image's centre.

use forebay_plan::Interpolation;

use crate::image::real::sin_cos;
use crate::image::view::Image;

/// An affine map, with the pixel outside the image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Warp {
    /// Maps a place in the result to a place in the image: the factors of x, y and 1 for x, then for y.
    matrix: [f64; 6],
    pub(in crate::image) interpolation: Interpolation,
    /// The pixel outside the image. `None` means zeros, which differ from a fill of zeros on an edge: with `Bilinear`,
    /// torchvision blends a fill once more by the covered part.
    pub(in crate::image) fill: Option<[u8; 3]>,
}

impl Warp {
    /// Returns a turn to the left about the centre.
    pub(crate) fn rotation(degrees: f64, interpolation: Interpolation, fill: Option<[u8; 3]>) -> Self {
        let (sin, cos) = sin_cos(degrees);
        Self { matrix: [cos, -sin, 0.0, sin, cos, 0.0], interpolation, fill }
    }

    /// Returns a map that shifts rows to the left by `slope` of their distance from the top; with `vertical`, columns
    /// up instead.
    pub(in crate::image) fn shear(slope: f64, vertical: bool, size: (usize, usize), how: &Self) -> Self {
        let (width, height) = (size.0 as f64, size.1 as f64);
        let matrix = match vertical {
            false => [1.0, slope, slope * height * 0.5, 0.0, 1.0, 0.0],
            true => [1.0, 0.0, 0.0, slope, 1.0, slope * width * 0.5],
        };
        Self { matrix, ..*how }
    }

    /// Returns a shift by whole pixels to the right and down.
    pub(in crate::image) fn shift(right: f64, down: f64, how: &Self) -> Self {
        Self { matrix: [1.0, 0.0, -right, 0.0, 1.0, -down], ..*how }
    }

    /// Returns the map back: the factors of x, y and 1 for x, then for y, from a place in the image to its place in the
    /// result. Places are counted from the centre. `None` if the map has no inverse.
    pub(crate) fn forward(&self) -> Option<[f64; 6]> {
        let [xx, xy, x1, yx, yy, y1] = self.matrix;
        let determinant = xx * yy - xy * yx;
        if determinant.abs() < 1e-12 {
            return None;
        }
        let (a, b, c, d) = (yy / determinant, -xy / determinant, -yx / determinant, xx / determinant);
        Some([a, b, -(a * x1 + b * y1), c, d, -(c * x1 + d * y1)])
    }

    /// Calls `f` for each pixel of the result, row by row, with the column and row of the nearest pixel of an image of
    /// this size; with `None` outside.
    pub(crate) fn nearest(&self, (width, height): (usize, usize), mut f: impl FnMut(Option<(usize, usize)>)) {
        let inside = |at: i64, len: usize| usize::try_from((at + ONE / 2) >> BITS).ok().filter(|at| *at < len);
        for y in 0..height {
            let (mut at, step) = self.row((width, height), y);
            for _ in 0..width {
                f(inside(at.0, width).zip(inside(at.1, height)));
                at = (at.0 + step.0, at.1 + step.1);
            }
        }
    }

    /// Returns the place of the first pixel of a row of the result, and the step from pixel to pixel.
    fn row(&self, (width, height): (usize, usize), y: usize) -> ((i64, i64), (i64, i64)) {
        let [xx, xy, x1, yx, yy, y1] = self.matrix;
        let centre = |len: usize| (len as f64 - 1.0) * 0.5;
        let (cx, cy) = (centre(width), centre(height));
        let y = y as f64 - cy;
        let first = (fixed(xy * y + x1 + cx - xx * cx), fixed(yy * y + y1 + cy - yx * cx));
        (first, (fixed(xx), fixed(yx)))
    }

    /// Writes the mapped image of one or three channels.
    pub(in crate::image) fn apply(&self, image: Image<'_>, out: &mut [u8]) {
        match image.channels() {
            1 => self.rows::<1>(image, out),
            _ => self.rows::<3>(image, out),
        }
    }

    fn rows<const C: usize>(&self, image: Image<'_>, out: &mut [u8]) {
        let size = (image.width(), image.height());
        let fill = self.fill.map(|fill| std::array::from_fn(|c| fill[c]));
        for (y, to) in out.chunks_exact_mut(image.width() * C).enumerate() {
            let (mut at, step) = self.row(size, y);
            for to in to.as_chunks_mut::<C>().0 {
                *to = match self.interpolation {
                    Interpolation::Nearest => pixel(image, (at.0 + ONE / 2) >> BITS, (at.1 + ONE / 2) >> BITS)
                        .unwrap_or(fill.unwrap_or([0; C])),
                    Interpolation::Bilinear => blend(image, at, fill),
                };
                at = (at.0 + step.0, at.1 + step.1);
            }
        }
    }
}

/// Returns the pixel outside the image: one level for all channels, or one for each.
pub(in crate::image) fn outside(fill: Option<&[u8]>) -> Option<[u8; 3]> {
    fill.filter(|fill| !fill.is_empty()).map(|fill| std::array::from_fn(|c| fill[c % fill.len()]))
}

const BITS: u32 = 32;
const ONE: i64 = 1 << BITS;

fn fixed(v: f64) -> i64 {
    (v * ONE as f64).round_ties_even() as i64
}

#[inline(always)]
fn pixel<const C: usize>(image: Image<'_>, x: i64, y: i64) -> Option<[u8; C]> {
    let (x, y) = (usize::try_from(x).ok()?, usize::try_from(y).ok()?);
    if y >= image.height() {
        return None;
    }
    image.row(y).as_chunks::<C>().0.get(x).copied()
}

/// Blends the four pixels around a place; pixels outside the image are not counted.
#[inline(always)]
fn blend<const C: usize>(image: Image<'_>, (x, y): (i64, i64), fill: Option<[u8; C]>) -> [u8; C] {
    const WEIGHT: u32 = 11;
    const FULL: i64 = 1 << (2 * WEIGHT);
    let weight = |v: i64| ((v & (ONE - 1)) + (1 << (BITS - WEIGHT - 1))) >> (BITS - WEIGHT);
    let (right, lower) = (weight(x), weight(y));
    let (x, y) = (x >> BITS, y >> BITS);
    let (left, upper) = ((1 << WEIGHT) - right, (1 << WEIGHT) - lower);
    let (mut sums, mut covered) = ([0; C], 0);
    for (x, y, weight) in
        [(x, y, left * upper), (x + 1, y, right * upper), (x, y + 1, left * lower), (x + 1, y + 1, right * lower)]
    {
        if let Some(pixel) = pixel::<C>(image, x, y) {
            covered += weight;
            (0..C).for_each(|c| sums[c] += i64::from(pixel[c]) * weight);
        }
    }
    if let (Some(fill), true) = (fill, covered < FULL) {
        for (sum, fill) in sums.iter_mut().zip(fill) {
            let fill = i64::from(fill) * FULL;
            *sum = (((*sum - fill) * covered) >> (2 * WEIGHT)) + fill;
        }
    }
    sums.map(|sum| ((sum + FULL / 2) >> (2 * WEIGHT)) as u8)
}
