//! PNG: decoded whole to 8 bits a channel; palettes become colours, transparency an alpha channel that is then dropped.

use std::io::Cursor;

use ::png::{ColorType, Decoder, DecodingError, Transformations};
use forebay_core::{Error, Result};

use super::decode::{Colour, Raw};
use super::view::{Region, room};

pub(super) fn decode(bytes: &[u8], region: Region, out: &mut Vec<u8>) -> Result<Raw> {
    let mut decoder = Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(Transformations::normalize_to_color8());
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut reader = decoder.read_info().map_err(broken)?;
    let len = reader.output_buffer_size().ok_or_else(|| Error::data("a png larger than memory can be"))?;
    let info = reader.next_frame(room(out, len)).map_err(broken)?;
    let colour = match info.color_type {
        ColorType::Grayscale => Colour::Grey,
        ColorType::GrayscaleAlpha => Colour::GreyAlpha,
        ColorType::Rgb => Colour::Rgb,
        ColorType::Rgba => Colour::Rgba,
        ColorType::Indexed => return Err(Error::internal("a palette was not expanded")),
    };
    Ok(Raw { width: info.width as usize, height: info.height as usize, colour, region })
}

fn broken(e: DecodingError) -> Error {
    match e {
        DecodingError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Error::data("truncated png"),
        e => Error::data(format!("damaged png: {}", e.to_string().trim_end_matches('.'))),
    }
}
