//! RandAugment (Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search space", 2019),
//! with torchvision's fourteen operations and their ranges.

use forebay_core::Result;
use forebay_core::rng::SampleRng;
use forebay_plan::ops::RandAugment;

use super::{Draws, Edits};
use crate::image::edit::warp::{Warp, outside};
use crate::image::edit::{Edit, Recolour};

impl Draws for RandAugment {
    fn probability(&self) -> f64 {
        1.0
    }

    fn draw(&self, size: (usize, usize), rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        let level = self.magnitude as f64 / (self.num_magnitude_bins - 1) as f64;
        let how = Warp::rotation(0.0, self.interpolation, outside(self.fill.as_deref()));
        (0..self.num_ops).try_for_each(|_| draw(level, size, &how, rng, edit))
    }
}

/// Draws one operation at `level`, 0 to 1, of its range, and passes its edit to `edit`. `how` has the interpolation and
/// fill of warps.
///
/// # Errors
/// Any error of `edit`.
fn draw(level: f64, size: (usize, usize), how: &Warp, rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
    let operation = rng.up_to(13);
    // Half of the signed operations use the other direction.
    let mut signed = |most: f64| if rng.unit() < 0.5 { -level * most } else { level * most };
    let shift = |side: usize| 150.0 / 331.0 * side as f64;
    edit(match operation {
        0 => return Ok(()),
        1 => Edit::Warp(Warp::shear(signed(0.3), false, size, how)),
        2 => Edit::Warp(Warp::shear(signed(0.3), true, size, how)),
        3 => Edit::Warp(Warp::shift(signed(shift(size.0)).trunc(), 0.0, how)),
        4 => Edit::Warp(Warp::shift(0.0, signed(shift(size.1)).trunc(), how)),
        5 => Edit::Warp(Warp::rotation(signed(30.0), how.interpolation, how.fill)),
        6 => Edit::Recolour(Recolour::Brightness(1.0 + signed(0.9))),
        7 => Edit::Recolour(Recolour::Saturation(1.0 + signed(0.9))),
        8 => Edit::Recolour(Recolour::Contrast(1.0 + signed(0.9))),
        9 => Edit::Sharpness(1.0 + signed(0.9)),
        10 => Edit::Recolour(Recolour::Posterize((8.0 - level * 4.0).round_ties_even() as u32)),
        11 => Edit::Recolour(Recolour::Solarize(255.0 * (1.0 - level))),
        12 => Edit::Recolour(Recolour::AutoContrast),
        _ => Edit::Recolour(Recolour::Equalize),
    })
}
