//! The operations from which policies are made (RandAugment and its relatives), with torchvision's magnitudes.

use crate::image::edit::warp::Warp;
use crate::image::edit::{Edit, Recolour};

/// An operation of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Identity,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    Rotate,
    Brightness,
    Color,
    Contrast,
    Sharpness,
    Posterize,
    Solarize,
    AutoContrast,
    Equalize,
    Invert,
}

/// The operations of RandAugment and TrivialAugment, in the order in which they are drawn.
pub(super) const FOURTEEN: [Operation; 14] = [
    Operation::Identity,
    Operation::ShearX,
    Operation::ShearY,
    Operation::TranslateX,
    Operation::TranslateY,
    Operation::Rotate,
    Operation::Brightness,
    Operation::Color,
    Operation::Contrast,
    Operation::Sharpness,
    Operation::Posterize,
    Operation::Solarize,
    Operation::AutoContrast,
    Operation::Equalize,
];

/// The strength of each operation at the greatest level.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranges {
    /// The slope of a shear.
    pub(super) slope: f64,
    /// Columns and rows of a shift.
    pub(super) shift: (f64, f64),
    /// Degrees of a rotation.
    pub(super) degrees: f64,
    /// The change of a factor from 1.
    pub(super) factor: f64,
    /// Bits that a posterised level keeps at level 0, and bits that the greatest level takes from them.
    pub(super) bits: (f64, f64),
}

impl Ranges {
    /// Returns the ranges of AutoAugment and RandAugment for an image of `size` (columns and rows).
    pub(super) fn auto(size: (usize, usize)) -> Self {
        let shift = |side: usize| 150.0 / 331.0 * side as f64;
        Self { slope: 0.3, shift: (shift(size.0), shift(size.1)), degrees: 30.0, factor: 0.9, bits: (8.0, 4.0) }
    }

    /// Returns the ranges of TrivialAugment.
    pub(super) fn wide() -> Self {
        Self { slope: 0.99, shift: (32.0, 32.0), degrees: 135.0, factor: 0.99, bits: (8.0, 6.0) }
    }
}

impl Operation {
    /// Returns the edit for `level`, 0 to 1, of an image of `size`. `signed` draws the sign of the magnitude that it
    /// gets. `how` has the interpolation and the fill of a warp.
    pub(super) fn edit(
        self,
        level: f64,
        ranges: Ranges,
        size: (usize, usize),
        how: &Warp,
        mut signed: impl FnMut(f64) -> f64,
    ) -> Option<Edit> {
        let mut signed = |most: f64| signed(level * most);
        Some(match self {
            Self::Identity => return None,
            Self::ShearX => Edit::Warp(Warp::shear(signed(ranges.slope), false, size, how)),
            Self::ShearY => Edit::Warp(Warp::shear(signed(ranges.slope), true, size, how)),
            Self::TranslateX => Edit::Warp(Warp::shift(signed(ranges.shift.0).trunc(), 0.0, how)),
            Self::TranslateY => Edit::Warp(Warp::shift(0.0, signed(ranges.shift.1).trunc(), how)),
            Self::Rotate => Edit::Warp(Warp::rotation(signed(ranges.degrees), how.interpolation, how.fill)),
            Self::Brightness => Edit::Recolour(Recolour::Brightness(1.0 + signed(ranges.factor))),
            Self::Color => Edit::Recolour(Recolour::Saturation(1.0 + signed(ranges.factor))),
            Self::Contrast => Edit::Recolour(Recolour::Contrast(1.0 + signed(ranges.factor))),
            Self::Sharpness => Edit::Sharpness(1.0 + signed(ranges.factor)),
            Self::Posterize => {
                Edit::Recolour(Recolour::Posterize((ranges.bits.0 - level * ranges.bits.1).round_ties_even() as u32))
            }
            Self::Solarize => Edit::Recolour(Recolour::Solarize(255.0 * (1.0 - level))),
            Self::AutoContrast => Edit::Recolour(Recolour::AutoContrast),
            Self::Equalize => Edit::Recolour(Recolour::Equalize),
            Self::Invert => Edit::Recolour(Recolour::Solarize(0.0)),
        })
    }
}

/// Gives a magnitude either sign.
pub(super) fn either(magnitude: f64, rng: &mut forebay_core::rng::SampleRng) -> f64 {
    if rng.unit() < 0.5 { -magnitude } else { magnitude }
}
