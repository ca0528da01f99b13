//! The order of an image's dimensions.

use forebay_data::Kind;
use serde::{Deserialize, Serialize};

/// The order of an image's dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Layout {
    /// Channels first, as PyTorch.
    Chw,
    /// Of a clip: channels first, before the frames, as PyTorch's video models. A frame alone is as with `Chw`.
    Cthw,
    /// Channels last, as TensorFlow, JAX and files.
    Hwc,
}

impl Layout {
    /// Returns the order of a frame alone.
    pub fn of_frame(self) -> Self {
        if self == Self::Cthw { Self::Chw } else { self }
    }

    /// Returns the shape of an image in this order.
    pub fn shape(self, width: usize, height: usize, channels: usize) -> [usize; 3] {
        match self {
            Self::Hwc => [height, width, channels],
            Self::Chw | Self::Cthw => [channels, height, width],
        }
    }

    /// Returns the columns and rows of an image of a shape in this order.
    pub fn size(self, shape: [usize; 3]) -> (usize, usize) {
        match self {
            Self::Hwc => (shape[1], shape[0]),
            Self::Chw | Self::Cthw => (shape[2], shape[1]),
        }
    }
}

/// Returns the order of an image's dimensions: channels are the dimension of 1 or 3 at either end. `None` if neither
/// end has that length, or both have.
pub fn image_layout(kind: &Kind) -> Option<Layout> {
    let Kind::Tensor { shape, .. } = kind else { return None };
    let [first, _, last] = shape.as_slice() else { return None };
    match (matches!(first, Some(1 | 3)), matches!(last, Some(1 | 3))) {
        (true, false) => Some(Layout::Chw),
        (false, true) => Some(Layout::Hwc),
        _ => None,
    }
}
