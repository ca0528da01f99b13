//! One JPEG through libjpeg-turbo: whole, or a region of it, with libjpeg-turbo's entropy decoder or Forebay's (see
//! `scan`, `shim.c`).
//!
//! Forebay's accepts plain files, which nearly every JPEG is: baseline or extended sequential, Huffman coded, 8 bits,
//! one scan, grey or three components, the usual subsamplings. Invariant: libjpeg-turbo's decoder is made for one image
//! and freed with it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

use forebay_core::{Error, ErrorKind, Result};

use super::huffman::{Block, Codes};
use super::scan::{BlockOf, Entropy, Layout};
use crate::image::view::Region;

/// The result of `forebay_jpeg_open`, in the layout of shim.c.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Info {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) mcu_width: u32,
    pub(super) mcu_height: u32,
    pub(super) channels: u32,
    pub(super) plain: u32,
    pub(super) regions: u32,
    pub(super) scans: u32,
    pub(super) restart_interval: u32,
    pub(super) coded_at: u64,
}

/// The outcome of decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The pixels of the region are those of the whole image.
    Exact,
    /// The data is damaged, or this entropy decoder does not support it: only libjpeg-turbo's own decoder on the whole
    /// image yields the right pixels.
    Damaged,
    /// Some or all pixels are missing.
    Failed,
}

#[repr(C)]
struct CBlock {
    component: u8,
    dc: u8,
    ac: u8,
}

/// `struct forebay_jpeg_scan` of shim.c.
#[repr(C)]
struct CScan {
    data: *const u8,
    len: usize,
    mcus_per_row: u32,
    restart_interval: u32,
    first_mcu: u32,
    last_mcu: u32,
    blocks: u32,
    block: [CBlock; 10],
    bits: [[*const u8; 4]; 2],
    symbols: [[*const u8; 4]; 2],
}

type Begin = unsafe extern "C" fn(*mut c_void, *const CScan) -> c_int;
type DecodeMcu = unsafe extern "C" fn(*mut c_void, *const *mut Block) -> c_int;

unsafe extern "C" {
    fn forebay_jpeg_new() -> *mut c_void;
    fn forebay_jpeg_free(jpeg: *mut c_void);
    fn forebay_jpeg_open(jpeg: *mut c_void, bytes: *const u8, len: usize, info: *mut Info) -> c_int;
    fn forebay_jpeg_message(jpeg: *const c_void, truncated: *mut c_int) -> *const c_char;
    #[allow(clippy::too_many_arguments)]
    fn forebay_jpeg_region(
        jpeg: *mut c_void,
        x: u32,
        y: u32,
        width: u32,
        height: u32,
        channels: c_int,
        out: *mut u8,
        state: *mut c_void,
        begin: Begin,
        decode: DecodeMcu,
    ) -> c_int;
}

/// An image whose header was read, with its decoder.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    handle: NonNull<c_void>,
    pub(super) info: Info,
    bytes: &'a [u8],
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from forebay_jpeg_new and is freed once.
        unsafe { forebay_jpeg_free(self.handle.as_ptr()) }
    }
}

impl<'a> Opened<'a> {
    /// Reads a header.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self> {
        // SAFETY: no argument.
        let handle = NonNull::new(unsafe { forebay_jpeg_new() })
            .ok_or_else(|| Error::new(ErrorKind::Exhausted, "no memory for a jpeg decoder"))?;
        let mut opened = Self { handle, info: Info::default(), bytes };
        // SAFETY: one slice, which `opened` keeps borrowed as long as the handle may read it.
        let rc = unsafe { forebay_jpeg_open(handle.as_ptr(), bytes.as_ptr(), bytes.len(), &mut opened.info) };
        if rc == 0 { Err(opened.error()) } else { Ok(opened) }
    }

    /// Returns the error after a failure.
    pub(super) fn error(&self) -> Error {
        let mut truncated = 0;
        // SAFETY: the message is nul-terminated and lives as long as the handle.
        let message = unsafe { CStr::from_ptr(forebay_jpeg_message(self.handle.as_ptr(), &mut truncated)) };
        let what = if truncated == 0 { "damaged" } else { "truncated" };
        Error::data(format!("{what} jpeg: {}", message.to_string_lossy()))
    }

    /// Returns the data after the header of the first scan.
    pub(super) fn coded(&self) -> &'a [u8] {
        self.bytes.get(self.info.coded_at as usize..).unwrap_or_default()
    }

    /// Decodes a part whose left edge is that of an MCU, rows without gaps, once. Unless the outcome is exact, the
    /// content of `out` for a part is arbitrary.
    pub(super) fn decode(
        &mut self,
        part: Region,
        channels: usize,
        entropy: Option<&mut Entropy>,
        out: &mut [u8],
    ) -> Outcome {
        assert_eq!(out.len(), part.width * part.height * channels, "room for the part");
        let state: *mut Entropy = entropy.map_or(std::ptr::null_mut(), |e| e);
        let [x, y, width, height] = [part.x, part.y, part.width, part.height].map(|n| n as u32);
        // SAFETY: the handle has this file open and its bytes are borrowed; `out` has room for the part; the callbacks
        // receive the decoder, which no other code uses meanwhile, and return.
        let rc = unsafe {
            forebay_jpeg_region(
                self.handle.as_ptr(),
                x,
                y,
                width,
                height,
                channels as c_int,
                out.as_mut_ptr(),
                state.cast(),
                begin,
                decode_mcu,
            )
        };
        match rc {
            1 => Outcome::Exact,
            2 => Outcome::Damaged,
            _ => Outcome::Failed,
        }
    }
}

/// # Safety
/// Called by shim.c with the decoder and a scan with valid pointers.
unsafe extern "C" fn begin(state: *mut c_void, scan: *const CScan) -> c_int {
    // SAFETY: guaranteed by this function's caller.
    let (entropy, scan) = unsafe { (&mut *state.cast::<Entropy>(), &*scan) };
    // SAFETY: the rest of the file that libjpeg-turbo has not read.
    let data = unsafe { std::slice::from_raw_parts(scan.data, scan.len) };
    let codes = |kind: usize, i: usize| {
        let (counts, symbols) = (scan.bits[kind][i], scan.symbols[kind][i]);
        // SAFETY: the arrays of a JHUFF_TBL: 16 numbers from the length 1 on, and 256 symbols.
        (!counts.is_null()).then(|| unsafe {
            Codes { counts: *counts.cast::<[u8; 16]>(), symbols: Box::new(*symbols.cast::<[u8; 256]>()) }
        })
    };
    let of_kind = |kind: usize| std::array::from_fn(|i| codes(kind, i));
    let blocks = scan.block.iter().take(scan.blocks as usize);
    let layout = Layout {
        mcus_per_row: scan.mcus_per_row,
        restart_interval: scan.restart_interval,
        wanted: scan.first_mcu..=scan.last_mcu,
        blocks: blocks.map(|b| BlockOf { component: b.component.into(), dc: b.dc.into(), ac: b.ac.into() }).collect(),
    };
    c_int::from(entropy.begin(data, [of_kind(0), of_kind(1)], layout))
}

/// # Safety
/// Called by shim.c with the decoder, and the MCU's blocks or nothing.
unsafe extern "C" fn decode_mcu(state: *mut c_void, blocks: *const *mut Block) -> c_int {
    // SAFETY: guaranteed by this function's caller.
    let entropy = unsafe { &mut *state.cast::<Entropy>() };
    let count = entropy.num_blocks();
    // SAFETY: libjpeg-turbo passes as many blocks as its MCUs have.
    let blocks = (!blocks.is_null()).then(|| unsafe { std::slice::from_raw_parts(blocks, count) });
    c_int::from(entropy.mcu(blocks))
}
