//! Ops that crop, pad, mirror and resize an image.

mod center_crop;
mod crop;
mod direction;
mod pad;
mod random_crop;
mod random_flip;
mod random_iou_crop;
mod random_resized_crop;
mod random_zoom_out;
mod resample;
mod resize;

pub use center_crop::CenterCrop;
pub use crop::{Corner, Crop};
pub use direction::Direction;
pub use pad::{Border, Pad};
pub use random_crop::RandomCrop;
pub use random_flip::RandomFlip;
pub use random_iou_crop::RandomIouCrop;
pub use random_resized_crop::RandomResizedCrop;
pub use random_zoom_out::RandomZoomOut;
pub use resample::Resample;
pub use resize::{Resize, ResizeShorter};
