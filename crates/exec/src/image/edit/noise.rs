//! Gaussian noise on every level: torchvision's `gaussian_noise` of uint8 images, with Forebay's own draws.
//!
//! A draw is rounded towards zero before it is added, and the sum is clamped to 0..=255. Levels take their draws in the
//! order of rows, pixels and channels, so the image must not be mirrored when it is read. Each frame of a clip has noise
//! of its own.

use forebay_core::SampleId;
use forebay_core::rng::SampleRng;

use crate::image::real::normals;
use crate::image::view::Image;

/// Writes the image with noise of a mean and a deviation in levels; `key` and the frame open the stream of its draws.
pub(in crate::image) fn noise(image: Image<'_>, mean: f64, sigma: f64, (key, frame): (u64, usize), out: &mut [u8]) {
    let mut rng = SampleRng::new(key, SampleId(frame as u64));
    let mut spare = None;
    let row = image.width() * image.channels();
    for (from, to) in image.rows().zip(out.chunks_exact_mut(row)) {
        for (&level, to) in from.iter().zip(to) {
            let draw = spare.take().unwrap_or_else(|| {
                let [first, second] = normals(&mut rng);
                spare = Some(second);
                first
            });
            *to = (i32::from(level) + (mean + draw * sigma) as i32).clamp(0, 255) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_its_moments_and_stays_within_levels() {
        let pixels = vec![128_u8; 300 * 200 * 3];
        let image = Image::packed(&pixels, 300, 200, 3).expect("its size");
        let mut out = vec![0; pixels.len()];
        noise(image, 5.0, 12.0, (9, 0), &mut out);
        let apart: Vec<f64> = out.iter().map(|&v| f64::from(v) - 128.0).collect();
        let mean = apart.iter().sum::<f64>() / apart.len() as f64;
        let deviation = (apart.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / apart.len() as f64).sqrt();
        // Draws are rounded towards zero, which takes half a level from each.
        assert!((mean - 4.84).abs() < 0.1 && (deviation - 11.64).abs() < 0.1, "{mean} {deviation}");
        noise(image, 0.0, 1e6, (9, 0), &mut out);
        // A draw is within the levels once in ten thousand.
        let within = out.iter().filter(|v| !matches!(v, 0 | 255)).count();
        assert!(within < out.len() / 1000, "{within}");
    }
}
