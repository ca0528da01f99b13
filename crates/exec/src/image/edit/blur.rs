//! Gaussian blur, separable: torchvision's `gaussian_blur` of uint8 images, within a level.
//!
//! Columns first, then rows, both in f32; a pixel is rounded once, at the end, to nearest. The two pixels at one
//! distance are added before they are weighted, which halves the work and makes the result of a mirrored image the
//! mirrored result. Edges are reflected without repeating the last pixel; a kernel that reaches over the other edge is
//! reflected again.

use super::lanes::{nearest, widest};
use crate::image::view::Image;

/// The memory of a blur, reused for the next image. One per thread.
#[derive(Debug, Default)]
pub(in crate::image) struct Blur {
    /// The weight of each distance, from 0.
    weights: Vec<f32>,
    /// One row with its columns blurred, and the reflections left and right of it.
    line: Vec<f32>,
}

impl Blur {
    /// Writes `image` blurred by a kernel of `size` x `size` pixels, an odd number, with a deviation of `sigma` pixels.
    pub(in crate::image) fn blur(&mut self, image: Image<'_>, size: usize, sigma: f64, out: &mut [u8]) {
        self.weigh(size / 2, sigma);
        let (width, height, channels) = (image.width(), image.height(), image.channels());
        let (reach, row) = (size / 2, width * channels);
        self.line.resize(row + 2 * reach * channels, 0.0);
        for (y, to) in out.chunks_exact_mut(row).enumerate() {
            let pair = |distance: usize| {
                let [above, below] = [y as isize - distance as isize, (y + distance) as isize];
                [image.row(reflected(above, height)), image.row(reflected(below, height))]
            };
            let middle = &mut self.line[reach * channels..][..row];
            vertical(middle, image.row(y), self.weights[0]);
            for (distance, &weight) in self.weights.iter().enumerate().skip(1) {
                let [above, below] = pair(distance);
                add_rows(middle, above, below, weight);
            }
            self.reflect(reach, width, channels);
            horizontal(&self.line, channels, &self.weights, to);
        }
    }

    /// Sets the weights: a normal density at whole distances, with sum 1.
    fn weigh(&mut self, reach: usize, sigma: f64) {
        let density = |i: usize| libm::exp((-0.5 * (i as f64 / sigma) * (i as f64 / sigma)).max(-600.0));
        let sum = density(0) + 2.0 * (1..=reach).map(density).sum::<f64>();
        self.weights.clear();
        self.weights.extend((0..=reach).map(|i| (density(i) / sum) as f32));
    }

    fn reflect(&mut self, reach: usize, width: usize, channels: usize) {
        for i in 1..=reach {
            for (at, from) in [(reach - i, -(i as isize)), (reach + width - 1 + i, (width - 1 + i) as isize)] {
                let from = (reach + reflected(from, width)) * channels;
                self.line.copy_within(from..from + channels, at * channels);
            }
        }
    }
}

widest! {
    /// Starts a row's sums with the middle row.
    fn vertical(sums: &mut [f32], middle: &[u8], weight: f32) {
        sums.iter_mut().zip(middle).for_each(|(sum, &v)| *sum = f32::from(v) * weight);
    }
}

widest! {
    fn add_rows(sums: &mut [f32], above: &[u8], below: &[u8], weight: f32) {
        for (sum, (&a, &b)) in sums.iter_mut().zip(above.iter().zip(below)) {
            *sum += f32::from(u16::from(a) + u16::from(b)) * weight;
        }
    }
}

widest! {
    /// Writes the weighted sums along a line that reaches over both ends.
    fn horizontal(line: &[f32], channels: usize, weights: &[f32], to: &mut [u8]) {
        const LANES: usize = 32;
        let reach = (weights.len() - 1) * channels;
        for (block, to) in to.chunks_mut(LANES).enumerate() {
            let start = block * LANES + reach;
            let at = |from: usize| &line[from..from + to.len()];
            let mut sums = [0.0; LANES];
            sums.iter_mut().zip(at(start)).for_each(|(sum, v)| *sum = v * weights[0]);
            for (distance, weight) in weights.iter().enumerate().skip(1) {
                let (left, right) = (at(start - distance * channels), at(start + distance * channels));
                for (sum, (left, right)) in sums.iter_mut().zip(left.iter().zip(right)) {
                    *sum += (left + right) * weight;
                }
            }
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to = nearest(sum));
        }
    }
}

/// Returns the place in `0..len` that a place outside mirrors.
fn reflected(at: isize, len: usize) -> usize {
    let period = 2 * (len as isize - 1).max(1);
    let at = at.rem_euclid(period) as usize;
    if len == 1 { 0 } else { at.min(period as usize - at) }
}
