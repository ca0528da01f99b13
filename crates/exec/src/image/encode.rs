//! Encodes pixels as JPEG and PNG files: the op `encode_image`, examples and tests.

use std::ffi::{CStr, c_int, c_void};

use forebay_core::{Error, ErrorKind, Result};
use forebay_plan::ImageFormat;
use forebay_plan::ops::EncodeImage;
use turbojpeg_sys as tj;

/// Encodes an image of uint8, `pixels` of shape (height, width, channels).
///
/// # Errors
/// Data when the image has no pixels or a side is too long for the format.
pub(crate) fn encode(op: &EncodeImage, pixels: &[u8], [height, width, channels]: [usize; 3]) -> Result<Vec<u8>> {
    let file = match op.format {
        ImageFormat::Jpeg => jpeg(pixels, [height, width, channels], op.quality.unwrap_or(QUALITY)),
        ImageFormat::Png => png(pixels, [height, width, channels]),
    };
    file.map_err(|e| match e.kind() {
        ErrorKind::Invalid => Error::data(format!("an image of {height} rows and {width} columns: {}", e.message()))
            .hint("resize or crop it before"),
        _ => e,
    })
}

/// Encodes RGB pixels of shape (height, width, 3) as a baseline JPEG with 4:2:0 chroma.
///
/// # Errors
/// Invalid when the number of bytes is not that of the shape, a side is 0 or above 65,500, or the quality is outside
/// 1 to 100.
pub fn encode_jpeg(pixels: &[u8], (height, width): (usize, usize), quality: u8) -> Result<Vec<u8>> {
    jpeg(pixels, [height, width, 3], quality)
}

/// Pillow's default.
const QUALITY: u8 = 75;

fn png(pixels: &[u8], [height, width, channels]: [usize; 3]) -> Result<Vec<u8>> {
    let side = |n: usize| u32::try_from(n).ok().filter(|n| *n > 0);
    let (Some(w), Some(h)) = (side(width), side(height)) else {
        return Err(Error::invalid("a png has 1 pixel or more in each row and column"));
    };
    let mut file = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut file, w, h);
    encoder.set_color(if channels == 1 { ::png::ColorType::Grayscale } else { ::png::ColorType::Rgb });
    encoder.set_depth(::png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(pixels)?;
        writer.finish()
    });
    written.map_err(|e| Error::internal(format!("encoding a png: {e}")))?;
    Ok(file)
}

fn jpeg(pixels: &[u8], [height, width, channels]: [usize; 3], quality: u8) -> Result<Vec<u8>> {
    const SIDE_MAX: usize = 65_500;
    let fits = [height, width].iter().all(|side| (1..=SIDE_MAX).contains(side));
    if !fits || pixels.len() != height * width * channels || !(1..=100).contains(&quality) {
        let message =
            format!("{} bytes are no {height} x {width} x {channels} image of quality {quality}", pixels.len());
        return Err(Error::invalid(message));
    }
    let (format, chroma) = match channels {
        1 => (tj::TJPF_TJPF_GRAY, tj::TJSAMP_TJSAMP_GRAY),
        _ => (tj::TJPF_TJPF_RGB, tj::TJSAMP_TJSAMP_420),
    };
    let mut file = File { buffer: std::ptr::null_mut(), len: 0 };
    // SAFETY: the handle is created, used and destroyed here; `pixels` holds the rows that the call reads, without
    // gaps, which a pitch of 0 states; `file` owns the buffer that the library allocates.
    unsafe {
        let handle = tj::tj3Init(tj::TJINIT_TJINIT_COMPRESS as c_int);
        if handle.is_null() {
            return Err(Error::new(ErrorKind::Exhausted, "no memory for a jpeg encoder"));
        }
        let set = |param: tj::TJPARAM, value: c_int| tj::tj3Set(handle, param as c_int, value);
        set(tj::TJPARAM_TJPARAM_SUBSAMP, chroma as c_int);
        set(tj::TJPARAM_TJPARAM_QUALITY, c_int::from(quality));
        let (w, h, format) = (width as c_int, height as c_int, format as c_int);
        let rc = tj::tj3Compress8(handle, pixels.as_ptr(), w, 0, h, format, &mut file.buffer, &mut file.len);
        let message = (rc != 0).then(|| CStr::from_ptr(tj::tj3GetErrorStr(handle)).to_string_lossy().into_owned());
        tj::tj3Destroy(handle);
        match message {
            Some(message) => Err(Error::internal(format!("encoding a jpeg: {message}"))),
            None => Ok(std::slice::from_raw_parts(file.buffer, file.len as usize).to_vec()),
        }
    }
}

/// A file in memory that libjpeg-turbo allocated.
struct File {
    buffer: *mut u8,
    len: tj::size_t,
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the buffer is null or the library's, and is freed once.
        unsafe { tj::tj3Free(self.buffer.cast::<c_void>()) }
    }
}
