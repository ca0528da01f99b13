//! Encoded bytes to pixels, one decoder per format, with the same bits as Pillow's `Image.open(f).convert(mode)`.
//!
//! Invariants: no memory is allocated for pixels before [`Limits`] have been checked against the header; a region is an
//! error where the whole image is one, and otherwise its pixels are those of the whole image, cropped. This holds for
//! damaged images, too: of a damaged JPEG (see `jpeg`) all that Pillow shows is decoded; a damaged file of another
//! format is an error as far as the format can tell. Only memory is kept from one image to the next. Deviations: a grey
//! PNG or TIFF of 16 bits yields its high bytes, like one of colours, and Pillow clips at 255; a TIFF is not turned by its
//! orientation. With [`ImageMode::Grey16`] it yields its levels, of two bytes.
//!
//! - `header`: the format and the size of an encoded image; `exif`: its orientation
//! - `jpeg/`, `png`, `webp`, `gif`, `bmp`, `tiff`: the decoder of each format; `palette`: numbers as colours
//! - `raw`: the pixels that such a decoder yields, and their conversion to a mode

mod bmp;
mod exif;
mod gif;
mod header;
mod jpeg;
mod palette;
mod png;
mod raw;
mod tiff;
mod webp;

use forebay_core::{Error, ErrorKind, Result};
use forebay_plan::ImageMode;

use jpeg::Jpeg;
use raw::{Colour, no_levels16, no_palette};

use super::view::{Image, Region, room};

pub(super) use exif::Orientation;
pub use header::{Format, header};

/// The limits of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most pixels. Default: 178,956,970, above which Pillow suspects a decompression bomb.
    pub pixels_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { pixels_max: 2 * 89_478_485 }
    }
}

impl Limits {
    pub(super) fn check(&self, width: u32, height: u32) -> Result<()> {
        let pixels = u64::from(width) * u64::from(height);
        if pixels <= self.pixels_max {
            return Ok(());
        }
        let message = format!("an image of {width}x{height} has {pixels} pixels, more than {}", self.pixels_max);
        Err(Error::new(ErrorKind::Exhausted, message).with("fault", "sample"))
    }
}

/// Decodes images, reusing its memory for the next one. One per thread.
#[derive(Debug, Default)]
pub struct Decoder {
    jpeg: Jpeg,
    pixels: Vec<u8>,
    other: Vec<u8>,
    turned: Vec<u8>,
}

impl Decoder {
    /// Decodes a whole image; its rows have no gaps.
    ///
    /// # Errors
    /// Data when the bytes are not an image, end too soon or are damaged otherwise; Exhausted when it exceeds a limit.
    pub fn decode(&mut self, bytes: &[u8], mode: ImageMode, limits: &Limits) -> Result<Image<'_>> {
        let (format, width, height) = header(bytes)?;
        limits.check(width, height)?;
        self.read(format, bytes, mode, Region::whole(width as usize, height as usize))
    }

    /// Decodes the region of an image, and as little as possible of the rest. Rows may have gaps.
    ///
    /// # Errors
    /// As [`Decoder::decode`], and for the same files; Invalid when the region is empty or not inside the image.
    pub fn decode_region(
        &mut self,
        bytes: &[u8],
        mode: ImageMode,
        limits: &Limits,
        region: Region,
    ) -> Result<Image<'_>> {
        let (format, width, height) = header(bytes)?;
        limits.check(width, height)?;
        if !region.fits(width as usize, height as usize) {
            let Region { x, y, width: w, height: h } = region;
            return Err(Error::invalid(format!(
                "a crop of {w}x{h} at ({x}, {y}) is not inside {width}x{height} pixels"
            )));
        }
        self.read(format, bytes, mode, region)
    }

    /// As [`Decoder::decode_region`] of the image whose rows are the columns of the encoded one.
    pub(super) fn decode_swapped(
        &mut self,
        bytes: &[u8],
        mode: ImageMode,
        limits: &Limits,
        region: Region,
    ) -> Result<Image<'_>> {
        let Region { x, y, width, height } = region;
        let mut turned = std::mem::take(&mut self.turned);
        let image = self.decode_region(bytes, mode, limits, Region { x: y, y: x, width: height, height: width })?;
        let channels = image.channels();
        let out = room(&mut turned, width * height * channels);
        for (column, from) in image.rows().enumerate() {
            for (row, pixel) in from.chunks_exact(channels).enumerate() {
                out[(row * width + column) * channels..][..channels].copy_from_slice(pixel);
            }
        }
        self.turned = turned;
        Image::packed(&self.turned[..width * height * channels], width, height, channels)
    }

    fn read(&mut self, format: Format, bytes: &[u8], mode: ImageMode, region: Region) -> Result<Image<'_>> {
        // The decoded rectangle is in `self.pixels`; `raw` has the place of the region in it.
        let out = &mut self.pixels;
        let raw = match (format, mode) {
            (Format::Jpeg | Format::Webp, ImageMode::Palette) => {
                return Err(no_palette(&format!("a {}", format.name())));
            }
            (Format::Jpeg | Format::Webp | Format::Gif | Format::Bmp, ImageMode::Grey16) => {
                return Err(no_levels16(&format!("a {}", format.name())));
            }
            (Format::Png, ImageMode::Palette) => png::decode_palette(bytes, region, out)?,
            (Format::Png, ImageMode::Grey16) => png::decode_grey16(bytes, region, out)?,
            (Format::Jpeg, _) => self.jpeg.decode(bytes, mode, region, out)?,
            (Format::Png, _) => png::decode(bytes, region, out)?,
            (Format::Webp, _) => webp::decode(bytes, region, out)?,
            (Format::Gif, _) => gif::decode(bytes, mode, region, out)?,
            (Format::Bmp, _) => bmp::decode(bytes, mode, region, out)?,
            (Format::Tiff, _) => tiff::decode(bytes, mode, region, out)?,
        };
        let len = raw.width * raw.height * raw.colour.bytes();
        let image = Image::packed(&self.pixels[..len], raw.width, raw.height, raw.colour.bytes())?.crop(raw.region)?;
        if raw.colour == Colour::of(mode) {
            return Ok(image);
        }
        let (width, height) = (region.width, region.height);
        let row_len = width * mode.channels();
        let out = room(&mut self.other, row_len * height);
        for (from, to) in image.rows().zip(out.chunks_exact_mut(row_len)) {
            raw.colour.convert(from, mode, to);
        }
        Image::packed(out, width, height, mode.channels())
    }
}
