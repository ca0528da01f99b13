//! BMP: uncompressed pixels of 1, 4, 8, 16, 24 or 32 bits. There is no checksum, so damaged pixels are other pixels.

use forebay_core::{Error, Result};
use forebay_plan::ImageMode;

use super::palette::Palette;
use super::raw::{Colour, Raw, no_palette, unpacked};
use crate::image::view::{Region, room};

/// The values of the header's compression field that stand for uncompressed pixels. With `MASKS`, the file says which
/// bits of a pixel each channel has.
const PLAIN: u32 = 0;
const MASKS: u32 = 3;
/// The length of the file header in bytes, and that of the oldest image header, which has numbers of 16 bits.
const FILE_HEADER: usize = 14;
const OLD_HEADER: u32 = 12;

/// The headers of a file.
struct Header {
    /// The length of the image header in bytes.
    len: u32,
    width: u32,
    height: u32,
    /// Whether the first row of the file is the top one.
    is_top_down: bool,
    bits: u16,
    compression: u32,
    /// The number of colours of the palette; 0 means as many as the bits allow.
    colours: u32,
    /// Where the pixels begin.
    pixels: usize,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    let found = bytes.get(at..).and_then(<[u8]>::first_chunk);
    found.copied().ok_or_else(|| Error::data("truncated bmp: it ends inside its header"))
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Self> {
        let long = |at: usize| number(bytes, at).map(u32::from_le_bytes);
        let short = |at: usize| number(bytes, at).map(u16::from_le_bytes);
        let (len, pixels) = (long(FILE_HEADER)?, long(10)? as usize);
        if len == OLD_HEADER {
            let (width, height) = (u32::from(short(18)?), u32::from(short(20)?));
            let bits = short(24)?;
            return Ok(Self { len, width, height, is_top_down: false, bits, compression: PLAIN, colours: 0, pixels });
        }
        if !(40..=1 << 16).contains(&len) {
            return Err(Error::data(format!("damaged bmp: a header of {len} bytes")));
        }
        let height = i32::from_le_bytes(number(bytes, 22)?);
        let width = i32::from_le_bytes(number(bytes, 18)?).max(0) as u32;
        let (bits, compression, colours) = (short(28)?, long(30)?, long(46)?);
        let (is_top_down, height) = (height < 0, height.unsigned_abs());
        Ok(Self { len, width, height, is_top_down, bits, compression, colours, pixels })
    }

    /// Returns the colours of the palette, which lie between the headers and the pixels.
    fn palette(&self, bytes: &[u8]) -> Palette {
        let all = 1 << self.bits;
        let colours = if self.colours == 0 { all } else { self.colours.min(all) } as usize;
        let size = if self.len == OLD_HEADER { 3 } else { 4 };
        let table = bytes.get(FILE_HEADER + self.len as usize..self.pixels).unwrap_or_default();
        Palette::new(table.chunks_exact(size).take(colours).map(|colour| [colour[2], colour[1], colour[0]]), None)
    }

    /// Returns the bits of red, green, blue and opacity in a pixel.
    fn masks(&self, bytes: &[u8]) -> Result<[u32; 4]> {
        Ok(match (self.compression, self.bits) {
            (PLAIN, 16) => [0x7C00, 0x03E0, 0x001F, 0],
            (PLAIN, _) => [0xFF_0000, 0xFF00, 0xFF, 0],
            _ => {
                let mask = |at: usize| number(bytes, FILE_HEADER + 40 + 4 * at).map(u32::from_le_bytes);
                let opacity = if self.len >= 56 { mask(3)? } else { 0 };
                match [mask(0)?, mask(1)?, mask(2)?, opacity] {
                    [0, 0, 0, 0] => [0xFF_0000, 0xFF00, 0xFF, 0xFF00_0000],
                    masks => masks,
                }
            }
        })
    }
}

/// Reads the width and the height.
pub(super) fn size(bytes: &[u8]) -> Result<(u32, u32)> {
    Header::read(bytes).map(|header| (header.width, header.height))
}

pub(super) fn decode(bytes: &[u8], mode: ImageMode, region: Region, out: &mut Vec<u8>) -> Result<Raw> {
    let header = Header::read(bytes)?;
    match (header.compression, header.bits) {
        (PLAIN, 1 | 4 | 8 | 16 | 24 | 32) | (MASKS, 16 | 32) => {}
        (compression, bits) => {
            return Err(Error::data(format!("a bmp of {bits} bits and compression {compression} is not read"))
                .hint("save it without compression, or as PNG"));
        }
    }
    let (width, height) = (header.width as usize, header.height as usize);
    let stride = (width * usize::from(header.bits)).div_ceil(32) * 4;
    let rows = bytes.get(header.pixels..).and_then(|rows| rows.get(..stride * height));
    let rows = rows.ok_or_else(|| Error::data("truncated bmp"))?;
    let row = |y: usize| {
        let at = if header.is_top_down { y } else { height - 1 - y };
        &rows[at * stride..][..stride]
    };
    if header.bits <= 8 {
        let bits = usize::from(header.bits);
        let numbers = (0..height).flat_map(|y| unpacked(row(y), bits).take(width)).collect();
        return Ok(header.palette(bytes).image(numbers, (width, height), mode, region, out));
    }
    if mode == ImageMode::Palette {
        return Err(no_palette(&format!("a bmp of {} bits", header.bits)));
    }
    let masks = header.masks(bytes)?;
    let colour = if masks[3] == 0 { Colour::Rgb } else { Colour::Rgba };
    let (channels, step) = (colour.bytes(), usize::from(header.bits) / 8);
    let pixels = room(out, width * height * channels);
    for (y, to) in pixels.chunks_exact_mut(width * channels).enumerate() {
        for (pixel, from) in to.chunks_exact_mut(channels).zip(row(y).chunks_exact(step)) {
            let value = from.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
            pixel.iter_mut().zip(masks).for_each(|(level, mask)| *level = scaled(value, mask));
        }
    }
    Ok(Raw { width, height, colour, region })
}

/// Returns the level at the bits of a mask, from 0 to 255, rounded down.
fn scaled(value: u32, mask: u32) -> u8 {
    if mask == 0 {
        return 0;
    }
    let (most, level) = (mask >> mask.trailing_zeros(), (value & mask) >> mask.trailing_zeros());
    (u64::from(level) * 255 / u64::from(most)) as u8
}
