//! Brightness, contrast, saturation, hue and grey: torchvision's `adjust_*` and `rgb_to_grayscale` of uint8 images.
//!
//! Grey is `0.2989 r + 0.587 g + 0.114 b` rounded down, computed exactly (torchvision rounds each product to f32, which
//! gives the level below for a colour in ten thousand). The other numbers are f32 in torchvision's order.

use super::lanes::{LANES, Planes, blocks, change, level, widest};

/// Multiplies each level by `factor`.
pub(super) fn brightness(pixels: &mut [u8], factor: f32) {
    look_up(pixels, &std::array::from_fn(|v| level(v as f32 * factor)));
}

/// Blends with the mean grey, as one number for the image.
pub(super) fn contrast(pixels: &mut [u8], channels: usize, factor: f64) {
    let sum = if channels == 3 { sum_of_greys(pixels) } else { pixels.iter().map(|&v| u64::from(v)).sum() };
    let mean = (sum as f64 / (pixels.len() / channels) as f64) as f32;
    let (kept, added) = (factor as f32, mean * (1.0 - factor) as f32);
    look_up(pixels, &std::array::from_fn(|v| level(v as f32 * kept + added)));
}

/// Puts the channels in another order: the first becomes the one that `order` names first.
pub(super) fn permute(pixels: &mut [u8], order: [usize; 3]) {
    pixels.as_chunks_mut::<3>().0.iter_mut().for_each(|pixel| *pixel = order.map(|channel| pixel[channel]));
}

/// Replaces each level by a table's entry.
pub(super) fn look_up(pixels: &mut [u8], table: &[u8; 256]) {
    pixels.iter_mut().for_each(|v| *v = table[usize::from(*v)]);
}

widest! {
    /// Blends each pixel with its grey: `kept` of the pixel, `1 - kept` of the grey in `added`.
    pub(super) fn saturation(pixels: &mut [u8], kept: f32, added: f32) {
        change(pixels, |planes| {
            let grey = greys(planes);
            for plane in planes {
                (0..LANES).for_each(|i| plane[i] = plane[i] * kept + grey[i] * added);
            }
        });
    }
}

widest! {
    /// Replaces each channel by the pixel's grey.
    pub(super) fn grey(pixels: &mut [u8]) {
        change(pixels, |planes| *planes = [greys(planes); 3]);
    }
}

widest! {
    fn sum_of_greys(pixels: &[u8]) -> u64 {
        let mut sum = 0;
        blocks(pixels, |planes| sum += greys(planes).iter().map(|&v| v as u64).sum::<u64>());
        sum
    }
}

/// Returns the grey of each pixel, a whole number.
#[inline(always)]
fn greys([r, g, b]: &Planes) -> [f32; LANES] {
    // Ten thousand greys and a half are exact in f32. The half keeps the product away from a whole number by more than
    // its two roundings can move it (5e-5 of a level; they move it by 2.3e-5 at most).
    let mut grey = [0.0; LANES];
    for i in 0..LANES {
        let scaled = 2989.0 * r[i] + 5870.0 * g[i] + 1140.0 * b[i] + 0.5;
        grey[i] = f32::from(level(scaled * 1e-4));
    }
    grey
}

widest! {
    /// Turns the hue by `turn` of a circle, in HSV.
    pub(super) fn hue(pixels: &mut [u8], turn: f32) {
        change(pixels, |planes| {
            let [r, g, b] = planes;
            for i in 0..LANES {
                [r[i], g[i], b[i]] = turned([r[i], g[i], b[i]], turn);
            }
        });
    }
}

#[inline(always)]
fn turned(rgb: [f32; 3], turn: f32) -> [f32; 3] {
    let [r, g, b] = rgb.map(|v| v * (1.0 / 255.0));
    let (most, least) = (r.max(g).max(b), r.min(g).min(b));
    let range = most - least;
    let (s, divisor) = if range == 0.0 { (0.0, 1.0) } else { (range / most, range) };
    let [rc, gc, bc] = [r, g, b].map(|v| (most - v) / divisor);
    let sector = if most == r {
        bc - gc
    } else if most == g {
        rc + 2.0 - bc
    } else {
        gc + 4.0 - rc
    };
    let h = wrapped(sector * (1.0 / 6.0) + 1.0);
    let h = wrapped(h + turn) * 6.0;
    // SAFETY: the hue is within 0 and 1, so this is within 0 and 6.
    let whole = unsafe { h.to_int_unchecked::<i32>() };
    let f = h - whole as f32;
    let clamped = |v: f32| v.clamp(0.0, 1.0);
    let v = most;
    let p = clamped((1.0 - s) * v);
    let q = clamped((1.0 - s * f) * v);
    let t = clamped((s * f + (1.0 - s)) * v);
    let pick = |of: [f32; 6]| {
        let low = if whole == 0 || whole == 6 {
            of[0]
        } else if whole == 1 {
            of[1]
        } else {
            of[2]
        };
        let high = if whole == 3 {
            of[3]
        } else if whole == 4 {
            of[4]
        } else {
            of[5]
        };
        if whole < 3 || whole == 6 { low } else { high }
    };
    [pick([v, q, p, p, t, v]), pick([t, v, v, q, p, p]), pick([p, p, t, v, v, q])].map(|v| v * 255.999)
}

/// Returns the remainder by 1 of a number above -1 and below 2.
#[inline(always)]
fn wrapped(v: f32) -> f32 {
    if v < 0.0 {
        v + 1.0
    } else if v >= 1.0 {
        v - 1.0
    } else {
        v
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_is_exact_for_every_colour() {
        for r in 0..=255u32 {
            let mut pixels: Vec<u8> = (0..65_536u32).flat_map(|gb| [r as u8, (gb >> 8) as u8, gb as u8]).collect();
            grey(&mut pixels);
            for (gb, got) in (0..65_536u32).zip(pixels.as_chunks::<3>().0) {
                let want = ((2989 * r + 5870 * (gb >> 8) + 1140 * (gb & 255)) / 10_000) as u8;
                assert_eq!(*got, [want; 3], "{r} {gb:x}");
            }
        }
    }
}
