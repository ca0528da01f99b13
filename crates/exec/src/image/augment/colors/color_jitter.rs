//! The draws of random colour changes: the order and factors of `color_jitter`, only the coin of `random_grayscale`.

use forebay_core::Result;
use forebay_core::rng::SampleRng;
use forebay_plan::ops::{ColorJitter, RandomGrayscale};

use crate::image::augment::{Draws, Edits};
use crate::image::edit::{Edit, Recolour};

impl Draws for ColorJitter {
    fn probability(&self) -> f64 {
        self.probability
    }

    fn draw(&self, _size: (usize, usize), rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        let order = permutation::<4>(rng);
        let mut factor = |interval: Option<(f64, f64)>| interval.map(|(low, high)| rng.uniform(low, high));
        let recolours = [
            factor(self.brightness).map(Recolour::Brightness),
            factor(self.contrast).map(Recolour::Contrast),
            factor(self.saturation).map(Recolour::Saturation),
            factor(self.hue).map(Recolour::Hue),
        ];
        order.into_iter().filter_map(|i| recolours[i]).try_for_each(|r| edit(Edit::Recolour(r)))
    }
}

impl Draws for RandomGrayscale {
    fn probability(&self) -> f64 {
        self.probability
    }

    fn draw(&self, _size: (usize, usize), _rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        edit(Edit::Recolour(Recolour::Grey))
    }
}

/// Draws a permutation of the first `N` numbers (Fisher and Yates).
pub(super) fn permutation<const N: usize>(rng: &mut SampleRng) -> [usize; N] {
    let mut order = std::array::from_fn(|i| i);
    (1..N).rev().for_each(|i| order.swap(i, rng.up_to(i as u32) as usize));
    order
}
