//! Mixup (Zhang et al., 2017) and cutmix (Yun et al., 2019) of whole batches.
//!
//! Each sample of a batch is mixed with a partner of the same batch, all by one share. The coin, the share and the
//! partners are drawn from the stream of the batch's first sample, so they depend only on the samples of the batch. The
//! arithmetic is torchvision's `MixUp` and `CutMix`, to the bit: both products rounded, then their sum.

use arrow_array::{Array, ArrayRef, Int64Array};
use forebay_core::rng::{SampleRng, op_key};
use forebay_core::{Error, Result, Seed};
use forebay_data::{Chunk, DType, FixedTensorBuilder, Kind, tensor_values};
use forebay_plan::{Clip, Expr, Layout, Mixing, Op, Step, image_layout, ops};

use crate::image::Region;
use crate::image::real::ln_gamma;
use crate::table::evaluate;

pub(crate) struct MixOp {
    pub(crate) step: Step,
    seed: Seed,
}

/// The random draws of one batch.
struct Draws {
    /// The share of the sample itself.
    share: f64,
    partners: Vec<usize>,
}

impl MixOp {
    pub(crate) fn new(step: &Step, seed: Seed) -> Self {
        Self { step: step.clone(), seed }
    }

    /// Mixes the rows of one batch.
    pub(crate) fn run(&self, batch: &Chunk) -> Result<Chunk> {
        let Op::Mix(ops::Mix { how, column, label, classes, alpha, probability }) = &self.step.node.op else {
            return Err(Error::internal("an op that mixes nothing"));
        };
        let mut labels = soft_labels(batch, label, *classes)?;
        let mut images = batch.column(column)?.clone();
        if batch.num_rows() > 0 {
            let first = batch.random_id(0);
            let mut rng = SampleRng::new(op_key(self.seed, first.epoch, self.step.random), first.sample);
            if rng.unit() < *probability {
                let mut draws = Draws { share: beta(*alpha, &mut rng), partners: partners(batch.num_rows(), &mut rng) };
                let kind = &batch.schema().field(column)?.kind;
                images = match how {
                    Mixing::Mixup => mixup(kind, &images, &draws)?,
                    Mixing::Cutmix => cutmix(kind, &images, &mut draws, &mut rng)?,
                };
                labels = blended(&labels, *classes, &draws);
            }
        }
        let fields = self.step.schema.fields().iter();
        let columns = fields.map(|field| match &field.name {
            name if name == column => Ok(images.clone()),
            name if name == label => floats(&labels, &[*classes], batch.num_rows()),
            name => batch.column(name).cloned(),
        });
        batch.with_columns(self.step.schema.clone(), columns.collect::<Result<_>>()?)
    }
}

/// Returns the labels of a batch as shares of classes: 1 for the class of an integer label.
fn soft_labels(batch: &Chunk, label: &str, classes: usize) -> Result<Vec<f32>> {
    let kind = &batch.schema().field(label)?.kind;
    if matches!(kind, Kind::Tensor { .. }) {
        return Ok(tensor_values(kind, batch.column(label)?)?.typed_data::<f32>().to_vec());
    }
    let arg = Box::new(Expr::Col { name: label.to_owned() });
    let numbers = evaluate(&Expr::Cast { arg, dtype: DType::Int64.into() }, batch)?;
    let numbers: &Int64Array =
        numbers.as_any().downcast_ref().ok_or_else(|| Error::internal("a cast to int64 gives int64"))?;
    let mut shares = vec![0.0; numbers.len() * classes];
    for (row, number) in numbers.iter().enumerate() {
        let class = number.and_then(|n| usize::try_from(n).ok()).filter(|&n| n < classes).ok_or_else(|| {
            let number = number.map_or("missing".to_owned(), |n| n.to_string());
            Error::data(format!("label {label:?} is {number}, which is no class"))
                .with("sample", batch.ids()[row].sample)
                .hint(format!("labels must be 0..{classes}, or classes must be more"))
        })?;
        shares[row * classes + class] = 1.0;
    }
    Ok(shares)
}

/// Blends rows of `len` numbers with their partners.
fn blended(rows: &[f32], len: usize, draws: &Draws) -> Vec<f32> {
    let (own, other) = (draws.share as f32, (1.0 - draws.share) as f32);
    let mut out = Vec::with_capacity(rows.len());
    for (row, &partner) in rows.chunks_exact(len).zip(&draws.partners) {
        let partner = &rows[partner * len..][..len];
        out.extend(row.iter().zip(partner).map(|(a, b)| b * other + a * own));
    }
    out
}

fn mixup(kind: &Kind, images: &ArrayRef, draws: &Draws) -> Result<ArrayRef> {
    let shape = known(kind)?;
    let values = tensor_values(kind, images)?;
    floats(&blended(values.typed_data(), shape.iter().product(), draws), &shape, images.len())
}

/// Puts a box of the partner into each image; the share becomes the remaining part of the image.
fn cutmix(kind: &Kind, images: &ArrayRef, draws: &mut Draws, rng: &mut SampleRng) -> Result<ArrayRef> {
    let planes = Planes::of(kind)?;
    let (width, height) = planes.size;
    let part = cut(width, height, draws.share, rng);
    draws.share = 1.0 - (part.width * part.height) as f64 / (width * height) as f64;
    let values = tensor_values(kind, images)?;
    let mut builder = planes.builder(images.len());
    builder.all().copy_from_slice(&values);
    for (row, &partner) in draws.partners.iter().enumerate() {
        planes.copy(&values, partner, part, builder.slot(row), (part.x, part.y));
    }
    builder.finish()
}

/// Images of one size in one buffer, as planes of rows of runs: channels by height by width numbers, or one plane whose
/// runs are whole pixels. The frames of a clip are as many times the planes of one, in either order of frames and
/// channels.
pub(super) struct Planes {
    dtype: DType,
    shape: Vec<usize>,
    planes: usize,
    /// Columns and rows of a plane.
    pub(super) size: (usize, usize),
    /// Bytes of a run.
    run: usize,
}

impl Planes {
    /// # Errors
    /// Internal for a column of no images of one size.
    pub(super) fn of(kind: &Kind) -> Result<Self> {
        let dtype = kind.dtype().ok_or_else(|| Error::internal("an image has a dtype"))?;
        let (shape, frame) = (known(kind)?, Clip::frame_of(kind));
        let frames = shape.iter().product::<usize>() / known(&frame)?.iter().product::<usize>().max(1);
        let (planes, size, run) = match (image_layout(&frame), known(&frame)?.as_slice()) {
            (Some(Layout::Chw), &[c, h, w]) => (frames * c, (w, h), dtype.size()),
            (Some(Layout::Hwc), &[h, w, c]) => (frames, (w, h), c * dtype.size()),
            _ => return Err(Error::internal("an image of unknown layout")),
        };
        Ok(Self { dtype, shape, planes, size, run })
    }

    /// Returns a builder of so many images.
    pub(super) fn builder(&self, rows: usize) -> FixedTensorBuilder {
        FixedTensorBuilder::new(self.dtype, &self.shape, rows)
    }

    /// Copies a part of image number `row` of `images` into the image `to`, with its corner at a column and a row there.
    pub(super) fn copy(&self, images: &[u8], row: usize, part: Region, to: &mut [u8], (left, top): (usize, usize)) {
        let (width, height) = self.size;
        let from = &images[row * to.len()..][..to.len()];
        for (plane, y) in (0..self.planes).flat_map(|plane| (0..part.height).map(move |y| (plane * height, y))) {
            let start = |top: usize, left: usize| ((plane + top + y) * width + left) * self.run;
            let len = part.width * self.run;
            to[start(top, left)..][..len].copy_from_slice(&from[start(part.y, part.x)..][..len]);
        }
    }
}

/// Draws a part that leaves `share` of an image, unless the part extends over the edge.
fn cut(width: usize, height: usize, share: f64, rng: &mut SampleRng) -> Region {
    let half = 0.5 * (1.0 - share).sqrt();
    let mut side = |len: usize| {
        let (centre, reach) = (rng.up_to(len as u32 - 1) as usize, (half * len as f64) as usize);
        let start = centre.saturating_sub(reach);
        (start, (centre + reach).min(len) - start)
    };
    let ((x, width), (y, height)) = (side(width), side(height));
    Region { x, y, width, height }
}

fn known(kind: &Kind) -> Result<Vec<usize>> {
    kind.known_shape().ok_or_else(|| Error::internal("images in a batch have one shape"))
}

fn floats(values: &[f32], shape: &[usize], rows: usize) -> Result<ArrayRef> {
    let mut builder = FixedTensorBuilder::new(DType::Float32, shape, rows);
    let slots = builder.all().as_chunks_mut::<4>().0;
    slots.iter_mut().zip(values).for_each(|(slot, value)| *slot = value.to_ne_bytes());
    builder.finish()
}

/// Draws a permutation of the rows (Fisher and Yates).
fn partners(rows: usize, rng: &mut SampleRng) -> Vec<usize> {
    let mut partners: Vec<_> = (0..rows).collect();
    (1..rows).rev().for_each(|i| partners.swap(i, rng.up_to(i as u32) as usize));
    partners
}

/// Draws from Beta(`alpha`, `alpha`): one of two equal gamma draws divided by their sum, from logarithms, because for a
/// small `alpha` the draws themselves are too small for an f64.
fn beta(alpha: f64, rng: &mut SampleRng) -> f64 {
    let (a, b) = (ln_gamma(alpha, rng), ln_gamma(alpha, rng));
    1.0 / (1.0 + libm::exp((b - a).clamp(-600.0, 600.0)))
}

#[cfg(test)]
mod tests {
    use forebay_core::SampleId;

    use super::*;

    #[test]
    fn shares_have_the_moments_of_their_distribution() {
        for alpha in [0.01, 0.2, 1.0, 8.0] {
            let draws: Vec<f64> =
                (0..50_000).map(|sample| beta(alpha, &mut SampleRng::new(5, SampleId(sample)))).collect();
            assert!(draws.iter().all(|share| (0.0..=1.0).contains(share)));
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            let variance = draws.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / draws.len() as f64;
            let want = 0.25 / (2.0 * alpha + 1.0);
            assert!((mean - 0.5).abs() < 0.01, "{alpha}: {mean}");
            assert!((variance / want - 1.0).abs() < 0.03, "{alpha}: {variance}, not {want}");
        }
    }

    #[test]
    fn boxes_stay_inside_and_partners_are_a_permutation() {
        for sample in 0..2_000 {
            let mut rng = SampleRng::new(6, SampleId(sample));
            let part = cut(17, 5, 0.3, &mut rng);
            assert!(part.x + part.width <= 17 && part.y + part.height <= 5);
            let mut places = partners(9, &mut rng);
            places.sort_unstable();
            assert_eq!(places, (0..9).collect::<Vec<_>>());
        }
        assert_eq!(cut(8, 8, 1.0, &mut SampleRng::new(6, SampleId(0))).width, 0);
    }
}
