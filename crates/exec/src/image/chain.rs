//! A chain of image steps as one kernel: it decodes the region it needs, reads it once and writes the result once.
//!
//! Invariant: the result has the same bits as running each step as a chain of its own, with whole images of u8 (f32
//! after `Normalize`) between them. Decoding and the first crop are one pass; a resize reads the crop in place, and
//! writes to the output when only flips that cancel out follow; augmentations change a buffer in place where they can;
//! flips and `Normalize` are the one pass that fills the output.

use forebay_core::rng::SampleRng;
use forebay_core::{Error, Result};
use forebay_data::DType;
use forebay_plan::{ImageMode, Layout};

use super::cut::cut;
use super::depth::Depth;
use super::edit::Edit;
pub use super::flow::Scratch;
use super::flow::{Flow, Target};
use super::follow::{Alone, Change, Follow};
use super::geometry::{random_resized_crop, shorter_side};
use super::normalize::{Normalizer, flip_floats};
use super::step::Step;
use super::view::{Image, Mirror};

/// Steps that have been checked to fit together.
#[derive(Debug, Clone)]
pub struct Chain {
    decode: Option<ImageMode>,
    /// Whether decoded images are turned and mirrored as their EXIF data say.
    exif: bool,
    steps: Vec<Step>,
    normalizer: Option<Normalizer>,
}

/// The input of a chain.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// The bytes of a file, for a chain that decodes.
    Encoded(&'a [u8]),
    /// Pixels, channels together, no gaps.
    Pixels {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// Channels; 1 to 4 to be resized.
        channels: usize,
        /// The bits of a level.
        depth: Depth,
        /// Which frame of a clip it is; 0 for an image.
        frame: usize,
        /// `height * width * channels` levels, in the machine's byte order.
        pixels: &'a [u8],
    },
    /// An image that was normalised before, which can only be flipped and erased.
    Floats {
        /// The shape in the order of `layout`.
        shape: [usize; 3],
        /// The order.
        layout: Layout,
        /// f32 in the machine's byte order.
        bytes: &'a [u8],
    },
}

/// The destination of a chain: u8, or f32 in the machine's byte order.
#[derive(Debug)]
pub enum Output<'a> {
    /// A row's slot in a batch, of exactly the result's size.
    Slot(&'a mut [u8]),
    /// A buffer that gets the result's size.
    Vec(&'a mut Vec<u8>),
}

impl Output<'_> {
    fn take(&mut self, shape: Shape) -> Result<&mut [u8]> {
        self.take_many(shape, 1)
    }

    /// Returns the bytes of images of one shape.
    pub(super) fn take_many(&mut self, shape: Shape, images: usize) -> Result<&mut [u8]> {
        let len = shape.bytes() * images;
        match self {
            Self::Slot(slot) => {
                if slot.len() != len {
                    let (dims, dtype, got) = (shape.dims, shape.dtype, slot.len());
                    return Err(Error::invalid(format!("an image of {dtype} {dims:?} in a slot of {got} bytes"))
                        .hint("resize or crop images to one size before they are batched"));
                }
                Ok(slot)
            }
            Self::Vec(vec) => {
                vec.resize(len, 0);
                Ok(vec)
            }
        }
    }
}

/// The output of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Height, width, channels; or channels first after `Normalize` with [`Layout::Chw`].
    pub dims: [usize; 3],
    /// Uint8 or Uint16, or Float32 after `Normalize`.
    pub dtype: DType,
}

impl Shape {
    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.dims.iter().product::<usize>() * self.dtype.size()
    }
}

impl Chain {
    /// Checks the steps and makes a chain of them. `decode` is the mode for encoded input, `None` for pixels.
    ///
    /// # Errors
    /// Invalid when an argument is out of range, or when other steps than flips and then erasing follow a `Normalize`.
    pub fn new(decode: Option<ImageMode>, steps: Vec<Step>) -> Result<Self> {
        let mut normalizer: Option<Normalizer> = None;
        let mut erased = false;
        for step in &steps {
            step.check()?;
            match step {
                Step::Augment { augment, .. } if augment.takes_floats() => erased = normalizer.is_some(),
                Step::Flip { .. } if erased => {
                    return Err(Error::invalid("flip after erasing a normalised image").hint("flip before normalize"));
                }
                Step::Flip { .. } | Step::Annotate { .. } => {}
                _ if normalizer.is_some() => {
                    return Err(Error::invalid(format!("{} after normalize", step.name()))
                        .hint("move normalize behind the steps that work on 8-bit pixels"));
                }
                _ => {}
            }
            if let Step::Normalize { mean, std, layout } = step {
                normalizer = Some(Normalizer::new(mean, std, *layout)?);
            }
        }
        if let (Some(mode), Some(n)) = (decode, &normalizer)
            && n.channels() != mode.channels()
        {
            let (a, b) = (n.channels(), mode.channels());
            return Err(Error::invalid(format!("normalize has {a} channels, the decoded image has {b}")));
        }
        Ok(Self { decode, exif: false, steps, normalizer })
    }

    /// Turns and mirrors decoded images as their EXIF data say.
    #[must_use]
    pub fn with_exif(self, exif: bool) -> Self {
        Self { exif, ..self }
    }

    /// Runs the chain on one image. `rng` opens the stream of the given op, for this sample.
    ///
    /// # Errors
    /// Data when the image is damaged; Exhausted when it exceeds a limit; Invalid when the chain does not accept the
    /// input or the output.
    pub fn run(
        &self,
        input: Input<'_>,
        rng: impl Fn(u64) -> SampleRng,
        scratch: &mut Scratch,
        out: &mut Output<'_>,
    ) -> Result<Shape> {
        self.run_followed(input, rng, scratch, out, &mut Alone::default())
    }

    /// As [`Chain::run`]; `follow` hears of each change of the image's geometry.
    pub(crate) fn run_followed(
        &self,
        input: Input<'_>,
        rng: impl Fn(u64) -> SampleRng,
        scratch: &mut Scratch,
        out: &mut Output<'_>,
        follow: &mut dyn Follow,
    ) -> Result<Shape> {
        let mut flow = match (input, self.decode) {
            (Input::Encoded(bytes), Some(mode)) => Flow::encoded(bytes, mode, self.exif, scratch)?,
            (Input::Pixels { height, width, channels, depth, frame, pixels }, None) => {
                Flow::given(Image::packed(pixels, width, height, channels * depth.bytes())?, depth, frame, scratch)
            }
            (Input::Floats { shape, layout, bytes }, None) => return self.floats(shape, layout, bytes, rng, out),
            (Input::Encoded(_), None) => {
                return Err(Error::invalid("an encoded image for steps that do not decode it"));
            }
            (_, Some(_)) => return Err(Error::invalid("pixels where an encoded image is to be decoded")),
        };
        let mut normalized = false;
        for (i, step) in self.steps.iter().enumerate() {
            let (size, filter) = match *step {
                Step::Flip { direction, p, key_op } => {
                    let is_turned = heads(p, rng(key_op));
                    let change = if is_turned { Change::Mirror(direction) } else { Change::Keep };
                    follow.follow(i, change, flow.size())?;
                    flow.flip.turn(direction, is_turned);
                    continue;
                }
                Step::Annotate { clip } => {
                    follow.follow(i, Change::Check { clip }, flow.size())?;
                    continue;
                }
                Step::Augment { .. } if normalized => continue,
                Step::Augment { ref augment, key_op } => {
                    follow.follow(i, Change::Keep, flow.size())?;
                    augment.draw(flow.size(), &mut rng(key_op), &mut |edit| {
                        if let Edit::Warp(warp) = &edit {
                            follow.follow(i, Change::Warp(warp), flow.size())?;
                        }
                        flow.edit(edit)
                    })?;
                    continue;
                }
                Step::Normalize { .. } => {
                    normalized = true;
                    continue;
                }
                Step::CenterCrop { .. }
                | Step::Crop { .. }
                | Step::Pad { .. }
                | Step::RandomCrop { .. }
                | Step::IouCrop { .. }
                | Step::ZoomOut { .. } => {
                    cut(&mut flow, i, step, &rng, follow)?;
                    continue;
                }
                Step::Resize { height, width, filter } => ((width, height), filter),
                Step::ResizeShorter { size, max_size, filter } => (shorter_side(flow.size(), size, max_size), filter),
                Step::RandomResizedCrop { height, width, scale, ratio, filter, key_op } => {
                    let region = random_resized_crop(flow.size(), scale, ratio, &mut rng(key_op));
                    follow.follow(i, Change::Crop(region), flow.size())?;
                    flow.crop(region);
                    ((width, height), filter)
                }
            };
            follow.follow(i, Change::Resize(size.0, size.1), flow.size())?;
            if self.ends_at(i, &rng) {
                self.mirror_on(i + 1, size, &rng, follow)?;
                let shape = self.shape(size, &flow);
                flow.resize(size, filter, Target::Out(out.take(shape)?))?;
                return Ok(shape);
            }
            flow.resize(size, filter, Target::Buffer)?;
        }
        let shape = self.shape(flow.size(), &flow);
        let out = out.take(shape)?;
        flow.finish(self.normalizer.as_ref(), out)?;
        if let Some(normalizer) = &self.normalizer {
            let after = self.steps.iter().rposition(|step| matches!(step, Step::Normalize { .. })).unwrap_or(0);
            erase(&self.steps[after..], shape.dims, normalizer.layout(), &rng, out)?;
        }
        Ok(shape)
    }

    /// Says whether the pixels after step `i` are the result: flips may follow, if they cancel out.
    fn ends_at(&self, i: usize, rng: &impl Fn(u64) -> SampleRng) -> bool {
        let mut flip = Mirror::default();
        for step in &self.steps[i + 1..] {
            let Step::Flip { direction, p, key_op } = *step else { return false };
            flip.turn(direction, heads(p, rng(key_op)));
        }
        flip == Mirror::default()
    }

    /// Reports the flips from step `from` on, which cancel out for the pixels.
    fn mirror_on(
        &self,
        from: usize,
        size: (usize, usize),
        rng: &impl Fn(u64) -> SampleRng,
        follow: &mut dyn Follow,
    ) -> Result<()> {
        for (i, step) in self.steps.iter().enumerate().skip(from) {
            if let Step::Flip { direction, p, key_op } = *step {
                let change = if heads(p, rng(key_op)) { Change::Mirror(direction) } else { Change::Keep };
                follow.follow(i, change, size)?;
            }
        }
        Ok(())
    }

    fn floats(
        &self,
        shape: [usize; 3],
        layout: Layout,
        bytes: &[u8],
        rng: impl Fn(u64) -> SampleRng,
        out: &mut Output<'_>,
    ) -> Result<Shape> {
        let (mut flip, mut erased) = (Mirror::default(), false);
        for step in &self.steps {
            match *step {
                Step::Flip { direction, p, key_op } if !erased => flip.turn(direction, heads(p, rng(key_op))),
                Step::Augment { .. } => erased = true,
                _ => return Err(Error::invalid(format!("{} of an image of floats", step.name()))),
            }
        }
        let result = Shape { dims: shape, dtype: DType::Float32 };
        let out = out.take(result)?;
        flip_floats(bytes, shape, layout, flip, out)?;
        erase(&self.steps, shape, layout, &rng, out)?;
        Ok(result)
    }

    fn shape(&self, (width, height): (usize, usize), flow: &Flow<'_, '_>) -> Shape {
        let (layout, dtype) = match (&self.normalizer, flow.depth()) {
            (Some(normalizer), _) => (normalizer.layout(), DType::Float32),
            (None, Depth::Eight) => (Layout::Hwc, DType::Uint8),
            (None, Depth::Sixteen) => (Layout::Hwc, DType::Uint16),
        };
        Shape { dims: layout.shape(width, height, flow.channels()), dtype }
    }
}

/// Erases the regions that the augmentations among `steps` draw from an image of f32.
fn erase(
    steps: &[Step],
    shape: [usize; 3],
    layout: Layout,
    rng: &impl Fn(u64) -> SampleRng,
    out: &mut [u8],
) -> Result<()> {
    for step in steps {
        if let Step::Augment { augment, key_op } = step {
            augment.apply_to_floats(out, shape, layout, &mut rng(*key_op))?;
        }
    }
    Ok(())
}

/// Tosses the coin of a flip.
fn heads(p: f64, mut rng: SampleRng) -> bool {
    rng.unit() < p
}
