//! WebP: decoded whole; of an animation, the first frame.

use std::io::Cursor;

use forebay_core::{Error, Result};
use image_webp::{DecodingError, WebPDecoder};

use super::decode::{Colour, Raw};
use super::view::{Region, room};

pub(super) fn decode(bytes: &[u8], region: Region, out: &mut Vec<u8>) -> Result<Raw> {
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(broken)?;
    let len = decoder.output_buffer_size().ok_or_else(|| Error::data("a webp larger than memory can be"))?;
    let (width, height) = decoder.dimensions();
    let colour = if decoder.has_alpha() { Colour::Rgba } else { Colour::Rgb };
    let out = room(out, len);
    if decoder.is_animated() {
        decoder.read_frame(out).map_err(broken)?;
    } else {
        decoder.read_image(out).map_err(broken)?;
    }
    Ok(Raw { width: width as usize, height: height as usize, colour, region })
}

pub(super) fn broken(e: DecodingError) -> Error {
    match e {
        DecodingError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Error::data("truncated webp"),
        e => Error::data(format!("damaged webp: {e}")),
    }
}
