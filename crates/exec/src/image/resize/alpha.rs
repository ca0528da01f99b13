//! Opacity in a resize: levels are multiplied by it before, and divided by it after, as Pillow does.
//!
//! So a transparent pixel adds nothing to the colours around it. The last channel is the opacity.

use crate::image::view::{Image, room};

/// Writes the image with its levels multiplied by their opacity.
pub(super) fn multiplied<'a, const C: usize>(image: Image<'_>, buffer: &'a mut Vec<u8>) -> &'a [u8] {
    let row = image.width() * C;
    let out = room(buffer, row * image.height());
    for (from, to) in image.rows().zip(out.chunks_exact_mut(row)) {
        for (from, to) in from.as_chunks::<C>().0.iter().zip(to.as_chunks_mut::<C>().0) {
            let opacity = u32::from(from[C - 1]);
            *to = from.map(|level| {
                let product = u32::from(level) * opacity + 128;
                ((product + (product >> 8)) >> 8) as u8
            });
            to[C - 1] = from[C - 1];
        }
    }
    out
}

/// Divides the levels by their opacity, in place.
pub(super) fn divide<const C: usize>(pixels: &mut [u8]) {
    for pixel in pixels.as_chunks_mut::<C>().0 {
        let opacity = u32::from(pixel[C - 1]);
        if !matches!(opacity, 0 | 255) {
            pixel[..C - 1].iter_mut().for_each(|level| *level = (255 * u32::from(*level) / opacity).min(255) as u8);
        }
    }
}
