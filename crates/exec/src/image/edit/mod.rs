//! A change of an image with its drawn parameters: the unit of the random augmentations.
//!
//! The reference is `torchvision.transforms.v2.functional` on uint8 tensors. Where the reference uses integers or a
//! table, the pixels are the same; where it sums products in f32, they are at most one level apart, because PyTorch
//! rounds a product before adding it only on some processors. Here a product is always rounded (see
//! `tests/golden/augment`). Invariant: a recolouring does not depend on the place of a pixel, so it commutes with a
//! flip.
//!
//! - `colour`, `levels`: changes of single pixels
//! - `blur`, `sharpen`: changes that read the pixels around
//! - `warp`: affine maps, and views from another side
//! - `erase`: regions in one colour, or of noise
//! - `mix`: a blend of changed copies
//! - `noise`: noise on every level
//! - `lanes`: loops over pixels that the compiler vectorises

pub(super) mod blur;
mod colour;
pub(super) mod erase;
mod lanes;
mod levels;
pub(super) mod mix;
pub(super) mod noise;
pub(super) mod sharpen;
pub(super) mod warp;

use warp::Warp;

use super::view::Region;

/// A change of every pixel that depends on its colour, and perhaps on all colours of the image, but not on its place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Recolour {
    /// Multiplies levels by this factor, 0 or more.
    Brightness(f64),
    /// Scales the distance from the mean grey by this factor, 0 or more.
    Contrast(f64),
    /// Scales the distance from the pixel's own grey by this factor, 0 or more.
    Saturation(f64),
    /// Turns the hue by this part of a circle, -0.5 to 0.5.
    Hue(f64),
    /// Sets each channel to the pixel's grey.
    Grey,
    /// Keeps only this many bits of each level, 0 to 8.
    Posterize(u32),
    /// Inverts levels from this one on.
    Solarize(f64),
    /// Stretches each channel to all levels.
    AutoContrast,
    /// Spreads each channel's levels evenly.
    Equalize,
    /// Puts the three channels in this order.
    Permute([usize; 3]),
}

/// A change with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Edit {
    /// In place, pixel by pixel.
    Recolour(Recolour),
    /// A Gaussian blur.
    Blur {
        /// Rows and columns of the kernel, an odd number.
        size: usize,
        /// Standard deviation in pixels.
        sigma: f64,
    },
    /// Scales the distance from the mean of the surroundings by this factor, 0 or more.
    Sharpness(f64),
    /// Adds draws of a normal distribution to all levels.
    Noise {
        /// In levels.
        mean: f64,
        /// In levels.
        sigma: f64,
        /// Opens the stream of the draws.
        key: u64,
    },
    /// A map of places.
    Warp(Warp),
    /// Begins a blend with this share of the image.
    MixBegin {
        /// From 0 to 1.
        share: f32,
    },
    /// The image is reset to the beginning of the blend.
    MixCopy,
    /// Adds a share of the image to the blend.
    MixAdd {
        /// From 0 to 1.
        share: f32,
    },
    /// The image becomes the blend.
    MixEnd,
    /// A region in one colour.
    Erase {
        /// The region.
        region: Region,
        /// The colour.
        value: [u8; 3],
    },
}

impl Recolour {
    /// Changes pixels of one or three channels in place. One channel is grey already: it has no hue and no saturation.
    pub(super) fn apply(self, pixels: &mut [u8], channels: usize) {
        match (self, channels) {
            (Self::Brightness(factor), _) => colour::brightness(pixels, factor as f32),
            (Self::Contrast(factor), _) => colour::contrast(pixels, channels, factor),
            (Self::Saturation(factor), 3) => colour::saturation(pixels, factor as f32, (1.0 - factor) as f32),
            (Self::Hue(turn), 3) => colour::hue(pixels, turn as f32),
            (Self::Grey, 3) => colour::grey(pixels),
            (Self::Posterize(bits), _) => levels::posterize(pixels, bits),
            (Self::Solarize(threshold), _) => levels::solarize(pixels, threshold as f32),
            (Self::AutoContrast, _) => levels::autocontrast(pixels, channels),
            (Self::Equalize, _) => levels::equalize(pixels, channels),
            (Self::Permute(order), 3) => colour::permute(pixels, order),
            (Self::Saturation(_) | Self::Hue(_) | Self::Grey | Self::Permute(_), _) => {}
        }
    }
}
