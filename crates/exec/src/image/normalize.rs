//! The last pass: 8-bit pixels to the layout and type of the batch, optionally mirrored, each number written once.
//!
//! A channel has 256 possible results, so they are computed once, in f32 and in torchvision's order: `v / 255`, less the
//! mean, over the standard deviation. A pass is then a look-up, equal to torchvision's `ToTensor` and `Normalize` to the
//! bit on every processor. Floats are written as bytes in the machine's order, so a slot need not be aligned.

use forebay_core::{Error, Result};
use forebay_plan::Layout;

use super::view::{Image, Mirror};

/// Turns 8-bit channels into `(v / 255 - mean) / std`.
#[derive(Debug, Clone)]
pub struct Normalizer {
    /// For each channel, the bytes of the result of each level.
    tables: Vec<[[u8; 4]; 256]>,
    /// The mean and the deviation of the first channel, for levels of 16 bits.
    first: (f32, f32),
    layout: Layout,
}

impl Normalizer {
    /// Makes the tables.
    ///
    /// # Errors
    /// Invalid when there is not one finite mean and one finite non-zero deviation for each channel.
    pub fn new(mean: &[f32], std: &[f32], layout: Layout) -> Result<Self> {
        if mean.len() != std.len() || mean.is_empty() {
            let (m, s) = (mean.len(), std.len());
            return Err(Error::invalid(format!("normalize needs a mean and a std for each channel, got {m} and {s}")));
        }
        if let Some(v) = mean.iter().chain(std).find(|v| !v.is_finite()) {
            return Err(Error::invalid(format!("normalize by {v}: mean and std must be finite")));
        }
        if std.contains(&0.0) {
            return Err(Error::invalid("normalize by a std of 0"));
        }
        let table =
            |(mean, std): (&f32, &f32)| std::array::from_fn(|v| ((v as f32 / 255.0 - mean) / std).to_ne_bytes());
        Ok(Self { tables: mean.iter().zip(std).map(table).collect(), first: (mean[0], std[0]), layout })
    }

    /// Returns the number of channels it is for.
    pub fn channels(&self) -> usize {
        self.tables.len()
    }

    /// Returns the order that it writes.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Writes the image, mirrored left to right when `flip`, into `out`: 4 bytes a number.
    ///
    /// # Errors
    /// Invalid when the image has other channels, or `out` another length.
    pub fn write(&self, image: Image<'_>, flip: bool, out: &mut [u8]) -> Result<()> {
        let (channels, got) = (self.channels(), image.channels());
        if got != channels {
            return Err(Error::invalid(format!("normalize has {channels} channels, the image has {got}")));
        }
        let out = numbers::<4>(out, image)?;
        match (self.layout, self.tables.as_slice()) {
            (_, [table]) => transfer::<1, _>(image, flip, out, |[v]| [table[usize::from(v)]]),
            (Layout::Hwc, [r, g, b]) => transfer::<3, _>(image, flip, out, |p| look_up([r, g, b], p)),
            (Layout::Chw | Layout::Cthw, [r, g, b]) => deal(image, flip, out, |p| look_up([r, g, b], p)),
            (layout, tables) => any(image, flip, layout, out, |c, v| tables[c][usize::from(v)]),
        }
        Ok(())
    }

    /// As [`Normalizer::write`] for one channel of 16 bits: `(v / 65535 - mean) / std`.
    ///
    /// # Errors
    /// Invalid when there are other channels, or `out` has another length.
    pub(super) fn write_deep(&self, image: Image<'_>, flip: bool, out: &mut [u8]) -> Result<()> {
        let (channels, got) = (self.channels(), image.channels() / 2);
        let numbers = out.len() / 4;
        if (channels, got) != (1, 1) || numbers != image.width() * image.height() {
            return Err(Error::invalid(format!(
                "{numbers} numbers of {channels} channels for a 16-bit image of {got}"
            )));
        }
        let (mean, std) = self.first;
        let number = |v: &[u8; 2]| ((f32::from(u16::from_ne_bytes(*v)) / 65535.0 - mean) / std).to_ne_bytes();
        for (from, to) in image.rows().zip(out.chunks_exact_mut(image.width() * 4)) {
            let (from, to) = (from.as_chunks::<2>().0.iter(), to.as_chunks_mut::<4>().0);
            let write = |(v, to): (&[u8; 2], &mut [u8; 4])| *to = number(v);
            if flip { from.rev().zip(to).for_each(write) } else { from.zip(to).for_each(write) }
        }
        Ok(())
    }
}

#[inline(always)]
fn look_up(tables: [&[[u8; 4]; 256]; 3], pixel: [u8; 3]) -> [[u8; 4]; 3] {
    [0, 1, 2].map(|c| tables[c][usize::from(pixel[c])])
}

/// Copies an image without gaps, channels together, mirrored left to right when `flip`.
///
/// # Errors
/// Invalid when `out` has another length.
pub fn copy_hwc(image: Image<'_>, flip: bool, out: &mut [u8]) -> Result<()> {
    let out = numbers::<1>(out, image)?;
    match (flip, image.channels()) {
        (false, n) => {
            let rows = image.rows().zip(out.as_flattened_mut().chunks_exact_mut(image.width() * n));
            rows.for_each(|(from, to)| to.copy_from_slice(from));
        }
        (true, 1) => transfer::<1, _>(image, true, out, |p| p.map(|v| [v])),
        (true, 2) => transfer::<2, _>(image, true, out, |p| p.map(|v| [v])),
        (true, 3) => transfer::<3, _>(image, true, out, |p| p.map(|v| [v])),
        (true, 4) => transfer::<4, _>(image, true, out, |p| p.map(|v| [v])),
        _ => any(image, flip, Layout::Hwc, out, |_, v| [v]),
    }
    Ok(())
}

/// Copies an image channel by channel, mirrored left to right when `flip`.
///
/// # Errors
/// Invalid when `out` has another length.
pub fn copy_chw(image: Image<'_>, flip: bool, out: &mut [u8]) -> Result<()> {
    match image.channels() {
        1 => copy_hwc(image, flip, out)?,
        3 => deal(image, flip, numbers::<1>(out, image)?, |p| p.map(|v| [v])),
        _ => any(image, flip, Layout::Chw, numbers::<1>(out, image)?, |_, v| [v]),
    }
    Ok(())
}

/// Copies an image of floats (4 bytes each, [`Layout::shape`] in `shape`), mirrored as `flip` says.
///
/// # Errors
/// Invalid when a length is not that of the shape.
pub fn flip_floats(from: &[u8], shape: [usize; 3], layout: Layout, flip: Mirror, out: &mut [u8]) -> Result<()> {
    // Mirroring reverses runs of whole pixels: of `channels` numbers together, or of one; upside down, the rows of a
    // plane.
    let (rows, row, pixel) = match layout {
        Layout::Hwc => (shape[0], shape[1] * shape[2] * 4, shape[2] * 4),
        Layout::Chw | Layout::Cthw => (shape[1], shape[2] * 4, 4),
    };
    let len = shape.iter().try_fold(4, |len: usize, &n| len.checked_mul(n));
    if len != Some(from.len()) || out.len() != from.len() || from.is_empty() {
        let (a, b) = (from.len(), out.len());
        return Err(Error::invalid(format!("{a} and {b} bytes for floats of shape {shape:?}")));
    }
    for (y, from) in from.chunks_exact(row).enumerate() {
        let y = if flip.vertical { y - y % rows + (rows - 1 - y % rows) } else { y };
        let to = &mut out[y * row..][..row];
        if flip.horizontal {
            let pixels = from.chunks_exact(pixel).zip(to.chunks_exact_mut(pixel).rev());
            pixels.for_each(|(from, to)| to.copy_from_slice(from));
        } else {
            to.copy_from_slice(from);
        }
    }
    Ok(())
}

/// Views the output as numbers of `N` bytes, as many as the image has.
fn numbers<'a, const N: usize>(out: &'a mut [u8], image: Image<'_>) -> Result<&'a mut [[u8; N]]> {
    let shape = Layout::Hwc.shape(image.width(), image.height(), image.channels());
    let got = out.len();
    match out.as_chunks_mut::<N>() {
        (out, []) if out.len() == shape.iter().product::<usize>() => Ok(out),
        _ => Err(Error::invalid(format!("{got} bytes for an image of shape {shape:?} and {N} bytes a number"))),
    }
}

/// Pixel to pixel, channels staying together.
#[inline(always)]
fn transfer<const C: usize, T>(image: Image<'_>, flip: bool, out: &mut [T], f: impl Fn([u8; C]) -> [T; C]) {
    for (from, to) in image.rows().zip(out.chunks_exact_mut(image.width() * C)) {
        let (from, to) = (from.as_chunks::<C>().0.iter(), to.as_chunks_mut::<C>().0);
        let write = |(&p, to): (&[u8; C], &mut [T; C])| *to = f(p);
        if flip { from.rev().zip(to).for_each(write) } else { from.zip(to).for_each(write) }
    }
}

/// Pixels of three channels to three planes.
#[inline(always)]
fn deal<T>(image: Image<'_>, flip: bool, out: &mut [T], f: impl Fn([u8; 3]) -> [T; 3]) {
    let (width, plane) = (image.width(), image.width() * image.height());
    let (red, rest) = out.split_at_mut(plane);
    let (green, blue) = rest.split_at_mut(plane);
    let planes = red.chunks_exact_mut(width).zip(green.chunks_exact_mut(width)).zip(blue.chunks_exact_mut(width));
    for (from, ((red, green), blue)) in image.rows().zip(planes) {
        let to = red.iter_mut().zip(green).zip(blue);
        let write = |(&p, ((r, g), b)): (&[u8; 3], ((&mut T, &mut T), &mut T))| [*r, *g, *b] = f(p);
        let from = from.as_chunks::<3>().0.iter();
        if flip { from.rev().zip(to).for_each(write) } else { from.zip(to).for_each(write) }
    }
}

/// Any number of channels, any order: the slow and obvious way.
fn any<T>(image: Image<'_>, flip: bool, layout: Layout, out: &mut [T], f: impl Fn(usize, u8) -> T) {
    let (width, height, channels) = (image.width(), image.height(), image.channels());
    for (y, row) in image.rows().enumerate() {
        for (x, pixel) in row.chunks_exact(channels).enumerate() {
            let x = if flip { width - 1 - x } else { x };
            for (c, &v) in pixel.iter().enumerate() {
                let at = match layout {
                    Layout::Hwc => (y * width + x) * channels + c,
                    Layout::Chw | Layout::Cthw => (c * height + y) * width + x,
                };
                out[at] = f(c, v);
            }
        }
    }
}
