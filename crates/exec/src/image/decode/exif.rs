//! The orientation of an image, which its EXIF data state: how the decoded pixels are turned and mirrored to be shown.
//!
//! EXIF is a TIFF file inside an image file. Only the tag of the orientation in its first directory is read; data that
//! are damaged state no orientation, as for Pillow's `exif_transpose`.

use std::io::Cursor;

use super::header::Format;

/// How decoded pixels become the image that is shown: first rows and columns change places, then it is mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::image) struct Orientation {
    /// Whether rows become columns.
    pub(in crate::image) swaps: bool,
    /// Whether it is then mirrored left to right.
    pub(in crate::image) across: bool,
    /// Whether it is then mirrored upside down.
    pub(in crate::image) down: bool,
}

impl Orientation {
    /// Reads the orientation of an encoded image.
    pub(in crate::image) fn of(format: Format, bytes: &[u8]) -> Self {
        let number = match format {
            Format::Jpeg => in_jpeg(bytes).and_then(tag),
            Format::Png => chunks(bytes.get(8..).unwrap_or_default()).and_then(tag),
            Format::Webp => image_webp::WebPDecoder::new(Cursor::new(bytes))
                .and_then(|mut decoder| decoder.exif_metadata())
                .ok()
                .flatten()
                .and_then(|exif| tag(exif.strip_prefix(NAME).unwrap_or(&exif))),
            Format::Tiff => tag(bytes),
            Format::Gif | Format::Bmp => None,
        };
        let [swaps, across, down] = match number {
            Some(2) => [false, true, false],
            Some(3) => [false, true, true],
            Some(4) => [false, false, true],
            Some(5) => [true, false, false],
            Some(6) => [true, true, false],
            Some(7) => [true, true, true],
            Some(8) => [true, false, true],
            _ => [false; 3],
        };
        Self { swaps, across, down }
    }
}

/// The name of EXIF data in a segment of a JPEG.
const NAME: &[u8] = b"Exif\0\0";

/// Returns the EXIF data of a JPEG: the first segment before its pixels that is named so.
fn in_jpeg(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes.get(2..)?;
    loop {
        let start = rest.iter().position(|&v| v == 0xFF)?;
        let marker = rest[start..].iter().position(|&v| v != 0xFF)? + start;
        let segment = &rest[marker + 1..];
        match rest[marker] {
            0x00 | 0x01 | 0xD0..=0xD8 => rest = segment,
            0xD9 | 0xDA => return None,
            name => {
                let len = usize::from(u16::from_be_bytes(*segment.first_chunk()?)).max(2);
                let body = segment.get(2..len);
                if let (0xE1, Some(exif)) = (name, body.and_then(|body| body.strip_prefix(NAME))) {
                    return Some(exif);
                }
                rest = segment.get(len..)?;
            }
        }
    }
}

/// Returns the EXIF data of a PNG, of whose chunks `rest` are all.
fn chunks(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let (len, after) = rest.split_first_chunk::<4>()?;
        let (name, after) = after.split_first_chunk::<4>()?;
        let len = u32::from_be_bytes(*len) as usize;
        if name == b"eXIf" {
            return after.get(..len);
        }
        rest = after.get(len.checked_add(4)?..)?;
    }
}

/// Returns the orientation that a TIFF file states: tag 0x0112 of its first directory, a number of 16 bits.
fn tag(tiff: &[u8]) -> Option<u16> {
    let is_little = match tiff.first_chunk()? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = *tiff.get(at..)?.first_chunk()?;
        Some(if is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let start = *tiff.get(4..)?.first_chunk()?;
    let start = if is_little { u32::from_le_bytes(start) } else { u32::from_be_bytes(start) } as usize;
    // An entry: the tag, the type, the number of values in 4 bytes, and the value.
    let entries = (0..usize::from(short(start)?)).map(|entry| start + 2 + 12 * entry);
    entries
        .map_while(|at| Some((at, short(at)?)))
        .find(|(_, tag)| *tag == 0x0112)
        .and_then(|(at, _)| (short(at + 2)? == 3).then(|| short(at + 8)).flatten())
}
