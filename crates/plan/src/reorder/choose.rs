//! The search: starts from the order as written, and repeats the change that saves most, until none saves enough.
//!
//! A change moves an op forward or back, together with ops that must stay on its side (a filter and the op that makes
//! its column). So every intermediate order is legal, and a gain that needs two moves is found as one. On all short
//! pipelines that were tried (`tests`) it ends at the cheapest order.
//!
//! Invariants: the search is bounded; of changes that save about the same, the shortest is made; without a real gain no
//! op moves.

use super::legal::{Item, Rules, Segment};

/// The least share of the work that a change saves.
pub(super) const GAIN_MIN: f64 = 0.02;
/// Changes this close to the best one count as equal.
const CLOSE: f64 = 0.002;
/// The most changes of one segment.
const CHANGES_MAX: usize = 16;
/// The most columns that the costs of all changes of one order may read. In a longer segment, or one of a wider
/// table, only filters and image ops move: the others hardly gain.
const COLUMNS_MAX: usize = 1 << 20;

/// An order of a segment, and its costs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Choice {
    pub(super) order: Vec<usize>,
    /// The cost of the order as written, and of this order.
    pub(super) costs: (f64, f64),
}

/// Returns the cheapest order that the search finds. `cost` returns `None` for an order whose columns do not fit.
pub(super) fn choose(segment: &Segment, rules: Rules, cost: impl Fn(&[usize]) -> Option<f64>) -> Choice {
    let written: Vec<usize> = (0..segment.items.len()).collect();
    let Some(at_first) = cost(&written) else { return Choice { order: written, costs: (0.0, 0.0) } };
    let free = Free::new(segment, rules);
    let (mut order, mut least) = (written, at_first);
    for _ in 0..CHANGES_MAX {
        let changes = free.changes(&order).into_iter();
        let mut better: Vec<_> = changes
            .filter_map(|change| Some((cost(&change.order)?, change)))
            .filter(|(cost, _)| *cost < least * (1.0 - GAIN_MIN))
            .collect();
        let Some(best) = better.iter().map(|(cost, _)| *cost).min_by(f64::total_cmp) else { break };
        better.retain(|(cost, _)| *cost <= best * (1.0 + CLOSE));
        let Some((cost, change)) = better.into_iter().min_by_key(|(_, change)| change.distance) else { break };
        (order, least) = (change.order, cost);
    }
    Choice { order, costs: (at_first, least) }
}

/// Another order.
struct Change {
    order: Vec<usize>,
    /// How many pairs change places.
    distance: usize,
}

/// Which ops may change places.
pub(super) struct Free {
    len: usize,
    /// The items that the search moves.
    moves: Vec<bool>,
    /// Whether `later` may run before `earlier`, at `later * len + earlier`.
    passes: Vec<bool>,
}

impl Free {
    pub(super) fn new(segment: &Segment, rules: Rules) -> Self {
        let len = segment.items.len();
        let passes = (0..len * len).map(|at| at / len > at % len && segment.may_pass(at / len, at % len, rules));
        let columns =
            segment.output.fields().len().max(segment.items.first().map_or(0, |item| item.input.fields().len()));
        let is_large = len.saturating_pow(3).saturating_mul(columns) > COLUMNS_MAX;
        let moves = |item: &Item| !is_large || item.access.filters || item.node.op.image_column().is_some();
        Self { len, moves: segment.items.iter().map(moves).collect(), passes: passes.collect() }
    }

    /// Returns whether `second`, which follows `first` in the order, may run before it. If `second` was written before
    /// `first`, it always may.
    pub(super) fn may_swap(&self, first: usize, second: usize) -> bool {
        first > second || self.passes[second * self.len + first]
    }

    /// Returns all orders that are one change away.
    fn changes(&self, order: &[usize]) -> Vec<Change> {
        let places = || 0..order.len();
        let moved = places().filter(|from| self.moves[order[*from]]);
        moved.flat_map(|from| places().filter_map(move |to| self.changed(order, from, to))).collect()
    }

    /// Moves the op at `from` to `to`, with the ops between that it cannot move past.
    fn changed(&self, order: &[usize], from: usize, to: usize) -> Option<Change> {
        let (low, high) = (from.min(to), from.max(to));
        let window = &order[low..=high];
        let forward = to < from;
        let (mut along, mut rest) = (Vec::with_capacity(window.len()), Vec::with_capacity(window.len()));
        let mut see = |item: usize| {
            let tied = |&with: &usize| if forward { !self.may_swap(item, with) } else { !self.may_swap(with, item) };
            let with = along.is_empty() || along.iter().any(tied);
            if with { along.push(item) } else { rest.push(item) }
        };
        if forward {
            window.iter().rev().for_each(|&i| see(i))
        } else {
            window.iter().for_each(|&i| see(i))
        }
        if rest.is_empty() {
            return None;
        }
        let distance = along.len() * rest.len();
        let moved: Vec<usize> = if forward {
            along.into_iter().rev().chain(rest.into_iter().rev()).collect()
        } else {
            rest.into_iter().chain(along).collect()
        };
        Some(Change { order: [&order[..low], &moved, &order[high + 1..]].concat(), distance })
    }
}
