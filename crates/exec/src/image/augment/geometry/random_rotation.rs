//! The draw of `random_rotation`: the angle.

use forebay_core::Result;
use forebay_core::rng::SampleRng;
use forebay_plan::ops::RandomRotation;

use crate::image::augment::{Draws, Edits};
use crate::image::edit::Edit;
use crate::image::edit::warp::{Warp, outside};

impl Draws for RandomRotation {
    fn probability(&self) -> f64 {
        1.0
    }

    fn draw(&self, _size: (usize, usize), rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        let degrees = rng.uniform(self.degrees.0, self.degrees.1);
        edit(Edit::Warp(Warp::rotation(degrees, self.interpolation, outside(self.fill.as_deref()))))
    }
}
