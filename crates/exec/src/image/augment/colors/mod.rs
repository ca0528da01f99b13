//! Changes of colours, and of single pixels.

mod color_jitter;
mod gaussian_blur;
mod gaussian_noise;
mod random_adjust_sharpness;
mod random_autocontrast;
mod random_channel_permutation;
mod random_equalize;
mod random_invert;
mod random_posterize;
mod random_solarize;
