//! Ops that change the pixels of an image column at random: torchvision's augmentations.

mod color_jitter;
mod filled;
mod gaussian_blur;
mod rand_augment;
mod random_erasing;
mod random_grayscale;
mod random_rotation;
mod random_solarize;

pub use color_jitter::ColorJitter;
pub use filled::Interpolation;
pub use gaussian_blur::GaussianBlur;
pub use rand_augment::RandAugment;
pub use random_erasing::RandomErasing;
pub use random_grayscale::RandomGrayscale;
pub use random_rotation::RandomRotation;
pub use random_solarize::RandomSolarize;
