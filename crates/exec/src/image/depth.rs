//! How many bits the levels of an image have.

use forebay_data::DType;

/// The bits of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// One byte.
    Eight,
    /// Two bytes, for one channel. Such an image is only moved, resized and normalised.
    Sixteen,
}

impl Depth {
    /// Returns the depth of levels of a dtype.
    pub(crate) fn of(dtype: DType) -> Self {
        if dtype == DType::Uint16 { Self::Sixteen } else { Self::Eight }
    }

    /// Returns the bytes of a level.
    pub(super) fn bytes(self) -> usize {
        if self == Self::Sixteen { 2 } else { 1 }
    }
}
