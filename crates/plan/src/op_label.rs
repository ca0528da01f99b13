//! What people call a piece of work, where they wrote it, and when it runs: for figures of what works cost.
//!
//! A work is named by the places, as written, of the ops that are fused in it; reading the source has none. So the name is the
//! same in every process, and for every job with the same dataset id.

use crate::graph::Graph;
use crate::reorder::RunOrder;

/// See the module's documentation. Sorts in the order in which works run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpLabel {
    /// When it runs: reading first.
    at: (usize, usize),
    /// The ops, as errors name them.
    pub op: String,
    /// The line of the first of them.
    pub line: Option<String>,
}

impl OpLabel {
    /// Names the work of the ops at `places`. Places that the graph does not have are left out.
    pub fn of(graph: &Graph, order: &RunOrder, places: &[usize]) -> Self {
        if places.is_empty() {
            let line = graph.site().map(ToString::to_string);
            return Self { at: (0, 0), op: "read".to_owned(), line };
        }
        let nodes: Vec<_> = places.iter().filter_map(|&place| graph.nodes().get(place)).collect();
        let titles: Vec<_> = nodes.iter().map(|node| node.title()).collect();
        let runs = order.places().iter().position(|place| *place == places[0]).unwrap_or(places[0]);
        let line = nodes.first().and_then(|node| node.site.as_ref()).map(ToString::to_string);
        Self { at: (runs + 1, places.len()), op: titles.join(" + "), line }
    }
}
