//! zstd, bzip2 and xz, by their original libraries or ports of them.

use std::fmt;

use forebay_core::{Error, ErrorKind, Result};
use liblzma::stream::{Action, Error as XzError, Status as XzStatus, Stream};
use zstd::stream::raw::{DParameter, Operation};

use super::codec::{Decode, Step};

/// The largest window of a zstd frame, as a power of two in bytes: 128 MiB, the default limit of `zstd -d`.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// The most memory of an xz stream: `xz -9` needs 65 MiB.
const XZ_MEMORY_MAX: u64 = 256 << 20;

fn too_much(what: String, hint: &str) -> Error {
    Error::new(ErrorKind::Exhausted, what).hint(hint)
}

fn no_memory(what: &str) -> Error {
    too_much(format!("there is no memory for {what}"), "give this process more memory")
}

/// One zstd frame. It needs the frame's window and some 200 KiB.
pub(super) struct Unzstd(zstd::stream::raw::Decoder<'static>);

impl fmt::Debug for Unzstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unzstd")
    }
}

impl Unzstd {
    pub(super) fn new() -> Result<Self> {
        let failed = |e| Error::internal(format!("zstd: {e}"));
        let mut decoder = zstd::stream::raw::Decoder::new().map_err(failed)?;
        decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX)).map_err(failed)?;
        Ok(Self(decoder))
    }
}

impl Decode for Unzstd {
    fn step(&mut self, input: &[u8], output: &mut [u8], _: bool) -> Result<Step> {
        let done = self.0.run_on_buffers(input, output).map_err(|e| match e.to_string() {
            what if what.contains("too much memory") => too_much(
                format!("a zstd frame has a window of more than 2^{ZSTD_WINDOW_LOG_MAX} bytes"),
                &format!("compress it again with a window of at most --long={ZSTD_WINDOW_LOG_MAX}"),
            ),
            what if what.contains("not enough memory") => no_memory("a zstd frame"),
            what => Error::data(format!("zstd: {}", what.to_lowercase())),
        })?;
        let ended = done.remaining == 0;
        Ok(Step { taken: done.bytes_read, put: done.bytes_written, ended, bits: None })
    }
}

/// One bzip2 stream. It needs 4 MiB at most.
pub(super) struct Bunzip2(bzip2::Decompress);

impl fmt::Debug for Bunzip2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bunzip2")
    }
}

impl Bunzip2 {
    pub(super) fn new() -> Self {
        Self(bzip2::Decompress::new(false))
    }
}

impl Decode for Bunzip2 {
    fn step(&mut self, input: &[u8], output: &mut [u8], _: bool) -> Result<Step> {
        let (taken, put) = (self.0.total_in(), self.0.total_out());
        let status = self.0.decompress(input, output).map_err(|e| Error::data(format!("bzip2: {e}")))?;
        let (taken, put) = ((self.0.total_in() - taken) as usize, (self.0.total_out() - put) as usize);
        Ok(Step { taken, put, ended: status == bzip2::Status::StreamEnd, bits: None })
    }
}

/// One xz stream. It needs the stream's dictionary, within [`XZ_MEMORY_MAX`].
pub(super) struct Unxz(Stream);

impl fmt::Debug for Unxz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unxz")
    }
}

impl Unxz {
    pub(super) fn new() -> Result<Self> {
        Stream::new_stream_decoder(XZ_MEMORY_MAX, 0).map(Self).map_err(|e| Error::internal(format!("xz: {e}")))
    }
}

impl Decode for Unxz {
    fn step(&mut self, input: &[u8], output: &mut [u8], _: bool) -> Result<Step> {
        let (taken, put) = (self.0.total_in(), self.0.total_out());
        let status = self.0.process(input, output, Action::Run).map_err(|e| match e {
            XzError::MemLimit => too_much(
                format!("an xz stream asks for more memory than {XZ_MEMORY_MAX} bytes"),
                "compress it again with a smaller dictionary, as `xz -9` does: its is 64 MiB",
            ),
            XzError::Mem => no_memory("an xz stream"),
            other => Error::data(format!("xz: {other}")),
        })?;
        let (taken, put) = ((self.0.total_in() - taken) as usize, (self.0.total_out() - put) as usize);
        Ok(Step { taken, put, ended: status == XzStatus::StreamEnd, bits: None })
    }
}
