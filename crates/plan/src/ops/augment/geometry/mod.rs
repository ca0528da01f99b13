//! Random changes of the places of pixels.

mod random_affine;
mod random_perspective;
mod random_rotation;

pub use random_affine::RandomAffine;
pub use random_perspective::RandomPerspective;
pub use random_rotation::RandomRotation;
