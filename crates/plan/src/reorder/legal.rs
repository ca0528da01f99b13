//! The legality rules: which op may run before which other, and the segments of ops that the rules may permute.
//!
//! The rules concern pairs of ops. That is enough: an order in which each swapped pair is allowed can be reached by
//! swapping neighbours, each of these pairs once. Invariant: under exact rules no value of a delivered row depends on
//! the order; but the order may decide whether an error in a row that a filter removes is reported.

use std::ops::Range;
use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::{Kind, Schema};

use crate::chosen_order::Reorder;
use crate::graph::{Graph, Node};
use crate::ops::{Access, Class, Clip, Direction, Effect, ImageSpec};

/// The most ops of a segment. A longer run is divided into several, which stay in order.
pub(super) const OPS_MAX: usize = 24;

/// The rules of a mode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Whether other bits of the same distribution are allowed.
    relaxed: bool,
    /// Whether failing rows are skipped, so that the op in which a row failed is reported.
    tolerant: bool,
}

impl Rules {
    pub(super) fn of(graph: &Graph, reorder: Reorder) -> Self {
        Self { relaxed: reorder == Reorder::Relaxed, tolerant: graph.on_error().is_tolerant() }
    }
}

/// An op that may move.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) node: Arc<Node>,
    pub(super) access: Access,
    /// The columns before it, as written.
    pub(super) input: Schema,
}

/// Ops that follow each other and may be in another order.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    /// The place of the first one in the graph.
    pub(super) start: usize,
    pub(super) items: Vec<Item>,
    /// The columns after them.
    pub(super) output: Schema,
}

impl Segment {
    /// Returns whether item `later` may run before item `earlier`, which was written before it.
    pub(super) fn may_pass(&self, later: usize, earlier: usize, rules: Rules) -> bool {
        may_pass(&self.items[later], &self.items[earlier], rules)
    }

    /// Returns the columns after each op of an order; `None` if one of the ops cannot run there.
    pub(super) fn walk(&self, order: &[usize]) -> Option<Vec<Schema>> {
        let mut schema = self.items[0].input.clone();
        let apply = |&item: &usize| {
            schema = self.items[item].node.op.apply(&schema).ok()?;
            Some(schema.clone())
        };
        order.iter().map(apply).collect()
    }

    /// Returns its part of an order of the graph's first ops; later ops stay as written.
    fn order(&self, places: &[usize]) -> Result<Vec<usize>> {
        let range = self.start..self.start + self.items.len();
        let order: Option<Vec<_>> = range
            .clone()
            .map(|at| places.get(at).copied().unwrap_or(at))
            .map(|place| range.contains(&place).then(|| place - self.start))
            .collect();
        order.ok_or_else(|| Error::invalid("in this order an op leaves the ops that it may move among"))
    }
}

/// Returns the segments of ops that may be in another order; only those with several ops.
pub(super) fn segments(graph: &Graph) -> Result<Vec<Segment>> {
    let mut schema = graph.source().schema()?;
    let (mut found, mut items, mut batched) = (Vec::new(), Vec::<Item>::new(), false);
    let mut close = |items: &mut Vec<Item>, end: usize, output: &Schema| {
        let items = std::mem::take(items);
        if items.len() > 1 {
            found.push(Segment { start: end - items.len(), items, output: output.clone() });
        }
    };
    for (place, node) in graph.nodes().iter().enumerate() {
        let per_batch = batched && node.op.spec().runs_per_batch();
        let access = node.access(&schema).filter(|_| !per_batch);
        if access.is_none() || items.len() == OPS_MAX {
            close(&mut items, place, &schema);
        }
        let input = schema;
        schema = node.op.apply(&input).map_err(|e| node.blame(e))?;
        batched |= node.op.class() == Class::Group;
        if let Some(access) = access {
            items.push(Item { node: node.clone(), access, input });
        }
    }
    close(&mut items, graph.nodes().len(), &schema);
    Ok(found)
}

fn may_pass(later: &Item, earlier: &Item, rules: Rules) -> bool {
    rows_allow(&later.access, &earlier.access, rules) && values_allow(later, earlier, rules)
}

/// Returns whether the swap lets both ops see only rows that they may see.
fn rows_allow(later: &Access, earlier: &Access, rules: Rules) -> bool {
    // The later op would get rows that a filter removed before, and might fail on one of them, or get other groups of
    // rows.
    let exposed = earlier.filters && (later.may_fail || later.grouped);
    let regrouped = later.filters && earlier.grouped;
    // Failing rows are counted, reported and saved with the op in which they failed.
    let told = rules.tolerant && earlier.may_fail && (later.may_fail || later.filters);
    !(exposed || regrouped || told)
}

/// Returns whether both ops still read the same values.
fn values_allow(later: &Item, earlier: &Item, rules: Rules) -> bool {
    let meet = |a: &[String], b: &[String]| a.iter().any(|column| b.contains(column));
    let (l, e) = (&later.access, &earlier.access);
    if !meet(&l.reads, &e.writes) && !meet(&l.writes, &e.reads) && !meet(&l.writes, &e.writes) {
        return true;
    }
    match (earlier.node.op.image(), later.node.op.image()) {
        // Boxes are rounded after each op, and small ones are dropped, so they depend on the order.
        (Some(a), Some(b)) if a.annotations().is_some() && b.annotations().is_some() => false,
        (Some(a), Some(b)) if a.column() == b.column() => {
            let (a, b) = ((a, &earlier.input), (b, &later.input));
            one_way(a, b, rules.relaxed) || one_way(b, a, rules.relaxed)
        }
        _ => false,
    }
}

/// Returns whether two image ops of one column have the same result in either order, by their effects. Each line was
/// checked against the kernels in `exec::image`, and by running random chains in both orders.
fn one_way(a: (&dyn ImageSpec, &Schema), b: (&dyn ImageSpec, &Schema), relaxed: bool) -> bool {
    match (a.0.effect(), b.0.effect()) {
        // A crop selects pixels and pads with black, which these keep; none of them depends on a pixel's position.
        (Effect::Recolours { by_pixel: true, .. }, Effect::CropsMiddle { .. }) => true,
        // A flip only moves pixels, and the mean grey of an image is a sum of whole numbers.
        (Effect::Mirrors(_), Effect::Recolours { .. }) => true,
        // The middle of the mirrored image is the mirrored middle, unless half a pixel had to be rounded.
        (Effect::Mirrors(direction), Effect::CropsMiddle { height, width }) => {
            relaxed || is_centred(b.1, b.0.column(), direction, (height, width))
        }
        // The distribution stays: these ops change colours or mirror, at any size, and a mean of neighbours commutes
        // with that except for rounding, levels clipped at 0 and 255, and the mean grey of a part instead of the whole.
        (
            Effect::Mirrors(_) | Effect::Recolours { keeps_means: true, .. },
            Effect::Scales { .. } | Effect::CropsMiddle { .. },
        ) => relaxed,
        // A rotation keeps its angle only if both sides shrink alike.
        (Effect::Turns, Effect::Scales { keeps_shape: true }) => relaxed,
        // Not allowed, although smaller images would be cheaper: blurs, sharpening and shifts of so many pixels are
        // stronger on smaller ones; a crop would cut out part of an erased rectangle, or a resize blend it with its
        // surroundings.
        _ => false,
    }
}

/// Returns whether a crop of the middle cuts the same on both sides, so that a mirror does not move it.
fn is_centred(input: &Schema, column: &str, direction: Direction, crop: (usize, usize)) -> bool {
    let image = input.field(column).map(|field| Clip::frame_of(&field.kind));
    let Ok(Kind::Tensor { shape, .. }) = image else { return false };
    let (side, crop) = match direction {
        Direction::Vertical => (shape.first(), crop.0),
        Direction::Horizontal => (shape.get(1), crop.1),
    };
    matches!(side, Some(Some(side)) if side.abs_diff(crop) % 2 == 0)
}

/// Checks that the first ops of a graph, as many as there are `places`, may run in this order.
///
/// # Errors
/// Invalid, with two ops that must not change places.
pub(super) fn check(graph: &Graph, places: &[usize], rules: Rules) -> Result<()> {
    let nodes = graph.nodes();
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    if places.len() > nodes.len() || !sorted.into_iter().eq(0..places.len()) {
        return Err(Error::invalid("an order of ops names each of the first ones once"));
    }
    let mut next = 0;
    for segment in segments(graph)? {
        let end = segment.start + segment.items.len();
        still(nodes, places, next..segment.start)?;
        next = end;
        let order = segment.order(places)?;
        for (at, &first) in order.iter().enumerate() {
            let behind = order[at + 1..].iter().copied();
            if let Some(second) = behind.filter(|&o| o < first).find(|&o| !segment.may_pass(first, o, rules)) {
                return Err(refused(nodes, segment.start + first, segment.start + second));
            }
        }
        if !segment.walk(&order).is_some_and(|schemas| schemas.last() == Some(&segment.output)) {
            return Err(Error::invalid("in this order the ops give other columns"));
        }
    }
    still(nodes, places, next..nodes.len())
}

/// Refuses to move ops outside of segments.
fn still(nodes: &[Arc<Node>], places: &[usize], range: Range<usize>) -> Result<()> {
    match range.clone().zip(&places[range.start.min(places.len())..]).find(|(at, place)| at != *place) {
        Some((at, &place)) => Err(refused(nodes, place, at)),
        None => Ok(()),
    }
}

fn refused(nodes: &[Arc<Node>], first: usize, second: usize) -> Error {
    let name = |place: usize| format!("{} (op {})", nodes[place].op.name(), place + 1);
    Error::invalid(format!("{} must not run before {}", name(first), name(second)))
        .hint("leave the order to the optimiser: order=\"exact\"")
}
