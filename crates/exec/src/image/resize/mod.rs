//! Resizing of 8-bit images to an exact size, in integers, so that vector and scalar code agree.
//!
//! `Box`, `Triangle`, `Bicubic` and `Lanczos` are Pillow's `resize`: columns first, rounded to 8 bits, then rows, with 22
//! bits of fraction. This equals Pillow to the bit up to version 12; version 13 resizes rows first for some sizes, which
//! can differ by one level for `Triangle`, and by several for filters that overshoot. `Linear` blends the two nearest
//! pixels of each axis with half-pixel centres, as `tf.image.resize(antialias=False)` and OpenCV's `INTER_LINEAR` do.
//! Its weights are rounded to 1/2048, their products are summed exactly, and the sum is rounded to nearest, halves up:
//! at most 0.63 levels from the real number. Two or four channels have the opacity last (`alpha`); `deep` resizes 16 bits.

mod alpha;
mod deep;
pub(super) mod taps;
#[cfg(target_arch = "x86_64")]
mod wide;

use forebay_core::{Error, Result};

use super::view::{Image, room};
use deep::Deep;
use taps::{BITS, Filter, LINEAR_BITS, Taps, nearest};
#[cfg(target_arch = "x86_64")]
use wide::Wide;

/// Resizes images, reusing its memory for the next one. One per thread.
#[derive(Debug, Default)]
pub struct Resizer {
    columns: Taps,
    rows: Taps,
    /// The image with its columns resized.
    narrowed: Vec<u8>,
    /// One row of the image, with room to read past its end.
    line: Vec<u8>,
    /// Two rows with their columns blended, not yet rounded.
    blended: [Vec<i32>; 2],
    /// The image with its levels multiplied by their opacity.
    multiplied: Vec<u8>,
    deep: Deep,
    #[cfg(target_arch = "x86_64")]
    wide: Wide,
}

impl Resizer {
    /// Makes a resizer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes `image` as `width` x `height` pixels without gaps.
    ///
    /// # Errors
    /// Invalid when the size is zero, the image has more than 4 channels, or `out` has another length.
    pub fn resize(
        &mut self,
        image: Image<'_>,
        width: usize,
        height: usize,
        filter: Filter,
        out: &mut [u8],
    ) -> Result<()> {
        let channels = image.channels();
        let len = width.checked_mul(height).and_then(|n| n.checked_mul(channels));
        if len != Some(out.len()) || out.is_empty() {
            let got = out.len();
            return Err(Error::invalid(format!("{got} bytes for an image of shape [{height}, {width}, {channels}]")));
        }
        if (image.width(), image.height()) == (width, height) {
            image.rows().zip(out.chunks_exact_mut(width * channels)).for_each(|(from, to)| to.copy_from_slice(from));
            return Ok(());
        }
        match channels {
            1 => self.dispatch::<1>(image, width, height, filter, out),
            2 => self.with_opacity::<2>(image, width, height, filter, out),
            3 => self.dispatch::<3>(image, width, height, filter, out),
            4 => self.with_opacity::<4>(image, width, height, filter, out),
            n => Err(Error::invalid(format!("images of {n} channels cannot be resized, only of 1 to 4"))),
        }
    }

    /// As [`Resizer::resize`] of one channel of 16 bits, whose pixels have two bytes. [`Filter::Linear`] is Invalid.
    pub(super) fn resize_deep(
        &mut self,
        image: Image<'_>,
        width: usize,
        height: usize,
        filter: Filter,
        out: &mut [u8],
    ) -> Result<()> {
        if image.channels() != 2 || out.len() != width * height * 2 || out.is_empty() {
            let (got, bytes) = (out.len(), image.channels());
            return Err(Error::invalid(format!("{got} bytes for [{height}, {width}] pixels of {bytes} bytes")));
        }
        self.deep.resize(image, (width, height), filter, out)
    }

    /// Resizes an image whose last channel is the opacity.
    fn with_opacity<const C: usize>(
        &mut self,
        image: Image<'_>,
        width: usize,
        height: usize,
        filter: Filter,
        out: &mut [u8],
    ) -> Result<()> {
        if matches!(filter, Filter::Nearest | Filter::Linear) {
            return self.dispatch::<C>(image, width, height, filter, out);
        }
        let mut multiplied = std::mem::take(&mut self.multiplied);
        let opaque = alpha::multiplied::<C>(image, &mut multiplied);
        let packed = Image::packed(opaque, image.width(), image.height(), C)?;
        self.dispatch::<C>(packed, width, height, filter, out)?;
        self.multiplied = multiplied;
        alpha::divide::<C>(out);
        Ok(())
    }

    fn dispatch<const C: usize>(
        &mut self,
        image: Image<'_>,
        w: usize,
        h: usize,
        filter: Filter,
        out: &mut [u8],
    ) -> Result<()> {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { self.avx2::<C>(image, w, h, filter, out) };
        }
        self.portable::<C>(image, w, h, filter, out)
    }

    /// The same bits without a choice by processor.
    pub(super) fn portable<const C: usize>(
        &mut self,
        image: Image<'_>,
        w: usize,
        h: usize,
        filter: Filter,
        out: &mut [u8],
    ) -> Result<()> {
        self.passes::<C, false>(image, w, h, filter, out)
    }

    /// The same code, compiled for wider registers.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn avx2<const C: usize>(
        &mut self,
        image: Image<'_>,
        w: usize,
        h: usize,
        filter: Filter,
        out: &mut [u8],
    ) -> Result<()> {
        self.passes::<C, true>(image, w, h, filter, out)
    }

    #[inline(always)]
    fn passes<const C: usize, const AVX2: bool>(
        &mut self,
        image: Image<'_>,
        width: usize,
        height: usize,
        filter: Filter,
        out: &mut [u8],
    ) -> Result<()> {
        match filter {
            Filter::Linear => {
                self.two_nearest::<C>(image, width, height, out);
                return Ok(());
            }
            Filter::Nearest => {
                one_nearest::<C>(image, width, height, out);
                return Ok(());
            }
            Filter::Box | Filter::Triangle | Filter::Bicubic | Filter::Lanczos => {}
        }
        let row_len = width * C;
        if image.height() == height {
            self.narrow::<C, AVX2>(image, width, filter, out);
            return Ok(());
        }
        let mut narrowed = std::mem::take(&mut self.narrowed);
        let image = if image.width() == width {
            image
        } else {
            let to = room(&mut narrowed, row_len * image.height());
            self.narrow::<C, AVX2>(image, width, filter, to);
            Image::packed(to, width, image.height(), C)?
        };
        self.rows.filter(filter, image.height(), height);
        for (y, to) in out.chunks_exact_mut(row_len).enumerate() {
            let (first, weights) = self.rows.of(y);
            weigh_rows(image, first, weights, to);
        }
        self.narrowed = narrowed;
        Ok(())
    }

    /// Resizes every row to `width` pixels.
    #[inline(always)]
    fn narrow<const C: usize, const AVX2: bool>(
        &mut self,
        image: Image<'_>,
        width: usize,
        filter: Filter,
        out: &mut [u8],
    ) {
        self.columns.filter(filter, image.width(), width);
        #[cfg(target_arch = "x86_64")]
        if AVX2 && C == 3 {
            self.wide.set(&self.columns);
            let len = image.width() * C;
            let line = room(&mut self.line, len + self.wide.margin());
            for (row, to) in image.rows().zip(out.chunks_exact_mut(width * C)) {
                line[..len].copy_from_slice(row);
                // SAFETY: the caller has checked for AVX2.
                unsafe { self.wide.weigh(line, to) };
            }
            return;
        }
        for (row, to) in image.rows().zip(out.chunks_exact_mut(width * C)) {
            weigh_columns(row, &self.columns, to.as_chunks_mut::<C>().0);
        }
    }

    #[inline(always)]
    fn two_nearest<const C: usize>(&mut self, image: Image<'_>, width: usize, height: usize, out: &mut [u8]) {
        const HALF: i32 = 1 << (2 * LINEAR_BITS - 1);
        self.columns.linear(image.width(), width);
        self.rows.linear(image.height(), height);
        let row_len = width * C;
        self.blended.iter_mut().for_each(|row| row.resize(row_len, 0));
        let [above, below] = &mut self.blended;
        let mut held = [usize::MAX; 2];
        for (y, to) in out.chunks_exact_mut(row_len).enumerate() {
            let (first, weights) = self.rows.of(y);
            let last = first + weights.len() - 1;
            if held[1] == first {
                std::mem::swap(above, below);
                held.swap(0, 1);
            }
            if held[0] != first {
                blend::<C>(image.row(first), &self.columns, above);
                held[0] = first;
            }
            if last != first && held[1] != last {
                blend::<C>(image.row(last), &self.columns, below);
                held[1] = last;
            }
            match *weights {
                [a, b] => to.iter_mut().zip(above.iter().zip(&*below)).for_each(|(to, (above, below))| {
                    *to = ((above * a + below * b + HALF) >> (2 * LINEAR_BITS)) as u8;
                }),
                _ => to.iter_mut().zip(&*above).for_each(|(to, above)| {
                    *to = (((above << LINEAR_BITS) + HALF) >> (2 * LINEAR_BITS)) as u8;
                }),
            }
        }
    }
}

/// Writes the nearest pixel of each output pixel.
fn one_nearest<const C: usize>(image: Image<'_>, width: usize, height: usize, out: &mut [u8]) {
    let (columns, rows) = (nearest(image.width(), width), nearest(image.height(), height));
    for (&y, to) in rows.iter().zip(out.chunks_exact_mut(width * C)) {
        let row = image.row(y as usize).as_chunks::<C>().0;
        to.as_chunks_mut::<C>().0.iter_mut().zip(&columns).for_each(|(to, &x)| *to = row[x as usize]);
    }
}

/// Rounds a weighted sum that already includes its half.
#[inline(always)]
fn level(sum: i32) -> u8 {
    (sum >> BITS).clamp(0, 255) as u8
}

/// Writes the weighted sums of some pixels of a line.
#[inline(always)]
fn weigh_columns<const C: usize>(line: &[u8], columns: &Taps, to: &mut [[u8; C]]) {
    for (pixel, (first, weights)) in to.iter_mut().zip(columns.all()) {
        let mut sums = [1 << (BITS - 1); C];
        for (from, &weight) in line.as_chunks::<C>().0[first..].iter().zip(weights) {
            for (sum, &v) in sums.iter_mut().zip(from) {
                *sum += i32::from(v) * weight;
            }
        }
        *pixel = sums.map(level);
    }
}

/// Writes the weighted sum of some rows.
#[inline(always)]
fn weigh_rows(image: Image<'_>, first: usize, weights: &[i32], to: &mut [u8]) {
    const LANES: usize = 32;
    let (blocks, rest) = to.as_chunks_mut::<LANES>();
    let rest_at = blocks.len() * LANES;
    for (i, block) in blocks.iter_mut().enumerate() {
        let mut sums = [1 << (BITS - 1); LANES];
        for (y, &weight) in weights.iter().enumerate() {
            let row = image.row(first + y).as_chunks::<LANES>().0;
            for (sum, &v) in sums.iter_mut().zip(&row[i]) {
                *sum += i32::from(v) * weight;
            }
        }
        for (to, sum) in block.iter_mut().zip(sums) {
            *to = level(sum);
        }
    }
    for (c, to) in rest.iter_mut().enumerate() {
        let mut sum = 1 << (BITS - 1);
        for (y, weight) in weights.iter().enumerate() {
            sum += i32::from(image.row(first + y)[rest_at + c]) * weight;
        }
        *to = level(sum);
    }
}

/// Blends the two nearest pixels of each output pixel of a row.
#[inline(always)]
fn blend<const C: usize>(row: &[u8], columns: &Taps, to: &mut [i32]) {
    let row = row.as_chunks::<C>().0;
    for (x, to) in to.as_chunks_mut::<C>().0.iter_mut().enumerate() {
        let (first, weights) = columns.of(x);
        match *weights {
            [a, b] => (0..C).for_each(|c| to[c] = i32::from(row[first][c]) * a + i32::from(row[first + 1][c]) * b),
            _ => (0..C).for_each(|c| to[c] = i32::from(row[first][c]) << LINEAR_BITS),
        }
    }
}
