//! The decoder of each codec.

use forebay_core::Result;

use super::codec::Codec;
use super::decode::Decode;
use super::inflate::Inflate;
use super::libraries::{Bunzip2, Unxz, Unzstd};
use super::points::Point;

impl Codec {
    /// Begins a member, a frame or a stream.
    pub(super) fn decoder(self) -> Result<Box<dyn Decode>> {
        Ok(match self {
            Codec::Gzip | Codec::Zlib => Box::new(Inflate::begin()?),
            Codec::Zstd => Box::new(Unzstd::new()?),
            Codec::Bzip2 => Box::new(Bunzip2::new()),
            Codec::Xz => Box::new(Unxz::new()?),
        })
    }

    /// Begins at an access point; `before` is the byte in front of it.
    pub(super) fn resume(self, point: &Point, before: u8) -> Result<Option<Box<dyn Decode>>> {
        let Some(state) = &point.state else { return Ok(None) };
        let trailer = if self == Codec::Gzip { 8 } else { 4 };
        Ok(Some(Box::new(Inflate::resume(state, before, trailer)?)))
    }
}
