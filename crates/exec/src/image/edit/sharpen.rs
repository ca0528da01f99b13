//! Sharpness: torchvision's `adjust_sharpness` of uint8 images.
//!
//! A pixel is moved away from the mean of its surroundings (itself counted five times, rounded to a level). The
//! outermost pixels do not change, and neither does an image with fewer than 3 rows or columns.

use super::lanes::{level, widest};
use crate::image::view::Image;

/// Writes the image with its distance to its blurred self times `factor`, 0 or more.
pub(in crate::image) fn sharpen(image: Image<'_>, factor: f64, out: &mut [u8]) {
    let (height, channels) = (image.height(), image.channels());
    let row = image.width() * channels;
    let moved = (1.0 - factor) as f32;
    for (y, to) in out.chunks_exact_mut(row).enumerate() {
        to.copy_from_slice(image.row(y));
        if y > 0 && y + 1 < height && image.width() > 2 {
            let rows = [image.row(y - 1), image.row(y), image.row(y + 1)];
            sharpen_row(rows, channels, moved, &mut to[channels..row - channels]);
        }
    }
}

widest! {
    fn sharpen_row(rows: [&[u8]; 3], channels: usize, moved: f32, to: &mut [u8]) {
        let len = to.len();
        let [above, own, below] = rows.map(|row| [0, channels, 2 * channels].map(|at| &row[at..at + len]));
        for (i, to) in to.iter_mut().enumerate() {
            let three = |row: [&[u8]; 3]| u32::from(row[0][i]) + u32::from(row[1][i]) + u32::from(row[2][i]);
            let centre = u32::from(own[1][i]);
            let sum = three(above) + three(own) + three(below) + 4 * centre;
            // Rounds to nearest: no multiple of 1/13 is halfway between two levels.
            let mean = (2 * sum + 13) / 26;
            let v = centre as f32;
            *to = level(v + (mean as f32 - v) * moved);
        }
    }
}
