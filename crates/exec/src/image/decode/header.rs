//! The header of an encoded image, read before decoding: its format and its size.
//!
//! Sizes come from a few bytes at fixed places, so that a limit can be checked before memory is allocated.

use std::io::Cursor;

use forebay_core::{Error, Result};

/// An encoding that can be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JPEG: baseline, extended or progressive, 8 bits.
    Jpeg,
    /// PNG.
    Png,
    /// WebP, lossy or lossless.
    Webp,
    /// GIF.
    Gif,
    /// BMP without compression.
    Bmp,
    /// TIFF.
    Tiff,
}

impl Format {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jpeg => "jpeg",
            Self::Png => "png",
            Self::Webp => "webp",
            Self::Gif => "gif",
            Self::Bmp => "bmp",
            Self::Tiff => "tiff",
        }
    }

    /// Detects the format by its first bytes.
    ///
    /// # Errors
    /// Data when the bytes are in none of these formats.
    pub fn sniff(bytes: &[u8]) -> Result<Self> {
        match bytes {
            [0xFF, 0xD8, 0xFF, ..] => Ok(Self::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Ok(Self::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Ok(Self::Webp),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Ok(Self::Gif),
            [b'B', b'M', ..] => Ok(Self::Bmp),
            // 43 marks a BigTIFF, which has offsets of 64 bits.
            [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Ok(Self::Tiff),
            [] => Err(Error::data("no image: zero bytes")),
            _ => {
                let start = &bytes[..bytes.len().min(8)];
                let message = "not a jpeg, png, webp, gif, bmp or tiff image: it starts with";
                Err(Error::data(format!("{message} {start:02x?}")))
            }
        }
    }
}

/// Reads the format, the width and the height.
///
/// # Errors
/// Data when the header is damaged or states that there are no pixels.
pub fn header(bytes: &[u8]) -> Result<(Format, u32, u32)> {
    let format = Format::sniff(bytes)?;
    let (width, height) = match format {
        Format::Jpeg => jpeg(bytes)?,
        Format::Png => png(bytes)?,
        Format::Webp => image_webp::WebPDecoder::new(Cursor::new(bytes)).map_err(super::webp::broken)?.dimensions(),
        Format::Gif => super::gif::size(bytes)?,
        Format::Bmp => super::bmp::size(bytes)?,
        Format::Tiff => super::tiff::size(bytes)?,
    };
    if width == 0 || height == 0 {
        return Err(Error::data(format!("an image of {width}x{height} has no pixels")));
    }
    Ok((format, width, height))
}

fn png(bytes: &[u8]) -> Result<(u32, u32)> {
    let Some((b"IHDR", size)) = bytes.get(12..24).and_then(|chunk| chunk.split_first_chunk()) else {
        return Err(Error::data("damaged png: no header"));
    };
    let number = |at: usize| u32::from_be_bytes([size[at], size[at + 1], size[at + 2], size[at + 3]]);
    Ok((number(0), number(4)))
}

/// Reads a JPEG's width and height.
pub(super) fn jpeg(bytes: &[u8]) -> Result<(u32, u32)> {
    let damaged = || Error::data("truncated jpeg: it ends inside its header");
    let mut size = None;
    let mut at = 2;
    loop {
        // Any number of 0xFF may precede a marker; bytes between segments are skipped, as libjpeg does.
        while *bytes.get(at).ok_or_else(damaged)? != 0xFF {
            at += 1;
        }
        while *bytes.get(at).ok_or_else(damaged)? == 0xFF {
            at += 1;
        }
        let marker = bytes[at];
        at += 1;
        if matches!(marker, 0x00 | 0x01 | 0xD0..=0xD8) {
            continue;
        }
        if marker == 0xD9 {
            return Err(Error::data("damaged jpeg: it has no pixels"));
        }
        let segment = bytes.get(at..).ok_or_else(damaged)?;
        let len = usize::from(u16::from_be_bytes(*segment.first_chunk().ok_or_else(damaged)?));
        if matches!(marker, 0xC0..=0xCF) && !matches!(marker, 0xC4 | 0xC8 | 0xCC) {
            let [_, _, _, h1, h0, w1, w0] = *segment.first_chunk().ok_or_else(damaged)?;
            size = Some((u32::from(u16::from_be_bytes([w1, w0])), u32::from(u16::from_be_bytes([h1, h0]))));
        }
        at += len;
        if marker == 0xDA {
            return size.ok_or_else(|| Error::data("damaged jpeg: no frame before its pixels"));
        }
    }
}
