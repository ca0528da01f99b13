//! GIF: the first frame, on a screen of its transparent colour, or of colour 0.

use std::num::NonZeroU64;

use ::gif::{ColorOutput, DecodeOptions, DecodingError, MemoryLimit};
use forebay_core::{Error, Result};
use forebay_plan::ImageMode;

use super::palette::Palette;
use super::raw::Raw;
use crate::image::view::Region;

/// Reads the width and the height of the screen.
pub(super) fn size(bytes: &[u8]) -> Result<(u32, u32)> {
    let Some(&[w0, w1, h0, h1]) = bytes.get(6..10) else { return Err(Error::data("truncated gif: no header")) };
    Ok((u32::from(u16::from_le_bytes([w0, w1])), u32::from(u16::from_le_bytes([h0, h1]))))
}

pub(super) fn decode(bytes: &[u8], mode: ImageMode, region: Region, out: &mut Vec<u8>) -> Result<Raw> {
    let (width, height) = size(bytes)?;
    let (width, height) = (width as usize, height as usize);
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    options.check_frame_consistency(true);
    let most = NonZeroU64::new((width * height) as u64).unwrap_or(NonZeroU64::MIN);
    options.set_memory_limit(MemoryLimit::Bytes(most));
    let mut decoder = options.read_info(bytes).map_err(broken)?;
    let Some(frame) = decoder.next_frame_info().map_err(broken)? else {
        return Err(Error::data("damaged gif: it has no frame"));
    };
    let (left, top) = (usize::from(frame.left), usize::from(frame.top));
    let (columns, rows, transparent) = (usize::from(frame.width), usize::from(frame.height), frame.transparent);
    let mut numbers = vec![0; decoder.buffer_size()];
    decoder.read_into_buffer(&mut numbers).map_err(broken)?;
    let colours = decoder.palette().unwrap_or_default().as_chunks::<3>().0.iter().copied();
    let palette = Palette::new(colours, transparent);
    if (left, top, columns, rows) != (0, 0, width, height) {
        let mut screen = vec![transparent.unwrap_or(0); width * height];
        let lines = screen.chunks_exact_mut(width).skip(top).filter_map(|line| line.get_mut(left..left + columns));
        lines.zip(numbers.chunks_exact(columns.max(1))).for_each(|(line, from)| line.copy_from_slice(from));
        numbers = screen;
    }
    Ok(palette.image(numbers, (width, height), mode, region, out))
}

fn broken(e: DecodingError) -> Error {
    match e {
        DecodingError::Io(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Error::data("truncated gif"),
        e => Error::data(format!("damaged gif: {e}")),
    }
}
