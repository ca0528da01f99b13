//! TrivialAugment (Müller and Hutter, "TrivialAugment: Tuning-free yet state-of-the-art data augmentation", 2021), with
//! the fourteen operations and wide ranges of torchvision's `TrivialAugmentWide`.

use forebay_core::Result;
use forebay_core::rng::SampleRng;
use forebay_plan::ops::TrivialAugment;

use super::operations::{FOURTEEN, Ranges, either};
use crate::image::augment::{Draws, Edits};
use crate::image::edit::warp::{Warp, outside};

impl Draws for TrivialAugment {
    fn probability(&self) -> f64 {
        1.0
    }

    /// Draws the operation, its magnitude, and then its sign if it has one.
    fn draw(&self, size: (usize, usize), rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        let how = Warp::rotation(0.0, self.interpolation, outside(self.fill.as_deref()));
        let operation = FOURTEEN[rng.up_to(13) as usize];
        let last = (self.num_magnitude_bins - 1) as u32;
        let level = f64::from(rng.up_to(last)) / f64::from(last);
        operation.edit(level, Ranges::wide(), size, &how, |by| either(by, rng)).map_or(Ok(()), edit)
    }
}
