//! The steps of a chain, and their arguments.

use forebay_core::{Error, Result};
use forebay_plan::{Border, Corner, Direction, Layout};

use super::augment::Augment;
use super::iou_crop::IouCrop;
use super::resize::taps::Filter;
use super::view::Region;

/// The longest side of an image that a step makes, in pixels.
const SIDE_MAX: usize = 1 << 20;

/// One image op. Random steps draw from the stream of their `key_op`, so that the draws of one step do not depend on
/// the others.
#[derive(Debug, Clone)]
pub enum Step {
    /// Resize to an exact size.
    Resize {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// How pixels are computed.
        filter: Filter,
    },
    /// Resize so that the shorter side has `size` pixels and the shape stays.
    ResizeShorter {
        /// The shorter side, in pixels.
        size: usize,
        /// The most that the longer side may have; the shorter side then has fewer than `size`.
        max_size: Option<usize>,
        /// As in `Resize`.
        filter: Filter,
    },
    /// Keep the centre; missing parts are zeros around the image.
    CenterCrop {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
    },
    /// Keep the part at one place, which is counted from a corner.
    Crop {
        /// The part.
        part: Region,
        /// The corner.
        corner: Corner,
    },
    /// Put a border around the image.
    Pad {
        /// Its sides.
        border: Border,
        /// Its colour.
        fill: [u8; 4],
    },
    /// Keep a part at a random place.
    RandomCrop {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// The sides of a border that is put around the image before.
        border: Border,
        /// Its colour.
        fill: [u8; 4],
        /// Names the random stream.
        key_op: u64,
    },
    /// Keep a random part with enough of a box in it.
    IouCrop {
        /// Its arguments.
        rules: IouCrop,
        /// Names the random stream.
        key_op: u64,
    },
    /// Put the image on a larger canvas at a random place, at random.
    ZoomOut {
        /// The least and the greatest side of the canvas, in sides of the image.
        side: (f64, f64),
        /// Its colour.
        fill: [u8; 4],
        /// The probability.
        p: f64,
        /// Names the random stream.
        key_op: u64,
    },
    /// Resize a random part of the image, by torchvision's rule.
    RandomResizedCrop {
        /// Rows of the result.
        height: usize,
        /// Columns of the result.
        width: usize,
        /// The least and the greatest share of the image's area.
        scale: (f64, f64),
        /// The least and the greatest aspect ratio (width by height) of the part.
        ratio: (f64, f64),
        /// As in `Resize`.
        filter: Filter,
        /// Names the random stream.
        key_op: u64,
    },
    /// Mirror.
    Flip {
        /// Left to right, or upside down.
        direction: Direction,
        /// The probability.
        p: f64,
        /// Names the random stream.
        key_op: u64,
    },
    /// Keep the image; the columns that follow it are checked.
    Annotate {
        /// Whether boxes that reach over the border are clipped.
        clip: bool,
    },
    /// A random change of the pixels.
    Augment {
        /// The augmentation.
        augment: Augment,
        /// Names the random stream.
        key_op: u64,
    },
    /// Levels to `(v / 255 - mean) / std` in f32; only `Flip` may follow, and erasing after that.
    Normalize {
        /// One for each channel.
        mean: Vec<f32>,
        /// One for each channel, not zero.
        std: Vec<f32>,
        /// The order of the numbers.
        layout: Layout,
    },
}

impl Step {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Resize { .. } => "resize",
            Self::ResizeShorter { .. } => "resize shorter side",
            Self::CenterCrop { .. } => "center crop",
            Self::Crop { .. } => "crop",
            Self::Pad { .. } => "pad",
            Self::RandomCrop { .. } => "random crop",
            Self::IouCrop { .. } => "random iou crop",
            Self::ZoomOut { .. } => "random zoom out",
            Self::RandomResizedCrop { .. } => "random resized crop",
            Self::Flip { .. } => "flip",
            Self::Annotate { .. } => "annotate",
            Self::Augment { augment, .. } => augment.name(),
            Self::Normalize { .. } => "normalize",
        }
    }

    /// Checks the arguments. The plan has checked the arguments of an augmentation.
    pub(super) fn check(&self) -> Result<()> {
        let name = self.name();
        match *self {
            Self::Resize { height, width, .. }
            | Self::CenterCrop { height, width }
            | Self::Crop { part: Region { height, width, .. }, .. }
            | Self::RandomCrop { height, width, .. } => side(name, height, width),
            Self::ResizeShorter { size, max_size, .. } => side(name, size, max_size.unwrap_or(size)),
            Self::RandomResizedCrop { height, width, scale, ratio, .. } => {
                side(name, height, width)?;
                range(name, "scale", scale)?;
                range(name, "ratio", ratio)
            }
            Self::Flip { p, .. } if !(0.0..=1.0).contains(&p) => {
                Err(Error::invalid(format!("{name} with probability {p}, not within 0 and 1")))
            }
            Self::Pad { .. }
            | Self::IouCrop { .. }
            | Self::ZoomOut { .. }
            | Self::Flip { .. }
            | Self::Annotate { .. }
            | Self::Augment { .. }
            | Self::Normalize { .. } => Ok(()),
        }
    }
}

fn side(name: &str, height: usize, width: usize) -> Result<()> {
    match [height, width].into_iter().find(|side| !(1..=SIDE_MAX).contains(side)) {
        Some(side) => Err(Error::invalid(format!("{name} to {side} pixels, not within 1 and {SIDE_MAX}"))),
        None => Ok(()),
    }
}

/// Checks that a range is far enough from the ends of f64 that areas and ratios stay normal numbers.
fn range(name: &str, what: &str, (low, high): (f64, f64)) -> Result<()> {
    if 1e-9 <= low && low <= high && high <= 1e9 {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{name} with {what} ({low}, {high}): two numbers within 1e-9 and 1e9, the lesser first"
    )))
}
