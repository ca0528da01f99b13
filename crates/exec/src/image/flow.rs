//! An image on its way through a chain: crops and flips are only recorded, until a step needs the pixels.
//!
//! Invariant: a flow represents `region` of its base, then mirrored by `flip`. A crop or a flip changes these two; a
//! resize or a padding reads the region of the base once, and its result is the new base. A resize does not commute
//! with mirroring to the last bit, so a base that is mirrored left to right is written out first; upside down is only
//! another order of the rows.

use forebay_core::{Error, Result};
use forebay_plan::ImageMode;

use super::decode::{Decoder, Limits, Orientation, header};
use super::depth::Depth;
use super::edit::Edit;
use super::edit::blur::Blur;
use super::edit::erase::erase;
use super::edit::mix::Blend;
use super::edit::noise::noise;
use super::edit::sharpen::sharpen;
use super::normalize::{Normalizer, copy_hwc};
use super::resize::Resizer;
use super::resize::taps::Filter;
use super::view::{Image, Mirror, Region, room};

/// The memory of kernels.
#[derive(Debug, Default)]
pub(super) struct Tools {
    resizer: Resizer,
    blur: Blur,
    blend: Blend,
}

/// The memory that one thread reuses from image to image.
#[derive(Debug)]
pub struct Scratch {
    pub(super) limits: Limits,
    decoder: Decoder,
    tools: Tools,
    buffers: [Vec<u8>; 2],
}

impl Scratch {
    /// Makes a scratch that limits decoded and resized images to `limits`.
    pub fn new(limits: Limits) -> Self {
        Self { limits, decoder: Decoder::default(), tools: Tools::default(), buffers: [Vec::new(), Vec::new()] }
    }
}

/// An encoded image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Encoded<'a> {
    bytes: &'a [u8],
    mode: ImageMode,
    /// Whether its rows become columns.
    swaps: bool,
}

impl Encoded<'_> {
    fn decode<'d>(&self, decoder: &'d mut Decoder, limits: &Limits, region: Region) -> Result<Image<'d>> {
        match self.swaps {
            true => decoder.decode_swapped(self.bytes, self.mode, limits, region),
            false => decoder.decode_region(self.bytes, self.mode, limits, region),
        }
    }
}

#[derive(Clone, Copy)]
enum Base<'a> {
    Encoded(Encoded<'a>),
    Given(Image<'a>),
    /// Without gaps in one of the scratch's two buffers.
    Buffer(usize),
}

pub(super) struct Flow<'a, 's> {
    base: Base<'a>,
    /// Columns and rows of the base.
    size: (usize, usize),
    /// The bytes of a pixel.
    pixel: usize,
    depth: Depth,
    /// Which frame of a clip it is.
    frame: usize,
    region: Region,
    pub(super) flip: Mirror,
    scratch: &'s mut Scratch,
}

/// The destination of a step: its own buffer, or the output of the chain.
pub(super) enum Target<'o> {
    Buffer,
    Out(&'o mut [u8]),
}

impl<'a, 's> Flow<'a, 's> {
    /// Takes an encoded image; `exif` says whether it is turned and mirrored as its EXIF data say.
    pub(super) fn encoded(bytes: &'a [u8], mode: ImageMode, exif: bool, scratch: &'s mut Scratch) -> Result<Self> {
        let (format, width, height) = header(bytes)?;
        scratch.limits.check(width, height)?;
        let Orientation { swaps, across, down } =
            if exif { Orientation::of(format, bytes) } else { Orientation::default() };
        let (width, height) = if swaps { (height, width) } else { (width, height) };
        let base = Base::Encoded(Encoded { bytes, mode, swaps });
        let depth = Depth::of(mode.dtype());
        let pixel = mode.channels() * depth.bytes();
        let flow = Self::new(base, (width as usize, height as usize), pixel, scratch);
        Ok(Self { flip: Mirror { horizontal: across, vertical: down }, depth, ..flow })
    }

    pub(super) fn given(image: Image<'a>, depth: Depth, frame: usize, scratch: &'s mut Scratch) -> Self {
        let flow = Self::new(Base::Given(image), (image.width(), image.height()), image.channels(), scratch);
        Self { depth, frame, ..flow }
    }

    /// An image of levels of 8 bits, whose pixels have so many bytes.
    fn new(base: Base<'a>, size: (usize, usize), pixel: usize, scratch: &'s mut Scratch) -> Self {
        let (depth, region) = (Depth::Eight, Region::whole(size.0, size.1));
        Self { base, size, pixel, depth, frame: 0, region, flip: Mirror::default(), scratch }
    }

    /// Returns the columns and rows of the current image.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.region.width, self.region.height)
    }

    pub(super) fn channels(&self) -> usize {
        self.pixel / self.depth.bytes()
    }

    pub(super) fn depth(&self) -> Depth {
        self.depth
    }

    /// Narrows the image to a region of itself.
    pub(super) fn crop(&mut self, to: Region) {
        self.region = self.place(to);
    }

    /// Returns the place of a region of the image in its base.
    fn place(&self, of: Region) -> Region {
        let x = if self.flip.horizontal { self.region.width - of.width - of.x } else { of.x };
        let y = if self.flip.vertical { self.region.height - of.height - of.y } else { of.y };
        Region { x: self.region.x + x, y: self.region.y + y, ..of }
    }

    /// Puts the image on a larger one of `width` x `height` in one colour.
    pub(super) fn put_on(
        &mut self,
        (left, top): (usize, usize),
        (width, height): (usize, usize),
        fill: [u8; 4],
    ) -> Result<()> {
        if self.size() == (width, height) {
            return Ok(());
        }
        self.check(width, height)?;
        let (flip, pixel) = (self.flip.horizontal, self.pixel);
        self.step((width, height), Target::Buffer, |image, _, out| {
            match fill.iter().all(|level| *level == fill[0]) {
                true => out.fill(fill[0]),
                false => out.chunks_exact_mut(pixel).for_each(|to| to.copy_from_slice(&fill[..pixel])),
            }
            let (row, kept) = (width * pixel, image.width() * pixel);
            for y in 0..image.height() {
                let line = image.crop(Region { x: 0, y, width: image.width(), height: 1 })?;
                copy_hwc(line, flip, &mut out[(top + y) * row + left * pixel..][..kept])?;
            }
            Ok(())
        })
    }

    pub(super) fn resize(&mut self, (width, height): (usize, usize), filter: Filter, target: Target<'_>) -> Result<()> {
        self.check(width, height)?;
        self.straighten()?;
        let depth = self.depth;
        self.step((width, height), target, |image, tools, out| match depth {
            Depth::Eight => tools.resizer.resize(image, width, height, filter, out),
            Depth::Sixteen => tools.resizer.resize_deep(image, width, height, filter, out),
        })
    }

    /// Changes the pixels.
    pub(super) fn edit(&mut self, edit: Edit) -> Result<()> {
        let (channels, frame) = (self.pixel, self.frame);
        match edit {
            Edit::Recolour(recolour) => recolour.apply(self.own()?, channels),
            Edit::Erase { region, value } => {
                self.own()?;
                let (place, width) = (self.place(region), self.size.0);
                erase(self.own()?, width, channels, place, value);
            }
            Edit::MixBegin { share } => {
                // The image is written as it is shown, because copies are turned before they are added.
                let flip = self.flip.horizontal;
                self.step(self.size(), Target::Buffer, |image, _, out| copy_hwc(image, flip, out))?;
                self.blend(|blend, pixels| blend.begin(pixels, share))?;
            }
            Edit::MixCopy => self.blend(|blend, pixels| blend.copy(pixels))?,
            Edit::MixAdd { share } => self.blend(|blend, pixels| blend.add(pixels, share))?,
            Edit::MixEnd => self.blend(|blend, pixels| blend.end(pixels))?,
            Edit::Noise { mean, sigma, key } => {
                self.redraw(|image, _, out| noise(image, mean, sigma, (key, frame), out))?
            }
            Edit::Sharpness(factor) => self.redraw(|image, _, out| sharpen(image, factor, out))?,
            Edit::Warp(warp) => self.redraw(|image, _, out| warp.apply(image, out))?,
            Edit::Blur { size, sigma } => self.redraw(|image, tools, out| tools.blur.blur(image, size, sigma, out))?,
        }
        Ok(())
    }

    /// Calls `f` with the blend and the pixels of the image.
    fn blend(&mut self, f: impl FnOnce(&mut Blend, &mut [u8])) -> Result<()> {
        let mut blend = std::mem::take(&mut self.scratch.tools.blend);
        let done = self.own().map(|pixels| f(&mut blend, pixels));
        self.scratch.tools.blend = blend;
        done
    }

    /// Writes a new image, each pixel from pixels around it.
    fn redraw(&mut self, f: impl FnOnce(Image<'_>, &mut Tools, &mut [u8])) -> Result<()> {
        self.straighten()?;
        self.step(self.size(), Target::Buffer, |image, tools, out| {
            f(image, tools, out);
            Ok(())
        })
    }

    /// Writes the image out if it is mirrored left to right.
    fn straighten(&mut self) -> Result<()> {
        if !self.flip.horizontal {
            return Ok(());
        }
        self.step(self.size(), Target::Buffer, |image, _, out| copy_hwc(image, true, out))
    }

    /// Returns the pixels without gaps, for a change in place. They may be mirrored: see `flip`.
    fn own(&mut self) -> Result<&mut [u8]> {
        if !matches!(self.base, Base::Buffer(_)) || self.size() != self.size {
            let flip = self.flip.horizontal;
            self.step(self.size(), Target::Buffer, |image, _, out| copy_hwc(image, flip, out))?;
        }
        let len = self.size.0 * self.size.1 * self.pixel;
        match self.base {
            Base::Buffer(i) => Ok(&mut self.scratch.buffers[i][..len]),
            _ => Err(Error::internal("an image that was not written")),
        }
    }

    /// Writes the current image.
    pub(super) fn finish(self, normalizer: Option<&Normalizer>, out: &mut [u8]) -> Result<()> {
        let (flip, depth) = (self.flip, self.depth);
        let Scratch { limits, decoder, buffers, .. } = self.scratch;
        let image = match self.base {
            Base::Encoded(encoded) => encoded.decode(decoder, limits, self.region)?,
            Base::Given(image) => image.crop(self.region)?,
            Base::Buffer(i) => buffer(&buffers[i], self.size, self.pixel)?.crop(self.region)?,
        };
        let image = if flip.vertical { image.upside_down() } else { image };
        match normalizer {
            Some(normalizer) if depth == Depth::Sixteen => normalizer.write_deep(image, flip.horizontal, out),
            Some(normalizer) => normalizer.write(image, flip.horizontal, out),
            None => copy_hwc(image, flip.horizontal, out),
        }
    }

    /// Makes a new base of `size` from the region of the old one; `f` has applied `flip.horizontal`.
    fn step(
        &mut self,
        size: (usize, usize),
        target: Target<'_>,
        f: impl FnOnce(Image<'_>, &mut Tools, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let Scratch { limits, decoder, tools, buffers: [first, second] } = &mut *self.scratch;
        let (image, spare, spare_index) = match self.base {
            Base::Encoded(encoded) => (encoded.decode(decoder, limits, self.region)?, first, 0),
            Base::Given(image) => (image.crop(self.region)?, first, 0),
            Base::Buffer(0) => (buffer(first, self.size, self.pixel)?.crop(self.region)?, second, 1),
            Base::Buffer(_) => (buffer(second, self.size, self.pixel)?.crop(self.region)?, first, 0),
        };
        let image = if self.flip.vertical { image.upside_down() } else { image };
        match target {
            Target::Buffer => f(image, tools, room(spare, size.0 * size.1 * self.pixel))?,
            Target::Out(out) => f(image, tools, out)?,
        }
        self.base = Base::Buffer(spare_index);
        self.size = size;
        self.region = Region::whole(size.0, size.1);
        self.flip = Mirror::default();
        Ok(())
    }

    fn check(&self, width: usize, height: usize) -> Result<()> {
        let side = |n: usize| u32::try_from(n).map_err(|_| Error::invalid(format!("an image side of {n} pixels")));
        self.scratch.limits.check(side(width)?, side(height)?)
    }
}

fn buffer(bytes: &[u8], (width, height): (usize, usize), channels: usize) -> Result<Image<'_>> {
    Image::packed(&bytes[..width * height * channels], width, height, channels)
}
