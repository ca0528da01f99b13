//! Ops that change the pixels of an image column at random: torchvision's augmentations.

mod colors;
mod filled;
mod geometry;
mod policies;
mod random_erasing;

pub use colors::*;
pub use filled::Interpolation;
pub use geometry::*;
pub use policies::*;
pub use random_erasing::RandomErasing;
