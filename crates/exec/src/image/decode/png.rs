//! PNG: decoded whole to 8 bits a channel, so that damage anywhere is an error. Palettes become colours, unless their
//! numbers are requested; transparency becomes an alpha channel, which is dropped. Grey levels of 16 bits are kept only on
//! request.

use std::io::Cursor;

use ::png::{BitDepth, ColorType, Decoder, DecodingError, Info, OutputInfo, Reader, Transformations};
use forebay_core::{Error, Result};

use super::raw::{Colour, Raw, no_levels16, no_palette, unpacked};
use crate::image::view::{Region, room};

pub(super) fn decode(bytes: &[u8], region: Region, out: &mut Vec<u8>) -> Result<Raw> {
    let mut reader = open(bytes, Transformations::normalize_to_color8())?;
    let len = len(&reader)?;
    let info = frame(&mut reader, room(out, len))?;
    let colour = match info.color_type {
        ColorType::Grayscale => Colour::Grey,
        ColorType::GrayscaleAlpha => Colour::GreyAlpha,
        ColorType::Rgb => Colour::Rgb,
        ColorType::Rgba => Colour::Rgba,
        ColorType::Indexed => return Err(Error::internal("a palette was not expanded")),
    };
    Ok(Raw { width: info.width as usize, height: info.height as usize, colour, region })
}

/// Decodes to the numbers of the palette; a byte of the file may hold up to eight.
pub(super) fn decode_palette(bytes: &[u8], region: Region, out: &mut Vec<u8>) -> Result<Raw> {
    let mut reader = open(bytes, Transformations::IDENTITY)?;
    if reader.info().color_type != ColorType::Indexed {
        return Err(no_palette("a png of colours or grey levels"));
    }
    // Zeros, because an interlaced image's bits are added to the existing ones.
    let mut packed = vec![0; len(&reader)?];
    let info = frame(&mut reader, &mut packed)?;
    let (width, height, bits) = (info.width as usize, info.height as usize, info.bit_depth as usize);
    let numbers = room(out, width * height).chunks_exact_mut(width);
    for (row, numbers) in packed.chunks_exact(info.line_size).zip(numbers) {
        numbers.iter_mut().zip(unpacked(row, bits)).for_each(|(to, number)| *to = number);
    }
    Ok(Raw { width, height, colour: Colour::Index, region })
}

/// Decodes the levels of a grey image of 16 bits, to the machine's byte order.
pub(super) fn decode_grey16(bytes: &[u8], region: Region, out: &mut Vec<u8>) -> Result<Raw> {
    let mut reader = open(bytes, Transformations::IDENTITY)?;
    match (reader.info().color_type, reader.info().bit_depth) {
        (ColorType::Grayscale, BitDepth::Sixteen) => {}
        (ColorType::Grayscale, bits) => return Err(no_levels16(&format!("a grey png of {} bits", bits as u8))),
        _ => return Err(no_levels16("a png of colours, of a palette or with opacity")),
    }
    let len = len(&reader)?;
    let out = room(out, len);
    let info = frame(&mut reader, out)?;
    out.as_chunks_mut::<2>().0.iter_mut().for_each(|level| *level = u16::from_be_bytes(*level).to_ne_bytes());
    Ok(Raw { width: info.width as usize, height: info.height as usize, colour: Colour::Grey16, region })
}

fn open(bytes: &[u8], transformations: Transformations) -> Result<Reader<Cursor<&[u8]>>> {
    let mut decoder = Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(transformations);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let reader = decoder.read_info().map_err(broken)?;
    check_palette(reader.info())?;
    Ok(reader)
}

/// The decoder panics when it expands a palette that ends inside a colour.
fn check_palette(info: &Info<'_>) -> Result<()> {
    match &info.palette {
        Some(palette) if palette.len() % 3 != 0 => {
            Err(Error::data(format!("damaged png: a palette of {} bytes ends inside a colour", palette.len())))
        }
        _ => Ok(()),
    }
}

fn len(reader: &Reader<Cursor<&[u8]>>) -> Result<usize> {
    reader.output_buffer_size().ok_or_else(|| Error::data("a png larger than memory can be"))
}

fn frame(reader: &mut Reader<Cursor<&[u8]>>, out: &mut [u8]) -> Result<OutputInfo> {
    let info = reader.next_frame(out).map_err(broken)?;
    // An animation's first frame may be smaller than the header's size.
    if (info.width, info.height) != reader.info().size() {
        return Err(Error::data("damaged png: its first frame has not the image's size"));
    }
    Ok(info)
}

fn broken(e: DecodingError) -> Error {
    match e {
        DecodingError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Error::data("truncated png"),
        e => Error::data(format!("damaged png: {}", e.to_string().trim_end_matches('.'))),
    }
}
