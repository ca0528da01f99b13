//! The cost model: approximate nanoseconds of one core for each row that enters a segment.
//!
//! Only large ratios matter. An op declares its cost for each row, pixel or byte; a filter passes a share of the rows;
//! consecutive image ops of one column are one pass; the output of the last ops may have to travel. The numbers are
//! rounded measurements of Forebay's kernels on one core of an EPYC (`bench/README.md` has their sum: 1.5 ms for an
//! ImageNet photo). [`MeasuredCosts`], if given, correct the table op by op.
//!
//! Invariant: without [`MeasuredCosts`], a pure function of the ops and their schemas, the same on every machine.

use forebay_data::{Field, Kind, Schema};

use super::legal::{Item, Segment};
use crate::ops::{BYTE_NS, Clip, Direction, Op, RandomFlip};

/// Rows, columns of a decoded image of unknown size: ImageNet's mean.
const SIDES: (f64, f64) = (400.0, 470.0);
/// The frames of a clip whose schema does not have them.
const FRAMES: f64 = 16.0;
/// Bytes of an encoded image.
const ENCODED_BYTES: f64 = 110e3;
/// Bytes of a text.
const TEXT_BYTES: f64 = 2e3;
/// Numbers in a dimension of unknown size of other tensors.
const NUMBERS: f64 = 500.0;
/// The share of rows that a filter keeps.
const KEPT: f64 = 0.5;

/// Nanoseconds for a byte that a filter copies.
const COPY_NS: f64 = 0.1;
/// Nanoseconds for a byte that travels to a consumer of a service.
const TRAVEL_NS: f64 = 0.15;
/// Nanoseconds for a pixel that is written out mirrored.
const MIRROR_NS: f64 = 1.0;

/// The measurements of an op.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MeasuredOp {
    /// Nanoseconds for each input row, run by itself in the order as written.
    pub ns: Option<f64>,
    /// The share of rows that it kept.
    pub kept: Option<f64>,
}

/// The measurements of the ops of a graph, by their places. Empty without measurements.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MeasuredCosts {
    /// The measurements of each op.
    pub ops: Vec<MeasuredOp>,
}

/// The largest ratio of a measured cost to the table, either way; beyond it the measurement counts as noise.
const FACTOR_MAX: f64 = 100.0;

/// The costs of one segment's orders.
pub(super) struct Costs<'a> {
    segment: &'a Segment,
    /// By item: measured by estimated time, and the share of rows that it keeps.
    items: Vec<(f64, f64)>,
}

impl<'a> Costs<'a> {
    pub(super) fn new(segment: &'a Segment, figures: &MeasuredCosts) -> Self {
        let kept = |item: &Item| if item.access.filters { KEPT } else { 1.0 };
        let mut costs = Self { segment, items: segment.items.iter().map(|item| (1.0, kept(item))).collect() };
        let written: Vec<usize> = (0..segment.items.len()).collect();
        let estimates = costs.of_each(&written).unwrap_or_default();
        for (at, estimate) in estimates.into_iter().enumerate() {
            let measured = figures.ops.get(segment.start + at).copied().unwrap_or_default();
            let (factor, kept) = &mut costs.items[at];
            *factor = measured.ns.map_or(1.0, |ns| (ns / estimate).clamp(1.0 / FACTOR_MAX, FACTOR_MAX));
            *kept = measured.kept.map_or(*kept, |share| share.clamp(0.0, 1.0));
        }
        costs
    }

    /// Returns the cost of an order; `None` if its columns do not fit.
    pub(super) fn of(&self, order: &[usize]) -> Option<f64> {
        let schemas = self.segment.walk(order).filter(|schemas| schemas.last() == Some(&self.segment.output))?;
        let (mut walk, mut rows, mut total) = (Walk::new(self.segment), 1.0, 0.0);
        for (at, &item) in order.iter().enumerate() {
            let (factor, kept) = self.items[item];
            let op = walk.op(&self.segment.items[item], &schemas[at]);
            let after = order.get(at + 1).map(|&next| &self.segment.items[next]);
            total += rows * (op * factor + self.written(&walk, item, after) + self.mirrored(&walk, item, after));
            rows *= kept;
            if self.segment.items[item].access.filters {
                total += rows * walk.row_bytes() * COPY_NS;
            }
        }
        Some(total + rows * self.travel(order, &schemas))
    }

    /// Returns the cost of each op by itself, for an input row.
    fn of_each(&self, order: &[usize]) -> Option<Vec<f64>> {
        let schemas = self.segment.walk(order)?;
        let mut walk = Walk::new(self.segment);
        let each = |(&item, schema)| walk.op(&self.segment.items[item], schema) + self.written(&walk, item, None);
        Some(order.iter().zip(&schemas).map(each).collect())
    }

    /// Returns the cost of writing an image at the end of its pass, and reading it in the next op.
    fn written(&self, walk: &Walk, item: usize, after: Option<&Item>) -> f64 {
        let column = self.segment.items[item].node.op.image_column();
        match column {
            Some(column) if after.and_then(|next| next.node.op.image_column()) != Some(column) => {
                walk.bytes(column) * BYTE_NS
            }
            _ => 0.0,
        }
    }

    /// Returns the cost of writing out a mirrored image, which only a next op that reads pixels around each one needs.
    fn mirrored(&self, walk: &Walk, item: usize, after: Option<&Item>) -> f64 {
        let op = &self.segment.items[item].node.op;
        let Op::RandomFlip(RandomFlip { column, probability, direction: Direction::Horizontal }) = op else {
            return 0.0;
        };
        let next = after.and_then(|next| next.node.op.image());
        let redraws = next.is_some_and(|next| next.column() == column && next.effect().reads_around());
        let (height, width) = walk.sides(column);
        if redraws { probability * walk.frames(column) * height * width * MIRROR_NS } else { 0.0 }
    }

    /// Returns the cost of travel: a consumer of a service runs the last ops if they only make rows larger, and the
    /// rows before them travel.
    fn travel(&self, order: &[usize], schemas: &[Schema]) -> f64 {
        let mut walk = Walk::new(self.segment);
        let sizes = order.iter().zip(schemas).map(|(&item, schema)| {
            walk.op(&self.segment.items[item], schema);
            walk.row_bytes()
        });
        let sizes: Vec<f64> = std::iter::once(Walk::new(self.segment).row_bytes()).chain(sizes).collect();
        let last = order.iter().rposition(|&item| {
            let item = &self.segment.items[item];
            !item.node.op.spec().may_run_on_consumer(&item.input)
        });
        let least = sizes[last.map_or(0, |at| at + 1)..].iter().copied().fold(f64::INFINITY, f64::min);
        least * TRAVEL_NS
    }
}

/// A row on its way through an order.
struct Walk {
    schema: Schema,
    /// Rows and columns of the images whose schema does not have them.
    images: Vec<(String, (f64, f64))>,
}

impl Walk {
    fn new(segment: &Segment) -> Self {
        Self { schema: segment.items[0].input.clone(), images: Vec::new() }
    }

    /// Applies an op to the row and returns its cost.
    fn op(&mut self, item: &Item, after: &Schema) -> f64 {
        let op = &item.node.op;
        let read: f64 = item.access.reads.iter().map(|column| self.bytes(column)).sum();
        let before = op.image().map(|image| (image, self.sides(image.column()), self.frames(image.column())));
        self.schema = after.clone();
        if let Some((image, from, frames)) = before {
            let to = image.sides(from);
            self.images.retain(|(name, _)| name != image.column());
            self.images.push((image.column().to_owned(), to));
            return frames * image.ns(from.0 * from.1, to.0 * to.1);
        }
        let made: f64 = item.access.writes.iter().map(|column| self.bytes(column)).sum();
        op.spec().ns(read, made)
    }

    fn row_bytes(&self) -> f64 {
        self.schema.fields().iter().map(|field| self.field_bytes(field)).sum()
    }

    fn bytes(&self, column: &str) -> f64 {
        self.schema.field(column).map_or(0.0, |field| self.field_bytes(field))
    }

    fn field_bytes(&self, field: &Field) -> f64 {
        match &field.kind {
            Kind::Bytes => ENCODED_BYTES,
            Kind::Utf8 | Kind::Texts => TEXT_BYTES,
            Kind::Scalar { dtype } => dtype.size() as f64,
            Kind::Tensor { dtype, shape } => {
                if let Kind::Tensor { shape, .. } = Clip::frame_of(&field.kind)
                    && let [None, _, channels] = shape[..]
                {
                    let (height, width) = self.sides(&field.name);
                    let numbers = self.frames(&field.name) * height * width * channels.unwrap_or(3) as f64;
                    return numbers * dtype.size() as f64;
                }
                let numbers: f64 = shape.iter().map(|side| side.map_or(NUMBERS, |side| side as f64)).product();
                numbers * dtype.size() as f64
            }
        }
    }

    /// Returns the frames of a clip; 1 of an image.
    fn frames(&self, column: &str) -> f64 {
        let clip = self.schema.field(column).ok().and_then(|field| Clip::of(&field.kind));
        clip.map_or(1.0, |clip| clip.frames.map_or(FRAMES, |frames| frames as f64))
    }

    /// Returns the rows and columns of an image, or of a frame.
    fn sides(&self, column: &str) -> (f64, f64) {
        let kind = self.schema.field(column).map(|field| Clip::frame_of(&field.kind));
        if let Ok(Kind::Tensor { shape, .. }) = kind
            && let [Some(height), Some(width), _] = shape[..]
        {
            return (height as f64, width as f64);
        }
        self.images.iter().find(|(name, _)| name == column).map_or(SIDES, |(_, sides)| *sides)
    }
}
