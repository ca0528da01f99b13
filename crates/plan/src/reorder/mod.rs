//! The running order of row ops: the cheapest order that changes no sample. In the relaxed mode, an order may change
//! samples in the ways that the mode allows. The graph keeps the order as written.
//!
//! The effects of an op ([`Access`](crate::ops::Access)) decide which ops it may move past ([`legal`]); a cost model
//! ([`cost`]) decides which of the legal orders is chosen ([`choose`]). See README.md in this folder.
//!
//! Invariants: a pure function of the graph, so all workers and consumers of a job find the same order; ops move only
//! among consecutive row ops, and a random op draws from the stream of its place as written; in the exact mode every
//! delivered sample has the same bytes as in the order as written.

mod changed_columns;
mod choose;
mod cost;
mod legal;
mod moves;

use forebay_core::{Error, Result};

use crate::chosen_order::{Chosen, Reorder};
use crate::graph::Graph;
use choose::{Choice, choose};
use cost::Costs;
use legal::{Rules, Segment, segments};

pub use cost::{MeasuredCosts, MeasuredOp};

/// The order in which the ops of a graph run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunOrder {
    /// The op that runs at each place.
    places: Vec<usize>,
    moves: Vec<Move>,
    /// Whether it gives the same bytes as the order as written.
    is_exact: bool,
    /// The cost of the order as written, divided by the cost of this order: by the model, or measured.
    gain: f64,
    is_measured: bool,
}

/// An op that runs at another place than it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Its place as written.
    pub op: usize,
    /// Whether it runs earlier.
    pub earlier: bool,
    /// The places of the ops that it moved past.
    pub past: Vec<usize>,
    /// Whether the move changes no byte.
    pub is_exact: bool,
}

impl RunOrder {
    /// Returns the order of a graph: the one that was chosen by measuring, or the cheapest one by the model.
    ///
    /// # Errors
    /// Any error of the graph.
    pub fn of(graph: &Graph) -> Result<Self> {
        let count = graph.nodes().len();
        match (graph.reorder(), graph.chosen()) {
            (Reorder::Off, _) => Ok(Self::as_written(count)),
            (mode, Some(chosen)) if chosen.mode == mode => {
                let places = chosen.places.iter().copied().chain(chosen.places.len()..count).collect();
                let order = Self::described(graph, &segments(graph)?, places, chosen.speedup);
                Ok(Self { is_measured: true, ..order })
            }
            (mode, _) => Self::cheapest(graph, mode, &MeasuredCosts::default()),
        }
    }

    /// Returns the cheapest order in a mode, by measured costs.
    ///
    /// # Errors
    /// Errors of [`RunOrder::of`].
    pub fn measured(graph: &Graph, mode: Reorder, figures: &MeasuredCosts) -> Result<Self> {
        Self::cheapest(graph, mode, figures)
    }

    fn as_written(count: usize) -> Self {
        Self { places: (0..count).collect(), is_exact: true, gain: 1.0, ..Self::default() }
    }

    fn cheapest(graph: &Graph, reorder: Reorder, figures: &MeasuredCosts) -> Result<Self> {
        let (segments, rules) = (segments(graph)?, Rules::of(graph, reorder));
        let mut places: Vec<usize> = (0..graph.nodes().len()).collect();
        let (mut written, mut least) = (0.0, 0.0);
        for segment in &segments {
            let costs = Costs::new(segment, figures);
            let Choice { order, costs: (before, after) } = choose(segment, rules, |order| costs.of(order));
            for (at, item) in order.into_iter().enumerate() {
                places[segment.start + at] = segment.start + item;
            }
            (written, least) = (written + before, least + after);
        }
        let gain = if least > 0.0 { written / least } else { 1.0 };
        Ok(Self::described(graph, &segments, places, gain))
    }

    /// Finds the moves of an order, and whether they change bytes.
    fn described(graph: &Graph, segments: &[Segment], places: Vec<usize>, gain: f64) -> Self {
        let exact = Rules::of(graph, Reorder::Exact);
        let moves = segments.iter().flat_map(|segment| {
            let pass =
                |later: usize, earlier: usize| segment.may_pass(later - segment.start, earlier - segment.start, exact);
            moves::moves(&places[segment.start..][..segment.items.len()], pass)
        });
        let moves: Vec<_> = moves.collect();
        Self { is_exact: moves.iter().all(|m| m.is_exact), places, moves, gain, is_measured: false }
    }

    /// Returns the op that runs at each place, by its place as written.
    pub fn places(&self) -> &[usize] {
        &self.places
    }

    /// Returns the ops that run at another place than they were written.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Returns whether it gives the same bytes as the order as written.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Returns the cost of the order as written, divided by the cost of this order: by the model, or measured.
    pub fn gain(&self) -> f64 {
        self.gain
    }

    /// Returns whether it was chosen by measuring.
    pub fn is_measured(&self) -> bool {
        self.is_measured
    }
}

/// Refuses an order that was chosen for a graph, if its mode does not allow it.
pub(crate) fn check(graph: &Graph, chosen: &Chosen) -> Result<()> {
    if chosen.mode == Reorder::Off {
        return Err(Error::invalid("ops that run as written have no chosen order"));
    }
    legal::check(graph, &chosen.places, Rules::of(graph, chosen.mode))
}

#[cfg(test)]
mod tests;
