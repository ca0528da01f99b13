//! Pixels as the decoder of a format yields them, and their conversion to the mode that a pipeline wants.

use forebay_core::Error;
use forebay_plan::ImageMode;

use crate::image::view::Region;

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
    /// Levels of two bytes; only for a request of them.
    Grey16,
}

impl Colour {
    /// Returns the channels for a mode.
    pub(super) fn of(mode: ImageMode) -> Self {
        match mode {
            ImageMode::Grey => Self::Grey,
            ImageMode::GreyAlpha => Self::GreyAlpha,
            ImageMode::Rgb => Self::Rgb,
            ImageMode::Rgba => Self::Rgba,
            ImageMode::Palette => Self::Index,
            ImageMode::Grey16 => Self::Grey16,
        }
    }

    /// Returns the bytes of a pixel.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Grey | Self::Index => 1,
            Self::GreyAlpha | Self::Grey16 => 2,
            Self::Rgb => 3,
            Self::Rgba | Self::Cmyk => 4,
        }
    }

    /// Converts a row as Pillow's `convert` does. A mode without alpha drops it; for a mode with alpha, an image
    /// without one is opaque.
    pub(super) fn convert(self, from: &[u8], mode: ImageMode, to: &mut [u8]) {
        match self {
            Self::Grey | Self::Index => map::<1>(from, mode, to, |[v]| [v; 3], |[v]| v, |_| 255),
            Self::GreyAlpha | Self::Grey16 => map::<2>(from, mode, to, |[v, _]| [v; 3], |[v, _]| v, |[_, a]| a),
            Self::Rgb => map::<3>(from, mode, to, |p| p, luma, |_| 255),
            Self::Rgba => {
                map::<4>(from, mode, to, |[r, g, b, _]| [r, g, b], |[r, g, b, _]| luma([r, g, b]), |[_, _, _, a]| a);
            }
            Self::Cmyk => map::<4>(from, mode, to, cmyk, |p| luma(cmyk(p)), |_| 255),
        }
    }
}

/// Returns the numbers of 1, 2, 4 or 8 bits that a row of bytes holds, the first in the highest bits. The last byte may
/// yield more numbers than the row has pixels.
pub(super) fn unpacked(row: &[u8], bits: usize) -> impl Iterator<Item = u8> {
    let places = (0..8 / bits).rev().map(move |place| place * bits);
    row.iter().flat_map(move |byte| places.clone().map(move |place| byte >> place & (0xFF >> (8 - bits))))
}

/// Returns the error for a format without palette numbers.
pub(super) fn no_palette(what: &str) -> Error {
    Error::data(format!("{what} has no palette, whose numbers mode=\"P\" gives"))
        .hint("decode it with mode=\"L\" (grey) or mode=\"RGB\"")
}

/// Returns the error for a format without levels of 16 bits.
pub(super) fn no_levels16(what: &str) -> Error {
    Error::data(format!("{what} has no grey levels of 16 bits, which mode=\"I;16\" gives"))
        .hint("decode it with mode=\"L\" (grey) or mode=\"RGB\"")
}

fn map<const N: usize>(
    from: &[u8],
    mode: ImageMode,
    to: &mut [u8],
    rgb: impl Fn([u8; N]) -> [u8; 3],
    grey: impl Fn([u8; N]) -> u8,
    alpha: impl Fn([u8; N]) -> u8,
) {
    let pixels = from.as_chunks::<N>().0;
    match mode {
        ImageMode::Grey | ImageMode::Palette | ImageMode::Grey16 => {
            pixels.iter().zip(to).for_each(|(&p, out)| *out = grey(p))
        }
        ImageMode::Rgb => pixels.iter().zip(to.as_chunks_mut::<3>().0).for_each(|(&p, out)| *out = rgb(p)),
        ImageMode::GreyAlpha => {
            pixels.iter().zip(to.as_chunks_mut::<2>().0).for_each(|(&p, out)| *out = [grey(p), alpha(p)]);
        }
        ImageMode::Rgba => pixels.iter().zip(to.as_chunks_mut::<4>().0).for_each(|(&p, out)| {
            let [r, g, b] = rgb(p);
            *out = [r, g, b, alpha(p)];
        }),
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
