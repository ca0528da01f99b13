//! The interface of a decoder.

use std::fmt;

use forebay_core::Result;

/// The result of one step of a decoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Consumed bytes of the input.
    pub(super) taken: usize,
    /// Bytes of output.
    pub(super) put: usize,
    /// Whether a member, a frame or a stream has ended. Its checksum is then checked.
    pub(super) ended: bool,
    /// Set if the step stopped because decoding can begin here: the number of unread bits of the last consumed byte.
    pub(super) bits: Option<u8>,
}

/// Decompresses one member, one frame or one stream, step by step.
pub(super) trait Decode: fmt::Debug + Send {
    /// Consumes a part of `input` and writes decompressed bytes to `output`. With `pause`, it stops at the next place
    /// where decoding can begin, if the codec has such places.
    ///
    /// # Errors
    /// Data for bytes that are not of the codec; Exhausted for bytes that need more memory than the limit of the codec.
    fn step(&mut self, input: &[u8], output: &mut [u8], pause: bool) -> Result<Step>;
}
