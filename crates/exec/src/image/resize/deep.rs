//! Resizing of one channel of 16 bits: Pillow's `resize` of mode `I;16`.
//!
//! Sums are in f64, in the order of source pixels, and rounded to 16 bits after the columns and after the rows, so the
//! bits are the same on every processor.

use forebay_core::{Error, Result};

use super::taps::{Filter, RealTaps, nearest};
use crate::image::view::{Image, room};

/// The memory of such a resize.
#[derive(Debug, Default)]
pub(super) struct Deep {
    taps: RealTaps,
    /// The image with its columns resized.
    narrowed: Vec<u8>,
    /// The sums of a row.
    sums: Vec<f64>,
}

type Level = [u8; 2];

impl Deep {
    /// Writes `image`, whose pixels have two bytes, as `width` x `height` pixels without gaps.
    ///
    /// # Errors
    /// Invalid for a filter that does not average, except the nearest pixel.
    pub(super) fn resize(
        &mut self,
        image: Image<'_>,
        (width, height): (usize, usize),
        filter: Filter,
        out: &mut [u8],
    ) -> Result<()> {
        let out = out.as_chunks_mut::<2>().0;
        match filter {
            Filter::Linear => return Err(Error::invalid("an image of 16 bits is not resized without averaging")),
            Filter::Nearest => {
                let (columns, rows) = (nearest(image.width(), width), nearest(image.height(), height));
                for (&y, to) in rows.iter().zip(out.chunks_exact_mut(width)) {
                    let row = levels(image, y as usize);
                    to.iter_mut().zip(&columns).for_each(|(to, &x)| *to = row[x as usize]);
                }
                return Ok(());
            }
            Filter::Box | Filter::Triangle | Filter::Bicubic | Filter::Lanczos => {}
        }
        let mut narrowed = std::mem::take(&mut self.narrowed);
        let image = if image.width() == width {
            image
        } else {
            let to = room(&mut narrowed, width * image.height() * 2);
            self.taps.filter(filter, image.width(), width);
            for (y, to) in to.as_chunks_mut::<2>().0.chunks_exact_mut(width).enumerate() {
                let row = levels(image, y);
                for (to, (first, weights)) in to.iter_mut().zip(self.taps.all()) {
                    let products = row[first..].iter().zip(weights).map(|(&level, weight)| real(level) * weight);
                    *to = rounded(products.fold(0.0, |sum, product| sum + product));
                }
            }
            Image::packed(to, width, image.height(), 2)?
        };
        if image.height() == height {
            (0..height).zip(out.chunks_exact_mut(width)).for_each(|(y, to)| to.copy_from_slice(levels(image, y)));
        } else {
            self.taps.filter(filter, image.height(), height);
            for (to, (first, weights)) in out.chunks_exact_mut(width).zip(self.taps.all()) {
                self.sums.clear();
                self.sums.resize(width, 0.0);
                for (y, weight) in weights.iter().enumerate() {
                    let row = levels(image, first + y);
                    self.sums.iter_mut().zip(row).for_each(|(sum, &level)| *sum += real(level) * weight);
                }
                to.iter_mut().zip(&self.sums).for_each(|(to, &sum)| *to = rounded(sum));
            }
        }
        self.narrowed = narrowed;
        Ok(())
    }
}

fn levels(image: Image<'_>, y: usize) -> &[Level] {
    image.row(y).as_chunks::<2>().0
}

fn real(level: Level) -> f64 {
    f64::from(u16::from_ne_bytes(level))
}

/// Rounds to the nearest level, halves up; a sum outside the levels becomes the nearest one.
fn rounded(sum: f64) -> Level {
    ((sum + 0.5).clamp(0.0, 65535.0) as u16).to_ne_bytes()
}
