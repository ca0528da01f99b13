//! Changes of the places of pixels.

mod random_affine;
mod random_perspective;
mod random_rotation;
