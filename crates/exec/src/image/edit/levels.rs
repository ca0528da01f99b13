//! Changes of the levels of each channel: posterise, solarise, stretch, equalise. Each is a table.
//!
//! torchvision's `posterize`, `solarize`, `autocontrast` and `equalize` of uint8 images, to the bit.

use super::colour::look_up;
use super::lanes::level;

/// Keeps the highest bits, 0 to 8, of each level.
pub(super) fn posterize(pixels: &mut [u8], bits: u32) {
    let mask = (0xFF00_u32 >> bits.min(8)) as u8;
    pixels.iter_mut().for_each(|v| *v &= mask);
}

/// Inverts the levels from `threshold` on.
pub(super) fn solarize(pixels: &mut [u8], threshold: f32) {
    let inverted = |v: usize| if v as f32 >= threshold { 255 - v as u8 } else { v as u8 };
    look_up(pixels, &std::array::from_fn(inverted));
}

/// Stretches each channel to 0..=255.
pub(super) fn autocontrast(pixels: &mut [u8], channels: usize) {
    each_channel(pixels, channels, |counts| {
        let least = counts.iter().position(|&n| n > 0).unwrap_or(0);
        let most = counts.iter().rposition(|&n| n > 0).unwrap_or(0);
        if least == most {
            return None;
        }
        let unit = (most - least) as f32 * (1.0 / 255.0);
        Some(std::array::from_fn(|v| level((v as f32 - least as f32) / unit)))
    });
}

/// Spreads the levels of each channel so that all are about equally frequent, by Pillow's rule.
pub(super) fn equalize(pixels: &mut [u8], channels: usize) {
    each_channel(pixels, channels, |counts| {
        let total: u64 = counts.iter().sum();
        let last = counts.iter().rev().find(|&&n| n > 0).copied().unwrap_or(0);
        let step = (total - last) / 255;
        if step == 0 {
            return None;
        }
        let mut below = step / 2;
        Some(std::array::from_fn(|v| {
            let level = (below / step).min(255) as u8;
            below += counts[v];
            level
        }))
    });
}

/// Changes each channel by the table that `table` computes from its histogram, if it returns one.
fn each_channel(pixels: &mut [u8], channels: usize, table: impl Fn(&[u64; 256]) -> Option<[u8; 256]>) {
    for channel in 0..channels {
        let mut counts = [0; 256];
        pixels.iter().skip(channel).step_by(channels).for_each(|&v| counts[usize::from(v)] += 1);
        if let Some(table) = table(&counts) {
            pixels.iter_mut().skip(channel).step_by(channels).for_each(|v| *v = table[usize::from(*v)]);
        }
    }
}
