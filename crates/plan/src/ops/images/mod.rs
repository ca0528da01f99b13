//! Ops on one image column: decode, resize, crop, mirror, normalise. `augment/` has the ops that change pixels at
//! random.

mod center_crop;
pub(super) mod checks;
mod decode_image;
mod direction;
mod layout;
mod normalize;
mod random_flip;
mod random_resized_crop;
mod resize;
mod spec;

pub use center_crop::CenterCrop;
pub use decode_image::{DecodeImage, ImageMode};
pub use direction::Direction;
pub use layout::{Layout, image_layout};
pub use normalize::Normalize;
pub use random_flip::RandomFlip;
pub use random_resized_crop::RandomResizedCrop;
pub use resize::{Resize, ResizeShorter};

pub(crate) use spec::{AboutImage, Effect, ImageSpec};
