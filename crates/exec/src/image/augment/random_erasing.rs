//! The draws of `random_erasing`: the rectangle, and after `normalize` the numbers in it.

use forebay_core::rng::SampleRng;
use forebay_core::{Error, Result};
use forebay_plan::Layout;
use forebay_plan::ops::RandomErasing;

use super::{Draws, Edits};
use crate::image::edit::Edit;
use crate::image::edit::erase::erase_floats;
use crate::image::geometry::random_erasing;

impl Draws for RandomErasing {
    fn probability(&self) -> f64 {
        self.probability
    }

    fn draw(&self, size: (usize, usize), rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        let Some(region) = random_erasing(size, self.scale, self.ratio, rng) else { return Ok(()) };
        let value = self.value.as_ref().ok_or_else(|| {
            Error::invalid("erasing with normal draws makes no 8-bit pixels").hint("put it after normalize")
        })?;
        edit(Edit::Erase { region, value: std::array::from_fn(|c| value[c % value.len()] as u8) })
    }

    fn takes_floats(&self) -> bool {
        true
    }

    fn change_floats(&self, bytes: &mut [u8], shape: [usize; 3], layout: Layout, rng: &mut SampleRng) {
        if let Some(region) = random_erasing(layout.size(shape), self.scale, self.ratio, rng) {
            erase_floats(bytes, shape, layout, region, self.value.as_deref(), rng);
        }
    }
}
