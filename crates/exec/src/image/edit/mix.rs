//! A blend of an image and of changed copies of it, each with its share: AugMix.
//!
//! Sums are f32 and are rounded down to a level at the end, as torchvision converts them.

use super::lanes::level;

/// The memory of a blend, reused for the next image. One per thread.
#[derive(Debug, Default)]
pub(in crate::image) struct Blend {
    image: Vec<u8>,
    sums: Vec<f32>,
}

impl Blend {
    /// Begins with a share of the image.
    pub(in crate::image) fn begin(&mut self, image: &[u8], share: f32) {
        self.image.clear();
        self.image.extend_from_slice(image);
        self.sums.clear();
        self.sums.extend(image.iter().map(|&v| f32::from(v) * share));
    }

    /// Writes the image, of which the next copy is made.
    pub(in crate::image) fn copy(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.image);
    }

    /// Adds a share of a changed copy.
    pub(in crate::image) fn add(&mut self, copy: &[u8], share: f32) {
        self.sums.iter_mut().zip(copy).for_each(|(sum, &v)| *sum += f32::from(v) * share);
    }

    /// Writes the blend.
    pub(in crate::image) fn end(&self, out: &mut [u8]) {
        out.iter_mut().zip(&self.sums).for_each(|(to, &sum)| *to = level(sum));
    }
}
