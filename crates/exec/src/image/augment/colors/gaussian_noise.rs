//! The draws of `gaussian_noise`: the deviation, and the key of the noise, whose draws the kernel makes.

use forebay_core::Result;
use forebay_core::rng::SampleRng;
use forebay_plan::ops::GaussianNoise;

use crate::image::augment::{Draws, Edits};
use crate::image::edit::Edit;

impl Draws for GaussianNoise {
    fn probability(&self) -> f64 {
        self.probability
    }

    fn draw(&self, _size: (usize, usize), rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        let sigma = rng.uniform(self.sigma.0, self.sigma.1);
        edit(Edit::Noise { mean: self.mean * 255.0, sigma: sigma * 255.0, key: rng.next_u64() })
    }
}
