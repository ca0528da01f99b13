//! Ops on one image column: decode, resize, crop, mirror, normalise; the boxes, masks and points that follow it.
//! `augment/` has the ops that change pixels at random.

mod annotate;
mod annotations;
mod center_crop;
pub(super) mod checks;
mod crop;
mod decode_image;
mod direction;
mod encode_image;
mod layout;
mod normalize;
mod pad;
mod random_crop;
mod random_flip;
mod random_iou_crop;
mod random_resized_crop;
mod random_zoom_out;
mod resample;
mod resize;
mod spec;

pub use annotate::Annotate;
pub use annotations::{Annotations, BoxFormat, Role};
pub use center_crop::CenterCrop;
pub use crop::{Corner, Crop};
pub use decode_image::{DecodeImage, ImageMode};
pub use direction::Direction;
pub use encode_image::{EncodeImage, ImageFormat};
pub use layout::{Layout, image_layout};
pub use normalize::Normalize;
pub use pad::{Border, Pad};
pub use random_crop::RandomCrop;
pub use random_flip::RandomFlip;
pub use random_iou_crop::RandomIouCrop;
pub use random_resized_crop::RandomResizedCrop;
pub use random_zoom_out::RandomZoomOut;
pub use resample::Resample;
pub use resize::{Resize, ResizeShorter};

pub(crate) use spec::{AboutImage, Effect, ImageSpec};
