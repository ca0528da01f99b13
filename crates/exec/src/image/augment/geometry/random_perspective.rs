//! The draws of `random_perspective`: the new places of the four corners, clockwise from the upper left one.

use forebay_core::Result;
use forebay_core::rng::SampleRng;
use forebay_plan::ops::RandomPerspective;

use crate::image::augment::{Draws, Edits};
use crate::image::edit::Edit;
use crate::image::edit::warp::{Warp, outside};

impl Draws for RandomPerspective {
    fn probability(&self) -> f64 {
        self.probability
    }

    /// Corners that do not span a convex shape leave the image as it is. Only a distortion close to 1 draws such
    /// corners.
    fn draw(&self, (width, height): (usize, usize), rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        let most = |side: usize| (self.distortion_scale * (side / 2) as f64) as u32;
        let (across, down) = (most(width), most(height));
        let (right, lower) = (width as f64 - 1.0, height as f64 - 1.0);
        let mut moved = |x: f64, y: f64| {
            let (by_x, by_y) = (f64::from(rng.up_to(across)), f64::from(rng.up_to(down)));
            [(x - by_x).abs(), (y - by_y).abs()]
        };
        let corners = [moved(0.0, 0.0), moved(right, 0.0), moved(right, lower), moved(0.0, lower)];
        let how = Warp::rotation(0.0, self.interpolation, outside(self.fill.as_deref()));
        match Warp::perspective(corners, (width, height), &how) {
            Some(warp) => edit(Edit::Warp(warp)),
            None => Ok(()),
        }
    }
}
