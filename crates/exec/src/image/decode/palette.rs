//! Numbers of a palette, and the colours that they stand for.

use forebay_plan::ImageMode;

use super::raw::{Colour, Raw};
use crate::image::view::{Region, room};

/// The colours of an image whose pixels are numbers.
pub(super) struct Palette {
    colours: [[u8; 3]; 256],
    /// The number whose pixels are transparent.
    transparent: Option<u8>,
}

impl Palette {
    /// Makes a palette. Numbers beyond the colours are grey levels, as in Pillow.
    pub(super) fn new(colours: impl IntoIterator<Item = [u8; 3]>, transparent: Option<u8>) -> Self {
        let mut all = std::array::from_fn(|number| [number as u8; 3]);
        all.iter_mut().zip(colours).for_each(|(colour, from)| *colour = from);
        Self { colours: all, transparent }
    }

    /// Returns the image of these numbers. For [`ImageMode::Palette`] its pixels are the numbers; else they are the
    /// colours, with an opacity channel if a number is transparent.
    pub(super) fn image(
        &self,
        numbers: Vec<u8>,
        (width, height): (usize, usize),
        mode: ImageMode,
        region: Region,
        out: &mut Vec<u8>,
    ) -> Raw {
        let raw = |colour| Raw { width, height, colour, region };
        if mode == ImageMode::Palette {
            *out = numbers;
            return raw(Colour::Index);
        }
        let Some(transparent) = self.transparent else {
            let pixels = room(out, numbers.len() * 3).as_chunks_mut::<3>().0;
            pixels.iter_mut().zip(numbers).for_each(|(pixel, number)| *pixel = self.colours[usize::from(number)]);
            return raw(Colour::Rgb);
        };
        let pixels = room(out, numbers.len() * 4).as_chunks_mut::<4>().0;
        for (pixel, number) in pixels.iter_mut().zip(numbers) {
            let [r, g, b] = self.colours[usize::from(number)];
            *pixel = [r, g, b, if number == transparent { 0 } else { 255 }];
        }
        raw(Colour::Rgba)
    }
}
