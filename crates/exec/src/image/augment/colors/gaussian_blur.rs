//! The draw of `gaussian_blur`: the deviation.

use forebay_core::Result;
use forebay_core::rng::SampleRng;
use forebay_plan::ops::GaussianBlur;

use crate::image::augment::{Draws, Edits};
use crate::image::edit::Edit;

impl Draws for GaussianBlur {
    fn probability(&self) -> f64 {
        self.probability
    }

    fn draw(&self, _size: (usize, usize), rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        edit(Edit::Blur { size: self.kernel_size, sigma: rng.uniform(self.sigma.0, self.sigma.1) })
    }
}
