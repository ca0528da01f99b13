//! Image kernels: decode, crop, resize, flip, augment, normalise, and the chain that fuses them.
//!
//! Everything here is a pure function of its arguments: no I/O, no threads, no clock, and integer or strictly IEEE
//! arithmetic only, so that the same bytes and the same draws give the same bits on every machine. Besides its
//! arguments, a kernel needs only scratch memory, which one thread keeps and reuses ([`Scratch`]). The reference is
//! Pillow and torchvision: where their pixels are defined, these are the same (see `tests/golden`).

mod augment;
mod blur;
mod chain;
mod colour;
mod decode;
mod edit;
mod encode;
mod erase;
mod flow;
mod follow;
mod geometry;
mod header;
mod jpeg;
mod lanes;
mod levels;
mod normalize;
mod png;
pub(crate) mod real;
mod resize;
mod sharpen;
mod step;
mod taps;
mod view;
mod warp;
mod webp;
#[cfg(target_arch = "x86_64")]
mod wide;

pub use augment::Augment;
pub use chain::{Chain, Input, Output, Scratch, Shape};
pub use decode::{Decoder, Limits};
pub use encode::encode_jpeg;
pub(crate) use follow::{Alone, Change, Follow};
pub use geometry::{CenterCrop, center_crop, random_resized_crop, shorter_side};
pub use header::{Format, header};
pub use normalize::{Normalizer, copy_chw, copy_hwc, flip_floats};
pub use resize::Resizer;
pub use step::Step;
pub use taps::Filter;
pub(crate) use taps::nearest;
pub use view::{Image, Mirror, Region};
#[cfg(test)]
pub(crate) use warp::Warp;

#[cfg(test)]
mod tests;
