//! What a decoder is.

use std::fmt;

use forebay_core::Result;

/// What one step of a decoder did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Bytes of the input that it is done with.
    pub(super) taken: usize,
    /// Bytes that it put out.
    pub(super) put: usize,
    /// Whether a member, a frame or a stream has ended, its checksum compared.
    pub(super) ended: bool,
    /// Where it stopped because decoding can be begun here: how many bits of the last byte taken are still to be read.
    pub(super) bits: Option<u8>,
}

/// Undoes the compression of one member, one frame or one stream, a piece at a time.
pub(super) trait Decode: fmt::Debug + Send {
    /// Takes some of `input` and puts out some. With `pause`, it stops where decoding can be begun, if the codec has such places.
    ///
    /// # Errors
    /// Data for bytes that are not of the codec, Exhausted for those that take more memory than is given to one file.
    fn step(&mut self, input: &[u8], output: &mut [u8], pause: bool) -> Result<Step>;
}
