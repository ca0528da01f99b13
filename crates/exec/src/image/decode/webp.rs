//! WebP: decoded whole; of an animation, the first frame.

use std::io::Cursor;

use forebay_core::{Error, Result};
use image_webp::{DecodingError, WebPDecoder};

use super::raw::{Colour, Raw};
use crate::image::view::{Region, room};

pub(super) fn decode(bytes: &[u8], region: Region, out: &mut Vec<u8>) -> Result<Raw> {
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(broken)?;
    let len = decoder.output_buffer_size().ok_or_else(|| Error::data("a webp larger than memory can be"))?;
    let (width, height) = decoder.dimensions();
    check_frame_sizes(bytes, (width, height))?;
    let colour = if decoder.has_alpha() { Colour::Rgba } else { Colour::Rgb };
    let out = room(out, len);
    if decoder.is_animated() {
        decoder.read_frame(out).map_err(broken)?;
    } else {
        decoder.read_image(out).map_err(broken)?;
    }
    Ok(Raw { width: width as usize, height: height as usize, colour, region })
}

/// Checks that each lossy frame to decode has the size that the file states. The decoder allocates memory by the
/// frame's own header, and compares the two later or, after a plane of alpha in an animation, never.
fn check_frame_sizes(file: &[u8], canvas: (u32, u32)) -> Result<()> {
    let mut is_first = true;
    for (name, body) in chunks(file.get(12..).unwrap_or_default()) {
        match name {
            b"VP8 " => check_frame_size(body, canvas)?,
            // Only the first frame of an animation is decoded.
            b"ANMF" if std::mem::take(&mut is_first) => {
                let number = |at: usize| body.get(at..at + 3).map(|b| u32::from_le_bytes([b[0], b[1], b[2], 0]) + 1);
                let (Some(width), Some(height)) = (number(6), number(9)) else { continue };
                let frame = chunks(body.get(16..).unwrap_or_default());
                let mut lossy = frame.filter(|(name, _)| *name == b"VP8 ");
                lossy.try_for_each(|(_, body)| check_frame_size(body, (width, height)))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Compares the size in the header of a lossy frame: 3 bytes of tag, 3 of start code, 14 bits each of width and height.
fn check_frame_size(frame: &[u8], (width, height): (u32, u32)) -> Result<()> {
    let Some(&[w0, w1, h0, h1]) = frame.get(6..10) else { return Ok(()) };
    let size = [[w0, w1], [h0, h1]].map(|bytes| u32::from(u16::from_le_bytes(bytes) & 0x3FFF));
    if size != [width, height] {
        let [w, h] = size;
        return Err(Error::data(format!("damaged webp: a frame of {w}x{h} in a place of {width}x{height}")));
    }
    Ok(())
}

/// Returns the chunks of a RIFF file or of a chunk that holds chunks: their names and bodies. A truncated chunk is the
/// last.
fn chunks(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (name, rest) = bytes.split_first_chunk::<4>()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let len = u32::from_le_bytes(*len) as usize;
        let body = &rest[..len.min(rest.len())];
        bytes = rest.get(len.saturating_add(len & 1)..).unwrap_or_default();
        Some((name, body))
    })
}

pub(super) fn broken(e: DecodingError) -> Error {
    match e {
        DecodingError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Error::data("truncated webp"),
        e => Error::data(format!("damaged webp: {e}")),
    }
}
