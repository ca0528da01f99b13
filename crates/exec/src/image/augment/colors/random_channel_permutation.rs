//! The draw of `random_channel_permutation`: the order.

use forebay_core::Result;
use forebay_core::rng::SampleRng;
use forebay_plan::ops::RandomChannelPermutation;

use super::color_jitter::permutation;
use crate::image::augment::{Draws, Edits};
use crate::image::edit::{Edit, Recolour};

impl Draws for RandomChannelPermutation {
    fn probability(&self) -> f64 {
        1.0
    }

    fn draw(&self, _size: (usize, usize), rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        edit(Edit::Recolour(Recolour::Permute(permutation::<3>(rng))))
    }
}
