//! gzip and zlib by zlib-rs, through the functions of zlib: only these can stop between two deflate blocks, and resume
//! there.
//!
//! A point between two blocks needs the 32 KiB before it, and the bits of its first byte that the previous block has
//! not read; zlib's own `examples/zran.c` does the same.

use std::ffi::CStr;
use std::fmt;

use forebay_core::{Error, ErrorKind, Result};
use libz_rs_sys as z;

use super::codec::{Decode, Step};
use super::points::State;

/// The farthest back reference of a deflate stream.
pub(super) const WINDOW: usize = 32 << 10;
/// The largest window, with a gzip or zlib header.
const WITH_HEADER: i32 = 15 + 32;
/// The largest window, without a header.
const BARE: i32 = -15;

/// One member or stream. It takes some 50 KiB.
pub(super) struct Inflate {
    /// Boxed so that it does not move: zlib keeps its address.
    stream: Box<z::z_stream>,
    /// The remaining bytes of checksum and length after a stream that was resumed in the middle.
    trailer: usize,
    /// Whether the deflate stream has ended.
    is_done: bool,
}

// SAFETY: the stream owns all memory that its pointers refer to outside of calls, and one thread at a time uses it.
unsafe impl Send for Inflate {}

impl fmt::Debug for Inflate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inflate")
    }
}

impl Drop for Inflate {
    fn drop(&mut self) {
        // SAFETY: `new` initialized it, and nothing uses it after this.
        unsafe { z::inflateEnd(&mut *self.stream) };
    }
}

impl Inflate {
    fn new(window_bits: i32, trailer: usize) -> Result<Self> {
        let mut stream = Box::<z::z_stream>::default();
        let size = size_of::<z::z_stream>() as i32;
        // SAFETY: the stream is a valid one of this version and size.
        check(unsafe { z::inflateInit2_(&mut *stream, window_bits, z::zlibVersion(), size) })?;
        Ok(Self { stream, trailer, is_done: false })
    }

    /// Begins at a header.
    pub(super) fn begin() -> Result<Self> {
        Self::new(WITH_HEADER, 0)
    }

    /// Resumes between two blocks. `before` is the byte before the point, `trailer` the number of bytes after the
    /// stream.
    pub(super) fn resume(state: &State, before: u8, trailer: usize) -> Result<Self> {
        let mut inflate = Self::new(BARE, trailer)?;
        let bits = i32::from(state.bits);
        let window = state.window()?;
        // SAFETY: the stream is initialized, and the window has the stated length.
        unsafe {
            if bits > 0 {
                check(z::inflatePrime(&mut *inflate.stream, bits, i32::from(before) >> (8 - bits)))?;
            }
            check(z::inflateSetDictionary(&mut *inflate.stream, window.as_ptr(), window.len() as u32))?;
        }
        Ok(inflate)
    }

    /// Returns zlib's error message.
    fn message(&self) -> String {
        if self.stream.msg.is_null() {
            return "not a deflate stream".to_owned();
        }
        // SAFETY: zlib's messages are constants that end with a zero.
        unsafe { CStr::from_ptr(self.stream.msg) }.to_string_lossy().into_owned()
    }
}

fn check(code: i32) -> Result<()> {
    match code {
        z::Z_OK => Ok(()),
        z::Z_MEM_ERROR => Err(Error::new(ErrorKind::Exhausted, "there is no memory to decompress a file with")),
        other => Err(Error::internal(format!("zlib: {other}"))),
    }
}

impl Decode for Inflate {
    fn step(&mut self, input: &[u8], output: &mut [u8], pause: bool) -> Result<Step> {
        if self.is_done {
            let taken = self.trailer.min(input.len());
            self.trailer -= taken;
            return Ok(Step { taken, ended: self.trailer == 0, ..Step::default() });
        }
        let (given, room) = (input.len().min(u32::MAX as usize), output.len().min(u32::MAX as usize));
        (self.stream.next_in, self.stream.avail_in) = (input.as_ptr(), given as u32);
        (self.stream.next_out, self.stream.avail_out) = (output.as_mut_ptr(), room as u32);
        let flush = if pause { z::Z_BLOCK } else { z::Z_NO_FLUSH };
        // SAFETY: the stream is initialized, and both buffers have the stated lengths.
        let code = unsafe { z::inflate(&mut *self.stream, flush) };
        let (taken, put) = (given - self.stream.avail_in as usize, room - self.stream.avail_out as usize);
        match code {
            z::Z_OK | z::Z_BUF_ERROR => {
                // In `data_type`, bit 128 means that a block has ended, bit 64 that it was the last; the rest is the
                // number of unread bits.
                let kind = self.stream.data_type;
                let is_between = pause && kind & (128 | 64) == 128;
                Ok(Step { taken, put, ended: false, bits: is_between.then_some((kind & 7) as u8) })
            }
            z::Z_STREAM_END => {
                self.is_done = true;
                Ok(Step { taken, put, ended: self.trailer == 0, bits: None })
            }
            z::Z_NEED_DICT => Err(Error::data("zlib: a preset dictionary is needed")),
            z::Z_DATA_ERROR => Err(Error::data(format!("zlib: {}", self.message()))),
            other => check(other).map(|()| Step::default()),
        }
    }
}
