//! The draws of `random_affine`: the angle, the shift, the factor and the shears, in this order.

use forebay_core::Result;
use forebay_core::rng::SampleRng;
use forebay_plan::ops::RandomAffine;

use crate::image::augment::{Draws, Edits};
use crate::image::edit::Edit;
use crate::image::edit::warp::{Warp, outside};

impl Draws for RandomAffine {
    fn probability(&self) -> f64 {
        1.0
    }

    fn draw(&self, (width, height): (usize, usize), rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        let degrees = rng.uniform(self.degrees.0, self.degrees.1);
        let mut shift = |share: f64, side: usize| {
            let most = share * side as f64;
            if share > 0.0 { rng.uniform(-most, most).round_ties_even() } else { 0.0 }
        };
        let shift = (shift(self.translate.0, width), shift(self.translate.1, height));
        let scale = self.scale.map_or(1.0, |(low, high)| rng.uniform(low, high));
        let shear = self.shear.map_or([0.0; 2], |shear| shear.map(|(low, high)| rng.uniform(low, high)));
        let how = Warp::rotation(0.0, self.interpolation, outside(self.fill.as_deref()));
        edit(Edit::Warp(Warp::affine(degrees, shift, scale, shear, &how)))
    }
}
