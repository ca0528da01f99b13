//! The types of arguments other than columns and numbers. They serialize as the Python package writes them.

use serde::{Deserialize, Serialize};

use crate::source::BlobId;

/// Which colours an image is decoded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageMode {
    /// One channel: ITU-R 601 luma, as Pillow's `convert("L")`.
    #[serde(rename = "L")]
    Grey,
    /// Three channels.
    #[serde(rename = "RGB")]
    Rgb,
    /// One channel: the numbers of a PNG's palette, as they are.
    #[serde(rename = "P")]
    Palette,
}

impl ImageMode {
    /// Returns the number of channels.
    pub fn channels(self) -> usize {
        match self {
            ImageMode::Grey | ImageMode::Palette => 1,
            ImageMode::Rgb => 3,
        }
    }

    /// Returns its name, as a user writes it.
    pub fn name(self) -> &'static str {
        match self {
            ImageMode::Grey => "L",
            ImageMode::Rgb => "RGB",
            ImageMode::Palette => "P",
        }
    }
}

/// The order of an image's dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Layout {
    /// Channels first, as PyTorch.
    Chw,
    /// Channels last, as TensorFlow, JAX and files.
    Hwc,
}

/// Which way a flip mirrors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Left to right.
    #[default]
    Horizontal,
    /// Upside down.
    Vertical,
}

impl Direction {
    pub(super) fn is_horizontal(&self) -> bool {
        *self == Self::Horizontal
    }
}

/// How a pixel between pixels is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// The nearest.
    Nearest,
    /// Four, by their nearness.
    Bilinear,
}

/// How two samples become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mixing {
    /// Blended.
    Mixup,
    /// A box of one in the other.
    Cutmix,
}

/// A user's Python function, pickled, and how it wants to be called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// The pickle. The same function may have another in another process.
    pub blob: BlobId,
    /// The name of what it computes, the same in every process; empty where the pickle is the name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Its name, for people.
    pub name: String,
    /// Called with columns instead of one row.
    pub batched: bool,
    /// Called with a NumPy generator of the row (or of the first row of a batch) as second argument.
    pub with_rng: bool,
    /// The columns it is given; `None` for all.
    pub reads: Option<Vec<String>>,
    /// Seconds one call may take. A function that takes longer is stopped.
    pub timeout_s: f64,
}
