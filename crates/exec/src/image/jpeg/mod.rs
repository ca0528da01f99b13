//! JPEG through libjpeg-turbo: exact IDCT, fancy upsampling, and no more of the image than a region needs.
//!
//! A region is decoded with a margin of one iMCU (the block of pixels that shares chroma samples) on its left, its right
//! and above, because upsampling looks at a neighbour's chroma and treats the edge of what is decoded as the edge of
//! the image. Rows below the region are not decoded at all, so the end of the file is looked for here.
//! Whatever libjpeg-turbo will not do for a region, it is asked to do for the whole image.
//! A plain file takes the fast way of `region`; TurboJPEG decodes all others, and says what is wrong with damaged ones.

mod bits;
mod huffman;
mod region;
mod scan;

use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

use forebay_core::{Error, ErrorKind, Result};
use turbojpeg_sys as tj;

use self::region::PlainJpeg;
use super::decode::{Colour, Mode, Raw};
use super::header;
use super::view::{Region, room};

/// The most scans of a progressive image: each is a pass over all pixels, and a small file can hold very many.
const SCANS_MAX: c_int = 500;

/// Warnings that leave every pixel as it was meant.
const HARMLESS: [&str; 3] = ["extraneous bytes before marker", "JFIF revision", "Adobe color transform"];

#[derive(Debug)]
pub(super) struct Jpeg {
    plain: PlainJpeg,
    handle: NonNull<c_void>,
}

// SAFETY: a handle owns its memory and is not tied to the thread that made it; its thread-local part, the text of an
// error, is read before the call that met the error returns.
unsafe impl Send for Jpeg {}

impl Drop for Jpeg {
    fn drop(&mut self) {
        // SAFETY: the handle came from tj3Init and is destroyed once.
        unsafe { tj::tj3Destroy(self.handle.as_ptr()) }
    }
}

/// How an attempt to decode failed.
struct Failure {
    warning: bool,
    message: String,
}

impl Jpeg {
    pub(super) fn new() -> Result<Self> {
        // SAFETY: no argument but a constant.
        let handle = unsafe { tj::tj3Init(tj::TJINIT_TJINIT_DECOMPRESS as c_int) };
        let handle =
            NonNull::new(handle).ok_or_else(|| Error::new(ErrorKind::Exhausted, "no memory for a jpeg decoder"))?;
        let mut jpeg = Self { plain: PlainJpeg::new()?, handle };
        jpeg.set(tj::TJPARAM_TJPARAM_SCANLIMIT, SCANS_MAX);
        Ok(jpeg)
    }

    /// Decodes at least the region into `out`; the caller has checked that it lies inside the image.
    pub(super) fn decode(&mut self, bytes: &[u8], mode: Mode, region: Region, out: &mut Vec<u8>) -> Result<Raw> {
        let ((width, height), pixels_at) = header::jpeg(bytes)?;
        let end = bytes.get(pixels_at..).and_then(|coded| coded.windows(2).rposition(|pair| pair == [0xFF, 0xD9]));
        if end.is_none() {
            return Err(Error::data("truncated jpeg: it has no end"));
        }
        if let Some(raw) = self.decode_plain(bytes, (width, height), mode, region, out) {
            return Ok(raw);
        }
        self.decode_any(bytes, (width, height), mode, region, out)
    }

    /// The fast way; `None` when it is not for this file.
    fn decode_plain(
        &mut self,
        bytes: &[u8],
        size: (u32, u32),
        mode: Mode,
        region: Region,
        out: &mut Vec<u8>,
    ) -> Option<Raw> {
        let opened = self.plain.open(bytes)?;
        let info = opened.info;
        if (info.width, info.height) != size {
            return None;
        }
        let whole = Region::whole(info.width as usize, info.height as usize);
        let part = around(region, whole, (info.mcu_width as usize, info.mcu_height as usize));
        let colour = if info.grey != 0 && mode == Mode::Grey { Colour::Grey } else { Colour::Rgb };
        let pixels = room(out, part.width * part.height * colour.channels());
        let decoded = opened.decode(part.x, part.y, part.width, part.height, colour == Colour::Grey, pixels);
        let region = Region { x: region.x - part.x, y: region.y - part.y, ..region };
        decoded.then_some(Raw { width: part.width, height: part.height, colour, region })
    }

    /// The way for every file, and the one that says what is wrong with it.
    fn decode_any(
        &mut self,
        bytes: &[u8],
        (width, height): (u32, u32),
        mode: Mode,
        region: Region,
        out: &mut Vec<u8>,
    ) -> Result<Raw> {
        // A warning about the header is not lost: it comes again when the pixels are decoded.
        // SAFETY: the pointer and the length are those of one slice.
        let rc = unsafe { tj::tj3DecompressHeader(self.handle.as_ptr(), bytes.as_ptr(), bytes.len() as tj::size_t) };
        if let Err(failure) = self.outcome(rc)
            && !failure.warning
        {
            return Err(broken(&failure));
        }
        let seen =
            [tj::TJPARAM_TJPARAM_JPEGWIDTH, tj::TJPARAM_TJPARAM_JPEGHEIGHT].map(|param| i64::from(self.get(param)));
        if seen != [i64::from(width), i64::from(height)] {
            return Err(Error::data("damaged jpeg: its header tells two sizes"));
        }
        let (colour, format) = match self.get(tj::TJPARAM_TJPARAM_COLORSPACE) as tj::TJCS {
            tj::TJCS_TJCS_CMYK | tj::TJCS_TJCS_YCCK => (Colour::Cmyk, tj::TJPF_TJPF_CMYK),
            tj::TJCS_TJCS_GRAY if mode == Mode::Grey => (Colour::Grey, tj::TJPF_TJPF_GRAY),
            _ => (Colour::Rgb, tj::TJPF_TJPF_RGB),
        };
        let whole = Region::whole(width as usize, height as usize);
        let around = self.around(region, whole);
        let mut attempt = |jpeg: &mut Self, part: Region| {
            let len = part.width * part.height * colour.channels();
            jpeg.decompress(bytes, format as c_int, part, whole, room(out, len))
        };
        let mut part = around;
        let mut result = attempt(self, part);
        if result.is_err() && part != whole {
            part = whole;
            result = attempt(self, part);
        }
        result.map_err(|failure| broken(&failure))?;
        let region = Region { x: region.x - part.x, y: region.y - part.y, ..region };
        Ok(Raw { width: part.width, height: part.height, colour, region })
    }

    /// Returns the part of the image to decode so that the region's pixels are exact.
    fn around(&self, region: Region, whole: Region) -> Region {
        // Indexed by TJSAMP: 4:4:4, 4:2:2, 4:2:0, grey, 4:4:0, 4:1:1, 4:4:1.
        const MCUS: [(usize, usize); 7] = [(8, 8), (16, 8), (16, 16), (8, 8), (8, 16), (32, 8), (8, 32)];
        let subsampling = usize::try_from(self.get(tj::TJPARAM_TJPARAM_SUBSAMP)).ok();
        subsampling.and_then(|s| MCUS.get(s)).map_or(whole, |&mcu| around(region, whole, mcu))
    }

    /// Decodes `part` of an image, forgiving only [`HARMLESS`] warnings.
    fn decompress(
        &mut self,
        bytes: &[u8],
        format: c_int,
        part: Region,
        whole: Region,
        out: &mut [u8],
    ) -> Result<(), Failure> {
        let cropping = if part == whole {
            tj::tjregion { x: 0, y: 0, w: 0, h: 0 }
        } else {
            tj::tjregion { x: part.x as c_int, y: part.y as c_int, w: part.width as c_int, h: part.height as c_int }
        };
        // SAFETY: a plain call on a live handle.
        let rc = unsafe { tj::tj3SetCroppingRegion(self.handle.as_ptr(), cropping) };
        self.outcome(rc)?;
        let harmless = |e: &Failure| e.warning && HARMLESS.iter().any(|&text| e.message.contains(text));
        match self.decompress_once(bytes, format, true, out) {
            Err(failure) if harmless(&failure) => match self.decompress_once(bytes, format, false, out) {
                Err(failure) if !harmless(&failure) => Err(failure),
                _ => Ok(()),
            },
            result => result,
        }
    }

    fn decompress_once(&mut self, bytes: &[u8], format: c_int, strict: bool, out: &mut [u8]) -> Result<(), Failure> {
        self.set(tj::TJPARAM_TJPARAM_STOPONWARNING, c_int::from(strict));
        // SAFETY: `bytes` is one slice. `out` has room for the cropping region that was set (or the whole image, whose
        // size is the header's) in this pixel format, rows without gaps, which is what a pitch of 0 means.
        let rc = unsafe {
            let len = bytes.len() as tj::size_t;
            tj::tj3Decompress8(self.handle.as_ptr(), bytes.as_ptr(), len, out.as_mut_ptr(), 0, format)
        };
        self.outcome(rc)
    }

    fn outcome(&self, rc: c_int) -> Result<(), Failure> {
        if rc == 0 {
            return Ok(());
        }
        // SAFETY: after a failure the handle has a code and a nul-terminated message, valid until its next call.
        let (code, message) = unsafe {
            let text = CStr::from_ptr(tj::tj3GetErrorStr(self.handle.as_ptr()));
            (tj::tj3GetErrorCode(self.handle.as_ptr()), text.to_string_lossy().into_owned())
        };
        Err(Failure { warning: code == tj::TJERR_TJERR_WARNING as c_int, message })
    }

    fn get(&self, param: tj::TJPARAM) -> c_int {
        // SAFETY: a plain call on a live handle.
        unsafe { tj::tj3Get(self.handle.as_ptr(), param as c_int) }
    }

    fn set(&mut self, param: tj::TJPARAM, value: c_int) {
        // SAFETY: a plain call on a live handle.
        let rc = unsafe { tj::tj3Set(self.handle.as_ptr(), param as c_int, value) };
        debug_assert_eq!(rc, 0, "a parameter of decompression in its range");
    }
}

/// Adds a margin of one MCU on the left, on the right and above.
fn around(region: Region, whole: Region, (mcu_width, mcu_height): (usize, usize)) -> Region {
    let x = (region.x / mcu_width).saturating_sub(1) * mcu_width;
    let y = (region.y / mcu_height).saturating_sub(1) * mcu_height;
    let right = ((region.x + region.width).next_multiple_of(mcu_width) + mcu_width).min(whole.width);
    let bottom = region.y + region.height;
    Region { x, y, width: right - x, height: bottom - y }
}

fn broken(failure: &Failure) -> Error {
    let message = failure.message.replace('\n', " ");
    if message.contains("remature end") {
        return Error::data(format!("truncated jpeg: {message}"));
    }
    Error::data(format!("damaged jpeg: {message}"))
}

#[cfg(test)]
mod tests;
