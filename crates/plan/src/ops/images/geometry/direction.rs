//! The direction in which an image is mirrored.

use serde::{Deserialize, Serialize};

/// The direction of a flip.
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
    /// Returns whether it is the default, left to right.
    pub(super) fn is_horizontal(&self) -> bool {
        *self == Self::Horizontal
    }
}
