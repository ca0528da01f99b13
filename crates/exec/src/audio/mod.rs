//! Sound kernels: decode, resample, change; spectra, mel bands and cepstra.
//!
//! Each kernel is a pure function of its arguments: no I/O, no clock, and no choice of code by the processor. Sums have
//! a fixed order, and sines, logarithms and roots come from `libm`, so the same samples give the same bits on every
//! machine. `decode` says which formats hold less.
//!
//! - `decode`: encoded bytes to samples; `container`: which format they have
//! - `resample`: another sampling rate, by a windowed sinc
//! - `change`: crops, gains, noise, masks, with drawn parameters; `reverb`: convolution with an impulse response
//! - `fourier`: the Fourier transform of several frames at once; `spectrum`: frames, bands and their logarithms;
//!   `bands`: windows, mel bands and cosines

mod bands;
pub(crate) mod change;
mod container;
mod decode;
mod fourier;
pub(crate) mod resample;
pub(crate) mod reverb;
pub(crate) mod spectrum;
#[cfg(test)]
mod tests;

pub use decode::{Bounds, Sound, decode};
