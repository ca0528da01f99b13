//! AugMix (Hendrycks et al., "AugMix: A Simple Data Processing Method to Improve Robustness and Uncertainty", 2020),
//! with torchvision's operations and their ranges.

use forebay_core::Result;
use forebay_core::rng::SampleRng;
use forebay_plan::ops::AugMix;

use super::operations::{Operation, Ranges, either};
use crate::image::augment::{Draws, Edits};
use crate::image::edit::Edit;
use crate::image::edit::warp::{Warp, outside};
use crate::image::real::shares;

/// The number of magnitudes, of which the severity allows the lowest.
const MAGNITUDES: f64 = 10.0;

/// The operations; the last four only with all of them.
const OPERATIONS: [Operation; 13] = [
    Operation::ShearX,
    Operation::ShearY,
    Operation::TranslateX,
    Operation::TranslateY,
    Operation::Rotate,
    Operation::Posterize,
    Operation::Solarize,
    Operation::AutoContrast,
    Operation::Equalize,
    Operation::Brightness,
    Operation::Color,
    Operation::Contrast,
    Operation::Sharpness,
];

impl Draws for AugMix {
    fn probability(&self) -> f64 {
        1.0
    }

    /// Draws the share of the image and that of all copies, and the copies' shares; then for each copy its depth, and
    /// for each operation which it is, its magnitude, and its sign if it has one.
    fn draw(&self, size: (usize, usize), rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        let how = Warp::rotation(0.0, self.interpolation, outside(self.fill.as_deref()));
        let third = |side: usize| side as f64 / 3.0;
        let ranges = Ranges { shift: (third(size.0), third(size.1)), bits: (4.0, 4.0), ..Ranges::auto(size) };
        let among = if self.all_ops { OPERATIONS.len() } else { OPERATIONS.len() - 4 };
        let whole = shares(self.alpha, 2, rng);
        let copies = shares(self.alpha, self.mixture_width, rng);
        edit(Edit::MixBegin { share: whole[0] as f32 })?;
        for share in copies {
            edit(Edit::MixCopy)?;
            let depth = self.chain_depth.unwrap_or_else(|| 1 + rng.up_to(2) as usize);
            for _ in 0..depth {
                let operation = OPERATIONS[rng.up_to(among as u32 - 1) as usize];
                let level = f64::from(rng.up_to(self.severity as u32 - 1)) / (MAGNITUDES - 1.0);
                let drawn = operation.edit(level, ranges, size, &how, |by| either(by, rng));
                drawn.map_or(Ok(()), &mut *edit)?;
            }
            edit(Edit::MixAdd { share: (share * whole[1]) as f32 })?;
        }
        edit(Edit::MixEnd)
    }
}
