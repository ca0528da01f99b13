//! The weights of a resize along one axis: the source pixels of each output pixel, and the weight of each.
//!
//! Weights are computed in f64 with `+ - * /` (and `libm`'s sine) only and then rounded to fixed point, so they are the
//! same on every machine.

use forebay_plan::Resample;

/// Fraction bits of antialiased weights: 32, less 8 for a pixel and 2 for sums, as in Pillow.
pub(in crate::image) const BITS: u32 = 22;

/// Fraction bits of a weight between two pixels: one weight for each axis and a pixel fill 30 bits.
pub(super) const LINEAR_BITS: u32 = 11;

/// How the pixels of a resized image are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// The nearest pixel, as Pillow's `NEAREST`.
    Nearest,
    /// The two nearest pixels of each axis, also when shrinking.
    Linear,
    /// Pillow's `BOX`.
    Box,
    /// Pillow's `BILINEAR`.
    Triangle,
    /// Pillow's `BICUBIC`.
    Bicubic,
    /// Pillow's `LANCZOS`.
    Lanczos,
}

impl Filter {
    /// Returns the filter of an op.
    pub fn of(interpolation: Resample, antialias: bool) -> Self {
        match interpolation {
            Resample::Nearest => Self::Nearest,
            Resample::Box => Self::Box,
            Resample::Bilinear if antialias => Self::Triangle,
            Resample::Bilinear => Self::Linear,
            Resample::Bicubic => Self::Bicubic,
            Resample::Lanczos => Self::Lanczos,
        }
    }

    /// Returns the distance within which a pixel has a weight, in pixels of the smaller image.
    fn reach(self) -> f64 {
        match self {
            Self::Nearest | Self::Box => 0.5,
            Self::Linear | Self::Triangle => 1.0,
            Self::Bicubic => 2.0,
            Self::Lanczos => 3.0,
        }
    }

    /// Returns the weight at a distance.
    fn weight(self, at: f64) -> f64 {
        let distance = at.abs();
        match self {
            Self::Nearest | Self::Box => f64::from(u8::from(at > -0.5 && at <= 0.5)),
            Self::Linear | Self::Triangle => (1.0 - distance).max(0.0),
            Self::Bicubic if distance < 1.0 => (1.5 * distance - 2.5) * distance * distance + 1.0,
            Self::Bicubic if distance < 2.0 => (((distance - 5.0) * distance + 8.0) * distance - 4.0) * -0.5,
            Self::Lanczos if (-3.0..3.0).contains(&at) => sinc(at) * sinc(at / 3.0),
            Self::Bicubic | Self::Lanczos => 0.0,
        }
    }
}

fn sinc(at: f64) -> f64 {
    if at == 0.0 {
        return 1.0;
    }
    let at = at * std::f64::consts::PI;
    libm::sin(at) / at
}

/// Returns the source pixel of each output pixel of one axis, as Pillow's `resize(NEAREST)`: places are summed, not
/// multiplied, so the last bits are Pillow's.
pub(crate) fn nearest(from: usize, to: usize) -> Vec<u32> {
    let scale = from as f64 / to as f64;
    let mut at = scale * 0.5;
    let mut next = || {
        let place = (at as usize).min(from - 1) as u32;
        at += scale;
        place
    };
    (0..to).map(|_| next()).collect()
}

/// Adds the weights of output pixel `i` of one of Pillow's filters, which sum to 1, to `weights`. Returns the first source
/// pixel.
fn real_weights(filter: Filter, (from, to): (usize, usize), i: usize, weights: &mut Vec<f64>) -> usize {
    let scale = from as f64 / to as f64;
    let stretch = scale.max(1.0);
    let reach = filter.reach() * stretch;
    let centre = (i as f64 + 0.5) * scale;
    let first = (centre - reach + 0.5).max(0.0) as usize;
    let end = ((centre + reach + 0.5) as usize).min(from);
    let inverse = 1.0 / stretch;
    let own = weights.len();
    weights.extend((first..end).map(|x| filter.weight((x as f64 - centre + 0.5) * inverse)));
    let mut sum = 0.0;
    weights[own..].iter().for_each(|w| sum += w);
    weights[own..].iter_mut().for_each(|w| *w /= sum);
    first
}

/// The weights of each output pixel of one axis in f64; kept to reuse their memory.
#[derive(Debug, Default)]
pub(super) struct RealTaps {
    /// Each output pixel's first source pixel, and where its weights end.
    bounds: Vec<(usize, usize)>,
    weights: Vec<f64>,
}

impl RealTaps {
    /// Sets up one of Pillow's filters, stretched by the scale when shrinking.
    pub(super) fn filter(&mut self, filter: Filter, from: usize, to: usize) {
        self.bounds.clear();
        self.weights.clear();
        for i in 0..to {
            let first = real_weights(filter, (from, to), i, &mut self.weights);
            self.bounds.push((first, self.weights.len()));
        }
    }

    /// Returns every output pixel's first source pixel and weights.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &[f64])> {
        let mut start = 0;
        self.bounds.iter().map(move |&(first, end)| (first, &self.weights[std::mem::replace(&mut start, end)..end]))
    }
}

/// The weights of each output pixel of one axis; kept to reuse their memory.
#[derive(Debug, Default)]
pub(super) struct Taps {
    /// Each output pixel's first source pixel and number of source pixels.
    bounds: Vec<(u32, u32)>,
    weights: Vec<i32>,
    /// The number of slots for each output pixel in `weights`; unused slots are zero.
    room: usize,
    /// The largest number of weights of an output pixel.
    count: usize,
    real: Vec<f64>,
}

impl Taps {
    /// Sets up one of Pillow's filters, stretched by the scale when shrinking.
    pub(in crate::image) fn filter(&mut self, filter: Filter, from: usize, to: usize) {
        let reach = filter.reach() * (from as f64 / to as f64).max(1.0);
        self.room = reach.ceil() as usize * 2 + 1;
        self.count = 2;
        self.bounds.clear();
        self.weights.clear();
        self.weights.resize(to * self.room, 0);
        for (i, weights) in self.weights.chunks_exact_mut(self.room).enumerate() {
            self.real.clear();
            let first = real_weights(filter, (from, to), i, &mut self.real);
            for (weight, real) in weights.iter_mut().zip(&self.real) {
                let real = real * f64::from(1 << BITS);
                *weight = if real < 0.0 { (real - 0.5) as i32 } else { (real + 0.5) as i32 };
            }
            // A last weight of zero costs a multiplication and changes nothing.
            let used = weights.iter().rposition(|&w| w != 0).map_or(1, |last| last + 1);
            self.count = self.count.max(used);
            self.bounds.push((first as u32, used as u32));
        }
    }

    /// Returns the largest number of weights of an output pixel, at least 2.
    pub(in crate::image) fn count(&self) -> usize {
        self.count
    }

    /// Returns every output pixel's first source pixel and [`Taps::count`] weights, the last of which may be zero for
    /// pixels past the end.
    #[inline(always)]
    pub(in crate::image) fn all(&self) -> impl Iterator<Item = (usize, &[i32])> {
        let weights = self.weights.chunks_exact(self.room).map(|weights| &weights[..self.count]);
        self.bounds.iter().map(|bounds| bounds.0 as usize).zip(weights)
    }

    /// Sets up the two nearest pixels of each output pixel, half-pixel centres, edges repeated.
    pub(in crate::image) fn linear(&mut self, from: usize, to: usize) {
        let scale = from as f64 / to as f64;
        (self.room, self.count) = (2, 2);
        self.bounds.clear();
        self.weights.clear();
        for i in 0..to {
            let at = ((i as f64 + 0.5) * scale - 0.5).clamp(0.0, (from - 1) as f64);
            let first = at as usize;
            let second = ((at - first as f64) * f64::from(1 << LINEAR_BITS) + 0.5) as i32;
            // The last pixel has no second source pixel; its weight is then zero.
            let count = if first + 1 < from { 2 } else { 1 };
            self.bounds.push((first as u32, count));
            self.weights.extend([(1 << LINEAR_BITS) - second, second]);
        }
    }

    /// Returns an output pixel's first source pixel and weights; there is at least one.
    #[inline(always)]
    pub(in crate::image) fn of(&self, i: usize) -> (usize, &[i32]) {
        let (first, count) = self.bounds[i];
        (first as usize, &self.weights[i * self.room..][..count as usize])
    }
}
