//! JPEG through libjpeg-turbo: exact IDCT, fancy upsampling, and no more of the image than a region needs.
//!
//! A region is decoded with a margin of one iMCU (the block of pixels that shares chroma samples) on its left, its
//! right and above, because upsampling reads a neighbour's chroma and treats the edge of the decoded part as the edge
//! of the image. Rows below the region are not decoded at all.
//!
//! Damaged files follow Pillow's rule: entropy coded data is decoded as far as possible; data that ends before the
//! pixels do is an error, and so is a damaged header. Invariant: for any region, the error or the pixels are those of
//! the whole image decoded by libjpeg-turbo. So the result for a region is used only when nothing unusual was found in
//! it and no marker but the image's end follows it; otherwise the whole image is decoded.

mod bits;
mod huffman;
mod region;
mod scan;

use forebay_core::{Error, Result};
use forebay_plan::ImageMode;
// libjpeg-turbo itself, which shim.c calls.
use turbojpeg_sys as _;

use self::region::{Info, Opened, Outcome};
use self::scan::Entropy;
use super::header;
use super::raw::{Colour, Raw};
use crate::image::view::{Region, room};

/// Decodes JPEGs. From one image to the next it keeps memory, and look-ups of Huffman tables by table.
#[derive(Debug, Default)]
pub(super) struct Jpeg {
    entropy: Entropy,
}

impl Jpeg {
    /// Decodes at least the region into `out`; the caller has checked that it lies inside the image.
    pub(super) fn decode(&mut self, bytes: &[u8], mode: ImageMode, region: Region, out: &mut Vec<u8>) -> Result<Raw> {
        let size = header::jpeg(bytes)?;
        let opened = Opened::new(bytes)?;
        if (opened.info.width, opened.info.height) != size {
            return Err(Error::data("damaged jpeg: its header tells two sizes"));
        }
        match self.decode_part(opened, mode, region, out) {
            Some(raw) => Ok(raw),
            None => decode_whole(bytes, mode, region, out),
        }
    }

    /// Decodes little more than the region; `None` when the whole image must be decoded for its pixels.
    fn decode_part(
        &mut self,
        mut opened: Opened<'_>,
        mode: ImageMode,
        region: Region,
        out: &mut Vec<u8>,
    ) -> Option<Raw> {
        let info = opened.info;
        let part = around(region, &info);
        let colour = colour(&info, mode);
        let pixels = room(out, part.width * part.height * colour.bytes());
        let outcome = if info.plain != 0 {
            opened.decode(part, colour.bytes(), Some(&mut self.entropy), pixels)
        } else if info.regions != 0 && (info.scans != 0 || self.entropy.is_undisturbed(&opened)) {
            opened.decode(part, colour.bytes(), None, pixels)
        } else {
            return None;
        };
        let region = Region { x: region.x - part.x, y: region.y - part.y, ..region };
        (outcome == Outcome::Exact).then_some(Raw { width: part.width, height: part.height, colour, region })
    }
}

/// Decodes all of an image as far as possible, or returns its error.
fn decode_whole(bytes: &[u8], mode: ImageMode, region: Region, out: &mut Vec<u8>) -> Result<Raw> {
    let mut opened = Opened::new(bytes)?;
    let (width, height) = (opened.info.width as usize, opened.info.height as usize);
    let colour = colour(&opened.info, mode);
    let pixels = room(out, width * height * colour.bytes());
    match opened.decode(Region::whole(width, height), colour.bytes(), None, pixels) {
        Outcome::Exact | Outcome::Damaged => Ok(Raw { width, height, colour, region }),
        Outcome::Failed => Err(opened.error()),
    }
}

fn colour(info: &Info, mode: ImageMode) -> Colour {
    match (info.channels, mode) {
        (4, _) => Colour::Cmyk,
        (1, ImageMode::Grey | ImageMode::GreyAlpha) => Colour::Grey,
        _ => Colour::Rgb,
    }
}

/// Adds a margin of one iMCU on the left, on the right and above.
fn around(region: Region, info: &Info) -> Region {
    let (mcu_width, mcu_height) = (info.mcu_width as usize, info.mcu_height as usize);
    let x = (region.x / mcu_width).saturating_sub(1) * mcu_width;
    let y = (region.y / mcu_height).saturating_sub(1) * mcu_height;
    let right = ((region.x + region.width).next_multiple_of(mcu_width) + mcu_width).min(info.width as usize);
    let bottom = region.y + region.height;
    Region { x, y, width: right - x, height: bottom - y }
}

#[cfg(test)]
mod tests;
