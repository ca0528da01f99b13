//! Random augmentations: which edits an image gets, drawn from its stream.
//!
//! The distributions are torchvision's. Each op of the plan draws its edits in a file here. Invariant: the draws of one
//! augmentation of one sample come from one stream in a fixed order, the coin of `p` first, so that no other code
//! shifts them.

mod colors;
mod geometry;
mod policies;
mod random_erasing;

use std::fmt::Debug;
use std::sync::Arc;

use forebay_core::rng::SampleRng;
use forebay_core::{Error, Result};
use forebay_plan::{Layout, Op};

use crate::image::edit::Edit;

/// A random augmentation that keeps the image's size.
#[derive(Debug, Clone)]
pub struct Augment {
    name: &'static str,
    draws: Arc<dyn Draws>,
}

/// The random draws of an op for an image. The plan has checked its arguments.
pub(super) trait Draws: Debug + Send + Sync {
    /// Returns the probability that an image is changed.
    fn probability(&self) -> f64;

    /// Draws the edits for an image of `size` (columns and rows) that is changed, and passes each to `edit` in turn.
    fn draw(&self, size: (usize, usize), rng: &mut SampleRng, edit: Edits<'_>) -> Result<()>;

    /// Says whether it also changes images of f32, after `normalize`.
    fn takes_floats(&self) -> bool {
        false
    }

    /// Changes an image of f32, if it accepts them.
    fn change_floats(&self, _bytes: &mut [u8], _shape: [usize; 3], _layout: Layout, _rng: &mut SampleRng) {}
}

/// Receives the edits of an image, one after another.
pub(super) type Edits<'a> = &'a mut dyn FnMut(Edit) -> Result<()>;

impl Augment {
    /// Returns the augmentation of an op, if it is one.
    pub fn of(op: &Op) -> Option<Self> {
        let draws: Arc<dyn Draws> = match op {
            Op::ColorJitter(op) => Arc::new(op.clone()),
            Op::RandomGrayscale(op) => Arc::new(op.clone()),
            Op::RandomSolarize(op) => Arc::new(op.clone()),
            Op::GaussianBlur(op) => Arc::new(op.clone()),
            Op::RandomRotation(op) => Arc::new(op.clone()),
            Op::RandAugment(op) => Arc::new(op.clone()),
            Op::RandomErasing(op) => Arc::new(op.clone()),
            Op::AugMix(op) => Arc::new(op.clone()),
            Op::RandomPosterize(op) => Arc::new(op.clone()),
            Op::RandomInvert(op) => Arc::new(op.clone()),
            Op::RandomAutocontrast(op) => Arc::new(op.clone()),
            Op::RandomEqualize(op) => Arc::new(op.clone()),
            Op::RandomAdjustSharpness(op) => Arc::new(op.clone()),
            Op::RandomAffine(op) => Arc::new(op.clone()),
            Op::RandomPerspective(op) => Arc::new(op.clone()),
            Op::RandomChannelPermutation(op) => Arc::new(op.clone()),
            Op::GaussianNoise(op) => Arc::new(op.clone()),
            Op::TrivialAugment(op) => Arc::new(op.clone()),
            Op::AutoAugment(op) => Arc::new(op.clone()),
            _ => return None,
        };
        Some(Self { name: op.name(), draws })
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Draws the edits for an image of `size` (columns and rows), and passes each to `edit` in turn.
    ///
    /// # Errors
    /// Any error of `edit`.
    pub(super) fn draw(&self, size: (usize, usize), rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        if rng.unit() < self.draws.probability() { self.draws.draw(size, rng, edit) } else { Ok(()) }
    }

    /// Says whether it also changes images of f32, after `normalize`.
    pub(super) fn takes_floats(&self) -> bool {
        self.draws.takes_floats()
    }

    /// Changes an image of f32.
    ///
    /// # Errors
    /// Invalid if it does not accept f32 images.
    pub(super) fn apply_to_floats(
        &self,
        bytes: &mut [u8],
        shape: [usize; 3],
        layout: Layout,
        rng: &mut SampleRng,
    ) -> Result<()> {
        if !self.takes_floats() {
            return Err(Error::invalid(format!("{} of an image of floats", self.name)));
        }
        if rng.unit() < self.draws.probability() {
            self.draws.change_floats(bytes, shape, layout, rng);
        }
        Ok(())
    }
}
