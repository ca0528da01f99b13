//! The columns that follow an image through a chain: boxes, masks and points get each change of its geometry.
//!
//! A chain reports a change with its drawn parameters as it makes it, so these columns need no draw of their own.

use forebay_core::{Error, Result};
use forebay_plan::Direction;

use super::edit::warp::Warp;
use super::view::Region;

/// A change of an image's geometry.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    /// None: a random op leaves the image as it is.
    Keep,
    /// None: the columns that follow are checked.
    Check {
        /// Whether boxes may reach over the border, and are clipped.
        clip: bool,
    },
    /// The image becomes a region of itself.
    Crop(Region),
    /// The image becomes a region of itself, and boxes whose centres are outside are dropped.
    CropCentres(Region),
    /// The image is mirrored.
    Mirror(Direction),
    /// The image is resized to so many columns and rows.
    Resize(usize, usize),
    /// The image is put on a larger one.
    Place {
        /// Columns left of it.
        left: usize,
        /// Rows above it.
        top: usize,
        /// Columns and rows of the larger image.
        size: (usize, usize),
    },
    /// The image is mapped; its size stays.
    Warp(&'a Warp),
}

/// The columns that follow an image.
pub(crate) trait Follow {
    /// Follows a change that step number `step` of the chain makes to an image of `size` (columns and rows).
    ///
    /// # Errors
    /// Data when one of the columns does not fit the image.
    fn follow(&mut self, step: usize, change: Change<'_>, size: (usize, usize)) -> Result<()>;

    /// Returns left, top, right, bottom of each box of an image of `size`, for step number `step`.
    ///
    /// # Errors
    /// As [`Follow::follow`].
    fn boxes(&mut self, step: usize, size: (usize, usize)) -> Result<Vec<[f64; 4]>>;

    /// Notes that step number `step` of the chain causes the next error, and not the decoder.
    fn note_failure(&mut self, step: usize);
}

/// The follower of an image without columns that follow it. It keeps the number of the step that failed.
#[derive(Debug, Default)]
pub(crate) struct Alone {
    failed: Option<usize>,
}

impl Alone {
    /// Returns the step that failed.
    pub(crate) fn failed(&self) -> Option<usize> {
        self.failed
    }
}

impl Follow for Alone {
    fn follow(&mut self, _step: usize, _change: Change<'_>, _size: (usize, usize)) -> Result<()> {
        Ok(())
    }

    fn boxes(&mut self, _step: usize, _size: (usize, usize)) -> Result<Vec<[f64; 4]>> {
        Err(Error::internal("an op that reads the boxes of an image runs without them"))
    }

    fn note_failure(&mut self, step: usize) {
        self.failed = Some(step);
    }
}
