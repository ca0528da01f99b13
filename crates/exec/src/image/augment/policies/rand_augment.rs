//! RandAugment (Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search space", 2019),
//! with torchvision's fourteen operations and their ranges.

use forebay_core::Result;
use forebay_core::rng::SampleRng;
use forebay_plan::ops::RandAugment;

use super::operations::{FOURTEEN, Ranges, either};
use crate::image::augment::{Draws, Edits};
use crate::image::edit::warp::{Warp, outside};

impl Draws for RandAugment {
    fn probability(&self) -> f64 {
        1.0
    }

    /// Draws each operation, and then its sign if it has one.
    fn draw(&self, size: (usize, usize), rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        let level = self.magnitude as f64 / (self.num_magnitude_bins - 1) as f64;
        let how = Warp::rotation(0.0, self.interpolation, outside(self.fill.as_deref()));
        (0..self.num_ops).try_for_each(|_| {
            let operation = FOURTEEN[rng.up_to(13) as usize];
            let drawn = operation.edit(level, Ranges::auto(size), size, &how, |by| either(by, rng));
            drawn.map_or(Ok(()), &mut *edit)
        })
    }
}
