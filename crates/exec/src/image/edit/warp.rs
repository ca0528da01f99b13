//! Rotation, shear, shift and perspective: torchvision's `rotate`, `affine` and `perspective` of uint8 images, the size
//! kept.
//!
//! Each output pixel reads its place in the image. Places are whole numbers of 2^-32 pixels, computed in f64 for the
//! start and the step of a row, so that a row needs only additions; a perspective computes each place. `Nearest` uses
//! the pixel there (PyTorch computes places in f32, so it may use the other pixel where a place is halfway between
//! two); `Bilinear` blends four with weights of 1/2048, within a level of PyTorch. Places are counted from the image's
//! centre.

use forebay_plan::Interpolation;

use crate::image::real::sin_cos;
use crate::image::view::Image;

/// A map of places, with the pixel outside the image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Warp {
    /// Maps a place in the result to a place in the image: the factors of x, y and 1 for x, then for y.
    matrix: [f64; 6],
    /// Both are divided by a sum of x, y and 1 with these factors, which is 1 everywhere in an affine map.
    divisor: [f64; 3],
    pub(in crate::image) interpolation: Interpolation,
    /// The pixel outside the image. `None` means zeros, which differ from a fill of zeros on an edge: with `Bilinear`,
    /// torchvision blends a fill once more by the covered part.
    pub(in crate::image) fill: Option<[u8; 3]>,
}

impl Warp {
    /// Returns a turn to the left about the centre.
    pub(crate) fn rotation(degrees: f64, interpolation: Interpolation, fill: Option<[u8; 3]>) -> Self {
        let (sin, cos) = sin_cos(degrees);
        Self { matrix: [cos, -sin, 0.0, sin, cos, 0.0], divisor: AFFINE, interpolation, fill }
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

    /// Returns torchvision's affine map: a turn to the right, a shift in pixels, a scaling, and shears along x and y.
    /// Angles are in degrees.
    pub(in crate::image) fn affine(degrees: f64, shift: (f64, f64), scale: f64, [x, y]: [f64; 2], how: &Self) -> Self {
        let ((sin, cos), (turned_sin, turned_cos)) = (sin_cos(degrees), sin_cos(degrees - y));
        let ((x_sin, x_cos), (_, along)) = (sin_cos(x), sin_cos(y));
        let across = x_sin / x_cos;
        let a = turned_cos / along;
        let b = -turned_cos * across / along - sin;
        let c = turned_sin / along;
        let d = -turned_sin * across / along + cos;
        let [xx, xy, yx, yy] = [d / scale, -b / scale, -c / scale, a / scale];
        let (right, down) = shift;
        Self { matrix: [xx, xy, -(xx * right + xy * down), yx, yy, -(yx * right + yy * down)], ..*how }
    }

    /// Returns the map that moves the corners of an image of `size` to `corners`, clockwise from the upper left one.
    /// A corner is that of torchvision: the last column and row have the numbers `width - 1` and `height - 1`. `None`
    /// if the corners span no convex shape.
    pub(in crate::image) fn perspective(corners: [[f64; 2]; 4], size: (usize, usize), how: &Self) -> Option<Self> {
        let turns = |i: usize| {
            let [[ax, ay], [bx, by], [cx, cy]] = [0, 1, 2].map(|next| corners[(i + next) % 4]);
            (bx - ax) * (cy - by) - (by - ay) * (cx - bx)
        };
        if size.0 < 2 || size.1 < 2 || (0..4).any(|i| turns(i) <= 0.0) {
            return None;
        }
        // From the unit square to the corners (Heckbert), then from the image, then back.
        let [[x0, y0], [x1, y1], [x2, y2], [x3, y3]] = corners;
        let (ax, ay, bx, by) = (x1 - x2, y1 - y2, x3 - x2, y3 - y2);
        let (sx, sy) = (x0 - x1 + x2 - x3, y0 - y1 + y2 - y3);
        let divisor = ax * by - bx * ay;
        let (g, h) = ((sx * by - bx * sy) / divisor, (ax * sy - sx * ay) / divisor);
        let (w, t) = (size.0 as f64 - 1.0, size.1 as f64 - 1.0);
        let forward = [
            [(x1 - x0 + g * x1) / w, (x3 - x0 + h * x3) / t, x0],
            [(y1 - y0 + g * y1) / w, (y3 - y0 + h * y3) / t, y0],
            [g / w, h / t, 1.0],
        ];
        let [top, middle, bottom] = about_centre(inverse(forward)?, size);
        // The divisor becomes 1 in the middle of the corners, so it is positive wherever a place has an origin.
        let (x, y) =
            ((x0 + x1 + x2 + x3) * 0.25 - size.0 as f64 * 0.5, (y0 + y1 + y2 + y3) * 0.25 - size.1 as f64 * 0.5);
        let by = bottom[0] * x + bottom[1] * y + bottom[2];
        let matrix = [top[0], top[1], top[2], middle[0], middle[1], middle[2]].map(|v| v / by);
        let divisor = bottom.map(|v| v / by);
        matrix.iter().chain(&divisor).all(|v| v.is_finite()).then_some(Self { matrix, divisor, ..*how })
    }

    /// Returns the map back, from a place in the image to its place in the result, as rows of a matrix of homogeneous
    /// places. Places are counted from the centre. `None` if the map has no inverse.
    pub(crate) fn forward(&self) -> Option<[[f64; 3]; 3]> {
        let [xx, xy, x1, yx, yy, y1] = self.matrix;
        if self.is_perspective() {
            // The centre of the image has a place in the result, so its divisor is positive.
            let back = inverse([[xx, xy, x1], [yx, yy, y1], self.divisor])?;
            return Some(back.map(|row| row.map(|v| v / back[2][2])));
        }
        let determinant = xx * yy - xy * yx;
        if determinant.abs() < 1e-12 {
            return None;
        }
        let (a, b, c, d) = (yy / determinant, -xy / determinant, -yx / determinant, xx / determinant);
        Some([[a, b, -(a * x1 + b * y1)], [c, d, -(c * x1 + d * y1)], [0.0, 0.0, 1.0]])
    }

    fn is_perspective(&self) -> bool {
        self.divisor != AFFINE
    }

    /// Calls `f` for each pixel of the result, row by row, with the column and row of the nearest pixel of an image of
    /// this size; with `None` outside.
    pub(crate) fn nearest(&self, (width, height): (usize, usize), mut f: impl FnMut(Option<(usize, usize)>)) {
        let inside = |at: i64, len: usize| usize::try_from((at + ONE / 2) >> BITS).ok().filter(|at| *at < len);
        for y in 0..height {
            self.row((width, height), y, |_, at| f(inside(at.0, width).zip(inside(at.1, height))));
        }
    }

    /// Calls `f` for each pixel of a row of the result, with its column and its place in the image.
    #[inline(always)]
    fn row(&self, (width, height): (usize, usize), y: usize, mut f: impl FnMut(usize, (i64, i64))) {
        let [xx, xy, x1, yx, yy, y1] = self.matrix;
        let centre = |len: usize| (len as f64 - 1.0) * 0.5;
        let (cx, cy) = (centre(width), centre(height));
        let y = y as f64 - cy;
        if self.is_perspective() {
            let [gx, gy, g1] = self.divisor;
            for column in 0..width {
                let x = column as f64 - cx;
                let by = gx * x + gy * y + g1;
                // At the horizon and behind it, there is no place.
                let at = |v: f64, centre: f64| if by > 1e-9 { (v / by + centre).clamp(-FAR, FAR) } else { -FAR };
                f(column, (fixed(at(xx * x + xy * y + x1, cx)), fixed(at(yx * x + yy * y + y1, cy))));
            }
            return;
        }
        let mut at = (fixed(xy * y + x1 + cx - xx * cx), fixed(yy * y + y1 + cy - yx * cx));
        let step = (fixed(xx), fixed(yx));
        for column in 0..width {
            f(column, at);
            at = (at.0 + step.0, at.1 + step.1);
        }
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
            let to = to.as_chunks_mut::<C>().0;
            self.row(size, y, |x, at| {
                to[x] = match self.interpolation {
                    Interpolation::Nearest => pixel(image, (at.0 + ONE / 2) >> BITS, (at.1 + ONE / 2) >> BITS)
                        .unwrap_or(fill.unwrap_or([0; C])),
                    Interpolation::Bilinear => blend(image, at, fill),
                };
            });
        }
    }
}

/// Returns the pixel outside the image: one level for all channels, or one for each.
pub(in crate::image) fn outside(fill: Option<&[u8]>) -> Option<[u8; 3]> {
    fill.filter(|fill| !fill.is_empty()).map(|fill| std::array::from_fn(|c| fill[c % fill.len()]))
}

/// Returns the inverse of a matrix, but for a factor. `None` if it has none.
fn inverse([[a, b, c], [d, e, f], [g, h, i]]: [[f64; 3]; 3]) -> Option<[[f64; 3]; 3]> {
    let of = [
        [e * i - f * h, c * h - b * i, b * f - c * e],
        [f * g - d * i, a * i - c * g, c * d - a * f],
        [d * h - e * g, b * g - a * h, a * e - b * d],
    ];
    let determinant = a * of[0][0] + b * of[1][0] + c * of[2][0];
    (determinant.abs() > 1e-12).then_some(of)
}

/// Returns a map of places that are counted from the upper left corner of an image as one of places that are counted
/// from its centre.
fn about_centre(of: [[f64; 3]; 3], (width, height): (usize, usize)) -> [[f64; 3]; 3] {
    let (cx, cy) = (width as f64 * 0.5, height as f64 * 0.5);
    let [top, middle, bottom] = of.map(|[x, y, one]| [x, y, one + x * cx + y * cy]);
    let less = |row: [f64; 3], centre: f64| std::array::from_fn(|i| row[i] - centre * bottom[i]);
    [less(top, cx), less(middle, cy), bottom]
}

/// The divisor of an affine map.
const AFFINE: [f64; 3] = [0.0, 0.0, 1.0];
const BITS: u32 = 32;
const ONE: i64 = 1 << BITS;
/// A place that is outside of any image.
const FAR: f64 = 1e9;

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
