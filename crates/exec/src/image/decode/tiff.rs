//! TIFF: the first page, decoded whole. Levels of 16 bits yield their upper byte, or both on request.

use std::io::Cursor;

use ::tiff::decoder::{Decoder, Limits};
use ::tiff::tags::Tag;
use ::tiff::{ColorType, TiffError};
use forebay_core::{Error, Result};
use forebay_plan::ImageMode;

use super::raw::{Colour, Raw, no_levels16, no_palette, unpacked};
use crate::image::view::{Region, room};

/// The most bytes of the values of one tag.
const TAG_BYTES_MAX: usize = 1 << 20;
/// The least limit of a buffer, in bytes.
const BUFFER_BYTES_MIN: usize = 1 << 24;
/// Values of the tag `ExtraSamples`: the writer does not say what the channel is, or multiplied the colours by it.
const UNKNOWN: u16 = 0;
const PREMULTIPLIED: u16 = 1;

type Tiff<'b> = Decoder<Cursor<&'b [u8]>>;

fn open(bytes: &[u8]) -> Result<Tiff<'_>> {
    Decoder::new(Cursor::new(bytes)).map_err(broken)
}

/// Returns the limits of the decoder's memory for a page of this many pixels: four channels of 16 bits each, and room
/// for tiles that are larger than the page.
fn limits(pixels: usize) -> Limits {
    let mut limits = Limits::default();
    limits.decoding_buffer_size = (pixels * 8).max(BUFFER_BYTES_MIN);
    limits.intermediate_buffer_size = limits.decoding_buffer_size;
    limits.ifd_value_size = TAG_BYTES_MAX;
    limits
}

/// Reads the width and the height of the first page.
pub(super) fn size(bytes: &[u8]) -> Result<(u32, u32)> {
    open(bytes)?.dimensions().map_err(broken)
}

pub(super) fn decode(bytes: &[u8], mode: ImageMode, region: Region, out: &mut Vec<u8>) -> Result<Raw> {
    let mut decoder = open(bytes)?;
    let (width, height) = decoder.dimensions().map_err(broken)?;
    let (width, height) = (width as usize, height as usize);
    let limits = limits(width * height);
    let bytes_max = limits.decoding_buffer_size;
    let mut decoder = decoder.with_limits(limits);
    // An error for a page with a palette, too.
    let page = Page::of(&mut decoder)?;
    if mode == ImageMode::Palette {
        return Err(no_palette("a tiff of colours or grey levels"));
    }
    let layout = decoder.image_buffer_layout().map_err(broken)?;
    if layout.complete_len > bytes_max {
        return Err(not_read(&format!("{} planes", layout.planes)));
    }
    let mut stored = vec![0; layout.complete_len];
    decoder.read_image_bytes(&mut stored).map_err(broken)?;
    let planes = layout.planes.max(1);
    if planes > 1 {
        stored = interleaved(&stored, planes, usize::from(page.bits / 8));
    }
    let colour = if mode == ImageMode::Grey16 { page.grey16()? } else { page.colour };
    let len = width * height * colour.bytes();
    let pixels = room(out, len);
    match (colour, page.bits) {
        (Colour::Grey16, _) | (_, 8) => pixels.copy_from_slice(exactly(&stored, len)?),
        (_, 16) => {
            let levels = exactly(&stored, len * 2)?.as_chunks::<2>().0;
            levels.iter().zip(pixels).for_each(|(level, to)| *to = (u16::from_ne_bytes(*level) >> 8) as u8);
        }
        (_, bits) => unpack(&stored, width, bits, pixels),
    }
    page.normalise(&mut out[..len]);
    Ok(Raw { width, height, colour, region })
}

/// The kind of pixels of a page.
struct Page {
    colour: Colour,
    bits: u8,
    /// The value of the tag `ExtraSamples` for the channel after the colours.
    extra: Option<u16>,
}

impl Page {
    fn of(decoder: &mut Tiff<'_>) -> Result<Self> {
        let extra = decoder.find_tag_unsigned_vec::<u16>(Tag::ExtraSamples).map_err(broken)?.unwrap_or_default();
        let colour_type = decoder.colortype().map_err(broken)?;
        let is_reversed = decoder.find_tag_unsigned::<u16>(Tag::FillOrder).map_err(broken)? == Some(2);
        let formats = decoder.find_tag_unsigned_vec::<u16>(Tag::SampleFormat).map_err(broken)?.unwrap_or_default();
        let (colour, bits) = match colour_type {
            ColorType::Gray(bits @ (1 | 2 | 4 | 8 | 16)) if !is_reversed => (Colour::Grey, bits),
            ColorType::GrayA(bits @ (8 | 16)) => (Colour::GreyAlpha, bits),
            ColorType::Multiband { bit_depth: bits @ (8 | 16), num_samples: 2 } if extra.len() == 1 => {
                (Colour::GreyAlpha, bits)
            }
            ColorType::RGB(bits @ (8 | 16)) => (Colour::Rgb, bits),
            ColorType::RGBA(bits @ (8 | 16)) => (Colour::Rgba, bits),
            ColorType::CMYK(bits @ (8 | 16)) => (Colour::Cmyk, bits),
            other => return Err(not_read(&format!("{other:?}"))),
        };
        // 1: whole numbers without a sign.
        match formats.iter().find(|format| **format != 1) {
            Some(format) => Err(not_read(&format!("sample format {format}"))),
            None => Ok(Self { colour, bits, extra: extra.first().copied() }),
        }
    }

    fn grey16(&self) -> Result<Colour> {
        match (self.colour, self.bits) {
            (Colour::Grey, 16) => Ok(Colour::Grey16),
            (Colour::Grey, bits) => Err(no_levels16(&format!("a grey tiff of {bits} bits"))),
            _ => Err(no_levels16("a tiff of colours or with opacity")),
        }
    }

    /// Converts the stored levels to the convention of their [`Colour`], which is Pillow's: ink is inverted, a channel of
    /// unknown meaning becomes full opacity, and colours are divided by the opacity if the writer multiplied them by it.
    fn normalise(&self, pixels: &mut [u8]) {
        match (self.colour, self.extra) {
            (Colour::Cmyk, _) => pixels.iter_mut().for_each(|ink| *ink = !*ink),
            (Colour::Rgba, Some(UNKNOWN)) => pixels.as_chunks_mut::<4>().0.iter_mut().for_each(|pixel| pixel[3] = 255),
            (Colour::Rgba, Some(PREMULTIPLIED)) => pixels.as_chunks_mut::<4>().0.iter_mut().for_each(divided),
            _ => {}
        }
    }
}

/// Divides colours by the opacity, as Pillow's `RGBa` to `RGBA`.
fn divided(pixel: &mut [u8; 4]) {
    let opacity = u32::from(pixel[3]);
    pixel[..3].iter_mut().for_each(|level| {
        *level = (u32::from(*level) * 255).checked_div(opacity).map_or(0, |level| level.min(255) as u8);
    });
}

/// Returns the pixels of planes: the file stores all levels of one channel before those of the next.
fn interleaved(stored: &[u8], planes: usize, level_bytes: usize) -> Vec<u8> {
    let (plane, level_bytes) = (stored.len() / planes, level_bytes.max(1));
    let levels = (0..plane / level_bytes).flat_map(|pixel| (0..planes).map(move |of| of * plane + pixel * level_bytes));
    levels.flat_map(|at| &stored[at..at + level_bytes]).copied().collect()
}

/// Unpacks grey levels of 1, 2 or 4 bits, and scales them to 255. Each row begins with a new byte.
fn unpack(stored: &[u8], width: usize, bits: u8, pixels: &mut [u8]) {
    let (bits, scale) = (usize::from(bits), 0xFF / (0xFF >> (8 - bits)));
    let rows = stored.chunks_exact((width * bits).div_ceil(8));
    for (from, to) in rows.zip(pixels.chunks_exact_mut(width)) {
        to.iter_mut().zip(unpacked(from, bits)).for_each(|(to, level)| *to = level * scale);
    }
}

fn exactly(stored: &[u8], len: usize) -> Result<&[u8]> {
    let message = || format!("damaged tiff: {} bytes of pixels, and {len} by its header", stored.len());
    if stored.len() == len { Ok(stored) } else { Err(Error::data(message())) }
}

fn not_read(what: &str) -> Error {
    Error::data(format!("a tiff is not read: {what}")).hint("save it as RGB or grey, or decode it with map")
}

fn broken(e: TiffError) -> Error {
    match e {
        TiffError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Error::data("truncated tiff"),
        TiffError::UnsupportedError(e) => not_read(&e.to_string()),
        e => Error::data(format!("damaged tiff: {e}")),
    }
}
