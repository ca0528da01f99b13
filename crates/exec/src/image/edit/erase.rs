//! Random erasing (Zhong et al., "Random Erasing Data Augmentation", 2017): overwrites a rectangle of an image.
//!
//! On 8-bit pixels it is an edit like any other. On a normalised image it is the last step, in the batch's slot,
//! because f32 pixels exist nowhere else.

use forebay_core::rng::SampleRng;
use forebay_plan::Layout;

use crate::image::real::normal;
use crate::image::view::Region;

/// Overwrites a region of 8-bit pixels of `width` columns.
pub(in crate::image) fn erase(pixels: &mut [u8], width: usize, channels: usize, region: Region, value: [u8; 3]) {
    for row in pixels.chunks_exact_mut(width * channels).skip(region.y).take(region.height) {
        for pixel in row[region.x * channels..][..region.width * channels].chunks_exact_mut(channels) {
            pixel.copy_from_slice(&value[..channels]);
        }
    }
}

/// Overwrites a region of an image of f32: with one value, one for each channel, or (without values) draws from the
/// standard normal distribution, channel by channel, row by row.
pub(in crate::image) fn erase_floats(
    bytes: &mut [u8],
    shape: [usize; 3],
    layout: Layout,
    region: Region,
    value: Option<&[f64]>,
    rng: &mut SampleRng,
) {
    let numbers = bytes.as_chunks_mut::<4>().0;
    let (width, channels) = match layout {
        Layout::Hwc => (shape[1], shape[2]),
        Layout::Chw | Layout::Cthw => (shape[2], shape[0]),
    };
    let plane = numbers.len() / channels;
    for channel in 0..channels {
        let fixed = value.map(|value| value[channel % value.len()] as f32);
        for y in region.y..region.y + region.height {
            for x in region.x..region.x + region.width {
                let at = match layout {
                    Layout::Hwc => (y * width + x) * channels + channel,
                    Layout::Chw | Layout::Cthw => channel * plane + y * width + x,
                };
                numbers[at] = fixed.unwrap_or_else(|| normal(rng) as f32).to_ne_bytes();
            }
        }
    }
}
