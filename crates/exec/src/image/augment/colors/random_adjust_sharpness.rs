//! The draw of `random_adjust_sharpness`: only the coin.

use forebay_core::Result;
use forebay_core::rng::SampleRng;
use forebay_plan::ops::RandomAdjustSharpness;

use crate::image::augment::{Draws, Edits};
use crate::image::edit::Edit;

impl Draws for RandomAdjustSharpness {
    fn probability(&self) -> f64 {
        self.probability
    }

    fn draw(&self, _size: (usize, usize), _rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        edit(Edit::Sharpness(self.factor))
    }
}
