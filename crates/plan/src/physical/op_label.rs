//! The label of a fused op in cost statistics: its title, the user's line, and its place in the running order.
//!
//! The places, as written, of its ops identify a fused op; reading the source has none. So the identity is the same in
//! every process, and for every job with the same dataset id.

use crate::graph::Graph;
use crate::reorder::RunOrder;

/// See the module's documentation. Sorts in the order in which the fused ops run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpLabel {
    /// Its place in the running order, and its number of ops: reading is first.
    at: (usize, usize),
    /// The titles of its ops, as in errors.
    pub op: String,
    /// The user's line of its first op.
    pub line: Option<String>,
}

impl OpLabel {
    /// Returns the label of the ops at `places`. Places that the graph does not have are ignored.
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
