//! Random augmentations: which edits an image gets, drawn from its stream.
//!
//! The distributions are torchvision's. Invariant: the draws of one augmentation of one sample come from one stream in a
//! fixed order, the coin of `p` first, so that nothing else moves them.

use forebay_core::rng::SampleRng;
use forebay_core::{Error, Result};

use super::edit::{Edit, Recolour};
use super::erase::erase_floats;
use super::geometry::random_erasing;
use super::normalize::Layout;
use super::rand_augment;
use super::warp::{Interpolation, Warp};

/// A random augmentation of 8-bit pixels that keeps the image's size.
#[derive(Debug, Clone, PartialEq)]
pub enum Augment {
    /// Brightness, contrast, saturation and hue in random order, each by a factor (a turn for the hue) uniform within
    /// its interval; none leaves it alone.
    ColorJitter {
        /// Least and greatest factor.
        brightness: Option<(f64, f64)>,
        /// Least and greatest factor.
        contrast: Option<(f64, f64)>,
        /// Least and greatest factor.
        saturation: Option<(f64, f64)>,
        /// Least and greatest part of a circle, within -0.5 and 0.5.
        hue: Option<(f64, f64)>,
        /// The probability of any of it.
        p: f64,
    },
    /// Grey, in as many channels as before.
    Grayscale {
        /// The probability.
        p: f64,
    },
    /// A Gaussian blur with a deviation uniform within an interval.
    GaussianBlur {
        /// Rows and columns of the kernel, an odd number.
        size: usize,
        /// Least and greatest standard deviation in pixels.
        sigma: (f64, f64),
        /// The probability.
        p: f64,
    },
    /// A turn to the left about the centre, uniform within an interval.
    Rotation {
        /// Least and greatest angle.
        degrees: (f64, f64),
        /// How a pixel between pixels is made.
        interpolation: Interpolation,
        /// The pixel outside; `None` is zeros, see `Warp`.
        fill: Option<[u8; 3]>,
    },
    /// A rectangle overwritten. The only one that may follow `Normalize`.
    Erasing {
        /// The probability.
        p: f64,
        /// The least and the greatest share of the image's area.
        scale: (f64, f64),
        /// The least and the greatest height by width.
        ratio: (f64, f64),
        /// A number for all channels or one for each; none for normal draws, after `Normalize` alone.
        value: Option<Vec<f32>>,
    },
    /// Operations out of torchvision's fourteen of RandAugment, one after another.
    RandAugment {
        /// How many.
        num_ops: usize,
        /// How strong, below `bins`.
        magnitude: usize,
        /// The number of magnitudes, at least 2.
        bins: usize,
        /// How a pixel between pixels is made.
        interpolation: Interpolation,
        /// The pixel outside; `None` is zeros, see `Warp`.
        fill: Option<[u8; 3]>,
    },
}

/// The most rows of a blur's kernel.
const BLUR_MAX: usize = 1001;

impl Augment {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::ColorJitter { .. } => "color jitter",
            Self::Grayscale { .. } => "grayscale",
            Self::GaussianBlur { .. } => "gaussian blur",
            Self::Rotation { .. } => "rotation",
            Self::Erasing { .. } => "erasing",
            Self::RandAugment { .. } => "rand augment",
        }
    }

    /// Checks the arguments.
    pub(super) fn check(&self) -> Result<()> {
        let (name, p) = (self.name(), self.probability());
        within(name, "p", (p, p), (0.0, 1.0))?;
        match *self {
            Self::ColorJitter { brightness, contrast, saturation, hue, .. } => {
                for (what, interval) in [("brightness", brightness), ("contrast", contrast), ("saturation", saturation)]
                {
                    within(name, what, interval.unwrap_or((1.0, 1.0)), (0.0, 1e9))?;
                }
                within(name, "hue", hue.unwrap_or((0.0, 0.0)), (-0.5, 0.5))
            }
            Self::GaussianBlur { size, .. } if size % 2 == 0 || size > BLUR_MAX => {
                Err(Error::invalid(format!("{name} of {size} pixels, not odd and within 1 and {BLUR_MAX}")))
            }
            Self::GaussianBlur { sigma, .. } => within(name, "sigma", sigma, (1e-9, 1e9)),
            Self::Rotation { degrees, .. } => within(name, "degrees", degrees, (-1e6, 1e6)),
            Self::Erasing { value: Some(ref value), .. } if value.is_empty() => {
                Err(Error::invalid(format!("{name} with no value")))
            }
            Self::Erasing { scale, ratio, .. } => {
                within(name, "scale", scale, (0.0, 1.0))?;
                within(name, "ratio", ratio, (1e-9, 1e9))
            }
            Self::RandAugment { magnitude, bins, .. } if bins < 2 || magnitude >= bins => {
                Err(Error::invalid(format!("{name} with magnitude {magnitude} of {bins}")))
            }
            Self::Grayscale { .. } | Self::RandAugment { .. } => Ok(()),
        }
    }

    fn probability(&self) -> f64 {
        match *self {
            Self::ColorJitter { p, .. }
            | Self::Grayscale { p }
            | Self::GaussianBlur { p, .. }
            | Self::Erasing { p, .. } => p,
            Self::Rotation { .. } | Self::RandAugment { .. } => 1.0,
        }
    }

    /// Draws for an image of `size`, columns and rows, and hands over each edit in turn.
    ///
    /// # Errors
    /// Whatever `edit` returns.
    pub(super) fn draw(
        &self,
        size: (usize, usize),
        rng: &mut SampleRng,
        mut edit: impl FnMut(Edit) -> Result<()>,
    ) -> Result<()> {
        if rng.unit() >= self.probability() {
            return Ok(());
        }
        match *self {
            Self::ColorJitter { brightness, contrast, saturation, hue, .. } => {
                let order = permutation::<4>(rng);
                let mut factor = |interval: Option<(f64, f64)>| interval.map(|(low, high)| rng.uniform(low, high));
                let recolours = [
                    factor(brightness).map(Recolour::Brightness),
                    factor(contrast).map(Recolour::Contrast),
                    factor(saturation).map(Recolour::Saturation),
                    factor(hue).map(Recolour::Hue),
                ];
                order.into_iter().filter_map(|i| recolours[i]).try_for_each(|r| edit(Edit::Recolour(r)))
            }
            Self::Grayscale { .. } => edit(Edit::Recolour(Recolour::Grey)),
            Self::GaussianBlur { size: kernel, sigma: (low, high), .. } => {
                edit(Edit::Blur { size: kernel, sigma: rng.uniform(low, high) })
            }
            Self::Rotation { degrees: (low, high), interpolation, fill } => {
                edit(Edit::Warp(Warp::rotation(rng.uniform(low, high), interpolation, fill)))
            }
            Self::Erasing { scale, ratio, ref value, .. } => {
                let Some(region) = random_erasing(size, scale, ratio, rng) else { return Ok(()) };
                let value = value.as_ref().ok_or_else(|| {
                    Error::invalid("erasing with normal draws makes no 8-bit pixels").hint("put it after normalize")
                })?;
                edit(Edit::Erase { region, value: std::array::from_fn(|c| value[c % value.len()] as u8) })
            }
            Self::RandAugment { num_ops, magnitude, bins, interpolation, fill } => {
                let level = magnitude as f64 / (bins - 1) as f64;
                let how = Warp::rotation(0.0, interpolation, fill);
                (0..num_ops).try_for_each(|_| rand_augment::draw(level, size, &how, rng, &mut edit))
            }
        }
    }

    /// Does to an image of f32 what can be done to one.
    ///
    /// # Errors
    /// Invalid for anything but erasing.
    pub(super) fn apply_to_floats(
        &self,
        bytes: &mut [u8],
        shape: [usize; 3],
        layout: Layout,
        rng: &mut SampleRng,
    ) -> Result<()> {
        let Self::Erasing { p, scale, ratio, ref value } = *self else {
            return Err(Error::invalid(format!("{} of an image of floats", self.name())));
        };
        if rng.unit() < p {
            let size = layout.size(shape);
            if let Some(region) = random_erasing(size, scale, ratio, rng) {
                erase_floats(bytes, shape, layout, region, value.as_deref(), rng);
            }
        }
        Ok(())
    }
}

/// Draws a permutation of the first `N` numbers (Fisher and Yates).
fn permutation<const N: usize>(rng: &mut SampleRng) -> [usize; N] {
    let mut order = std::array::from_fn(|i| i);
    (1..N).rev().for_each(|i| order.swap(i, rng.up_to(i as u32) as usize));
    order
}

fn within(name: &str, what: &str, (low, high): (f64, f64), (least, most): (f64, f64)) -> Result<()> {
    if least <= low && low <= high && high <= most {
        return Ok(());
    }
    Err(Error::invalid(format!("{name} with {what} {low} to {high}, not within {least} and {most}")))
}
