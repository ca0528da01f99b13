//! A region of a plain JPEG: pixels by libjpeg-turbo, coefficients by our own entropy decoder (see `scan`, `shim.c`).
//!
//! Plain is what nearly every JPEG is: baseline or extended sequential, Huffman coded, 8 bits, one scan, the usual
//! subsamplings. Invariant: a region is the same bits as TurboJPEG's, or `None`, for any other file and for any damage.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use forebay_core::{Error, ErrorKind, Result};

use super::huffman::{Block, Codes};
use super::scan::{BlockOf, Entropy, Layout};

/// What `forebay_jpeg_open` tells, as shim.c lays it out.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Info {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) mcu_width: u32,
    pub(super) mcu_height: u32,
    pub(super) grey: u32,
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
    mcu_rows: u32,
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
    #[allow(clippy::too_many_arguments)]
    fn forebay_jpeg_region(
        jpeg: *mut c_void,
        x: u32,
        y: u32,
        width: u32,
        height: u32,
        grey: c_int,
        out: *mut u8,
        state: *mut c_void,
        begin: Begin,
        decode: DecodeMcu,
    ) -> c_int;
}

#[derive(Debug)]
pub(super) struct PlainJpeg {
    handle: NonNull<c_void>,
    entropy: Entropy,
}

// SAFETY: a handle owns its memory and is not tied to the thread that made it.
unsafe impl Send for PlainJpeg {}

impl Drop for PlainJpeg {
    fn drop(&mut self) {
        // SAFETY: the handle came from forebay_jpeg_new and is freed once.
        unsafe { forebay_jpeg_free(self.handle.as_ptr()) }
    }
}

impl PlainJpeg {
    pub(super) fn new() -> Result<Self> {
        // SAFETY: no argument.
        let handle = NonNull::new(unsafe { forebay_jpeg_new() })
            .ok_or_else(|| Error::new(ErrorKind::Exhausted, "no memory for a jpeg decoder"))?;
        Ok(Self { handle, entropy: Entropy::default() })
    }

    /// Reads a header; `None` when the file is not plain.
    pub(super) fn open<'a>(&'a mut self, bytes: &'a [u8]) -> Option<Opened<'a>> {
        let mut info = Info::default();
        // SAFETY: one slice, which `Opened` keeps borrowed as long as the handle may read it.
        let plain = unsafe { forebay_jpeg_open(self.handle.as_ptr(), bytes.as_ptr(), bytes.len(), &mut info) };
        (plain != 0).then_some(Opened { jpeg: self, info, _bytes: bytes })
    }
}

/// A file whose header was read.
pub(super) struct Opened<'a> {
    jpeg: &'a mut PlainJpeg,
    pub(super) info: Info,
    _bytes: &'a [u8],
}

impl Opened<'_> {
    /// Decodes a part whose left edge is that of an MCU, rows without gaps, in one channel or three. False when
    /// anything was unusual; what `out` holds is arbitrary then.
    pub(super) fn decode(self, x: usize, y: usize, width: usize, height: usize, grey: bool, out: &mut [u8]) -> bool {
        debug_assert_eq!(out.len(), width * height * if grey { 1 } else { 3 }, "room for the part");
        let state: *mut Entropy = &mut self.jpeg.entropy;
        let [x, y, width, height] = [x, y, width, height].map(|n| n as u32);
        // SAFETY: the handle has this file open and its bytes are borrowed; `out` has room for the part; the callbacks are
        // given the decoder, which nobody else uses meanwhile, and return.
        let decoded = unsafe {
            forebay_jpeg_region(
                self.jpeg.handle.as_ptr(),
                x,
                y,
                width,
                height,
                c_int::from(grey),
                out.as_mut_ptr(),
                state.cast(),
                begin,
                decode_mcu,
            )
        };
        decoded != 0
    }
}

/// # Safety
/// Called by shim.c with the decoder and a scan whose pointers are right.
unsafe extern "C" fn begin(state: *mut c_void, scan: *const CScan) -> c_int {
    // SAFETY: as this function's.
    let (entropy, scan) = unsafe { (&mut *state.cast::<Entropy>(), &*scan) };
    // SAFETY: what libjpeg-turbo has left of the file.
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
        mcus: u64::from(scan.mcus_per_row) * u64::from(scan.mcu_rows),
        restart_interval: scan.restart_interval,
        wanted: scan.first_mcu..=scan.last_mcu,
        blocks: blocks.map(|b| BlockOf { component: b.component.into(), dc: b.dc.into(), ac: b.ac.into() }).collect(),
    };
    c_int::from(entropy.begin(data, [of_kind(0), of_kind(1)], layout))
}

/// # Safety
/// Called by shim.c with the decoder, and the MCU's blocks or nothing.
unsafe extern "C" fn decode_mcu(state: *mut c_void, blocks: *const *mut Block) -> c_int {
    // SAFETY: as this function's.
    let entropy = unsafe { &mut *state.cast::<Entropy>() };
    let count = entropy.num_blocks();
    // SAFETY: libjpeg-turbo gives as many blocks as its MCUs have.
    let blocks = (!blocks.is_null()).then(|| unsafe { std::slice::from_raw_parts(blocks, count) });
    c_int::from(entropy.mcu(blocks))
}
