//! The draw of `random_posterize`: only the coin.

use forebay_core::Result;
use forebay_core::rng::SampleRng;
use forebay_plan::ops::RandomPosterize;

use crate::image::augment::{Draws, Edits};
use crate::image::edit::{Edit, Recolour};

impl Draws for RandomPosterize {
    fn probability(&self) -> f64 {
        self.probability
    }

    fn draw(&self, _size: (usize, usize), _rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        edit(Edit::Recolour(Recolour::Posterize(self.bits as u32)))
    }
}
