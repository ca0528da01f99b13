//! Random changes of colours, and of single pixels.

mod color_jitter;
mod gaussian_blur;
mod gaussian_noise;
mod random_adjust_sharpness;
mod random_autocontrast;
mod random_channel_permutation;
mod random_equalize;
mod random_grayscale;
mod random_invert;
mod random_posterize;
mod random_solarize;

pub use color_jitter::ColorJitter;
pub use gaussian_blur::GaussianBlur;
pub use gaussian_noise::GaussianNoise;
pub use random_adjust_sharpness::RandomAdjustSharpness;
pub use random_autocontrast::RandomAutocontrast;
pub use random_channel_permutation::RandomChannelPermutation;
pub use random_equalize::RandomEqualize;
pub use random_grayscale::RandomGrayscale;
pub use random_invert::RandomInvert;
pub use random_posterize::RandomPosterize;
pub use random_solarize::RandomSolarize;
