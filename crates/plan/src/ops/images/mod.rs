//! Ops on one image column: decode, resize, crop, mirror, normalise; the boxes, masks and points that follow it.
//! `augment/` has the ops that change pixels at random.

mod annotate;
mod annotations;
pub(super) mod checks;
mod clip;
mod decode_image;
mod encode_image;
mod geometry;
mod layout;
mod normalize;
mod spec;

pub use annotate::Annotate;
pub use annotations::{Annotations, BoxFormat, Role};
pub use clip::Clip;
pub use decode_image::{DecodeImage, ImageMode};
pub use encode_image::{EncodeImage, ImageFormat};
pub use geometry::*;
pub use layout::{Layout, image_layout};
pub use normalize::Normalize;

pub(crate) use spec::{AboutImage, Effect, ImageSpec};
