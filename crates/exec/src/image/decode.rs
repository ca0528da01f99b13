//! Encoded bytes to pixels, one decoder per format, with the same bits as Pillow's `Image.open(f).convert(mode)`.
//!
//! Invariants: no memory is allocated for pixels before [`Limits`] have been checked against the header; a region is an
//! error where the whole image is one, and otherwise its pixels are those of the whole image, cropped. This holds for
//! damaged images, too: of a damaged JPEG (see `jpeg`) all that Pillow shows is decoded; a damaged PNG or WebP is an
//! error. Only memory is kept from one image to the next. Deviation: a 16-bit greyscale PNG yields its high bytes, like
//! a 16-bit colour PNG; Pillow clips at 255.

use forebay_core::{Error, ErrorKind, Result};
use forebay_plan::ImageMode;

use super::header::{Format, header};
use super::jpeg::Jpeg;
use super::view::{Image, Region, room};
use super::{png, webp};

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

    fn read(&mut self, format: Format, bytes: &[u8], mode: ImageMode, region: Region) -> Result<Image<'_>> {
        // The decoded rectangle is in `self.pixels`; `raw` has the place of the region in it.
        let raw = match format {
            Format::Png if mode == ImageMode::Palette => png::decode_palette(bytes, region, &mut self.pixels)?,
            format if mode == ImageMode::Palette => return Err(no_palette(&format!("a {}", format.name()))),
            Format::Jpeg => self.jpeg.decode(bytes, mode, region, &mut self.pixels)?,
            Format::Png => png::decode(bytes, region, &mut self.pixels)?,
            Format::Webp => webp::decode(bytes, region, &mut self.pixels)?,
        };
        let len = raw.width * raw.height * raw.colour.channels();
        let image =
            Image::packed(&self.pixels[..len], raw.width, raw.height, raw.colour.channels())?.crop(raw.region)?;
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

/// Returns the error for a format without palette numbers.
pub(super) fn no_palette(what: &str) -> Error {
    Error::data(format!("{what} has no palette, whose numbers mode=\"P\" gives"))
        .hint("decode it with mode=\"L\" (grey) or mode=\"RGB\"")
}

/// The output of a format's decoder.
pub(super) struct Raw {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) colour: Colour,
    /// The requested region, in the coordinates of the decoded rectangle.
    pub(super) region: Region,
}

/// The channels of decoded pixels before they become a [`ImageMode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colour {
    Grey,
    GreyAlpha,
    Rgb,
    Rgba,
    /// Inverted, as Adobe writes it.
    Cmyk,
    /// Numbers of a palette, which are no colours; only for a request of palette numbers.
    Index,
}

impl Colour {
    /// Returns the channels for a mode.
    fn of(mode: ImageMode) -> Self {
        match mode {
            ImageMode::Grey => Self::Grey,
            ImageMode::Rgb => Self::Rgb,
            ImageMode::Palette => Self::Index,
        }
    }

    pub(super) fn channels(self) -> usize {
        match self {
            Self::Grey | Self::Index => 1,
            Self::GreyAlpha => 2,
            Self::Rgb => 3,
            Self::Rgba | Self::Cmyk => 4,
        }
    }

    /// Converts a row as Pillow's `convert` does; alpha is dropped.
    fn convert(self, from: &[u8], mode: ImageMode, to: &mut [u8]) {
        match self {
            Self::Grey | Self::Index => map::<1>(from, mode, to, |[v]| [v; 3], |[v]| v),
            Self::GreyAlpha => map::<2>(from, mode, to, |[v, _]| [v; 3], |[v, _]| v),
            Self::Rgb => map::<3>(from, mode, to, |p| p, luma),
            Self::Rgba => map::<4>(from, mode, to, |[r, g, b, _]| [r, g, b], |[r, g, b, _]| luma([r, g, b])),
            Self::Cmyk => map::<4>(from, mode, to, cmyk, |p| luma(cmyk(p))),
        }
    }
}

fn map<const N: usize>(
    from: &[u8],
    mode: ImageMode,
    to: &mut [u8],
    rgb: impl Fn([u8; N]) -> [u8; 3],
    grey: impl Fn([u8; N]) -> u8,
) {
    let pixels = from.as_chunks::<N>().0;
    match mode {
        ImageMode::Grey | ImageMode::Palette => pixels.iter().zip(to).for_each(|(&p, out)| *out = grey(p)),
        ImageMode::Rgb => pixels.iter().zip(to.as_chunks_mut::<3>().0).for_each(|(&p, out)| *out = rgb(p)),
    }
}

/// ITU-R 601-2 luma in 16 bits of fraction, rounded, as Pillow's `convert("L")`.
fn luma([r, g, b]: [u8; 3]) -> u8 {
    ((u32::from(r) * 19595 + u32::from(g) * 38470 + u32::from(b) * 7471 + 0x8000) >> 16) as u8
}

/// Inverted CMYK to RGB as Pillow's `convert("RGB")`: ink over white, with no profile.
fn cmyk([c, m, y, k]: [u8; 4]) -> [u8; 3] {
    let white = i32::from(k);
    [c, m, y].map(|inverted| {
        let product = i32::from(255 - inverted) * white + 128;
        (white - (((product >> 8) + product) >> 8)).clamp(0, 255) as u8
    })
}
