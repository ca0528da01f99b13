//! The draw of `random_invert`: only the coin.

use forebay_core::Result;
use forebay_core::rng::SampleRng;
use forebay_plan::ops::RandomInvert;

use crate::image::augment::{Draws, Edits};
use crate::image::edit::{Edit, Recolour};

impl Draws for RandomInvert {
    fn probability(&self) -> f64 {
        self.probability
    }

    fn draw(&self, _size: (usize, usize), _rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        edit(Edit::Recolour(Recolour::Solarize(0.0)))
    }
}
