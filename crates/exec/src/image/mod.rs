//! Image kernels: decode, crop, resize, flip, augment, normalise, and the chain that fuses them.
//!
//! Everything here is a pure function of its arguments: no I/O, no threads, no clock, and integer or strictly IEEE
//! arithmetic only, so that the same bytes and the same draws give the same bits on every machine. Besides its
//! arguments, a kernel needs only scratch memory, which one thread keeps and reuses ([`Scratch`]). The reference is
//! Pillow and torchvision: where their pixels are defined, these are the same (see `tests/golden`).
//!
//! - `chain`, `step`: the steps of a pipeline on one image, run as one kernel
//! - `clip`: a chain on each frame of a clip
//! - `cut`: steps that cut or pad
//! - `flow`: an image between two steps
//! - `follow`: the columns that follow an image get each change of its geometry
//! - `decode/`: encoded bytes to pixels
//! - `depth`: the bits of a level
//! - `geometry`: where to crop, and how large to resize; `iou_crop`: a part that overlaps a box enough
//! - `resize`, `taps`, `wide`: the resize, its weights, and its loops for AVX2
//! - `augment/`: the draws of random augmentations
//! - `edit/`: changes of an image with drawn parameters
//! - `normalize`: levels to floats
//! - `view`: pixels without a copy
//! - `real`: functions of real numbers with the same bits on every machine
//! - `encode`: pixels to JPEG and PNG files

mod augment;
mod chain;
mod clip;
mod cut;
mod decode;
mod depth;
mod edit;
mod encode;
mod flow;
mod follow;
mod geometry;
mod iou_crop;
mod normalize;
pub(crate) mod real;
mod resize;
mod step;
mod view;

pub use augment::Augment;
pub use chain::{Chain, Input, Output, Scratch, Shape};
pub(crate) use clip::{Frames, each_frame};
pub use decode::{Decoder, Format, Limits, header};
pub use depth::Depth;
#[cfg(test)]
pub(crate) use edit::warp::Warp;
pub(crate) use encode::encode;
pub use encode::encode_jpeg;
pub(crate) use follow::{Alone, Change, Follow};
pub use geometry::{CenterCrop, center_crop, random_resized_crop, shorter_side};
pub use iou_crop::IouCrop;
pub(crate) use iou_crop::has_centre;
pub use normalize::{Normalizer, copy_chw, copy_hwc, flip_floats};
pub use resize::Resizer;
pub use resize::taps::Filter;
pub(crate) use resize::taps::nearest;
pub use step::Step;
pub use view::{Image, Mirror, Region};

#[cfg(test)]
mod tests;
