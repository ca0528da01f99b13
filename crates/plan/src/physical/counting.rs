//! Whether the rows of a source are counted before it is read.

use crate::epoch::window;
use crate::graph::Graph;
use crate::ops::Op;
use crate::source::facts::RowsKnown;

/// Returns whether the rows of a dataset's source are counted before it is read, where one consumer reads all of them.
pub fn counts_rows(graph: &Graph) -> bool {
    is_counted(graph, 1)
}

/// Returns whether to count the rows of the source. Counting is free for some sources. It is needed if the plan has to
/// know the last row, or shards rows instead of whole files. It is worth a pass over the file if the ops on a line cost
/// far more than finding its end: all threads can then share a large file.
pub(super) fn is_counted(graph: &Graph, parts: u64) -> bool {
    let in_plan = |op: &Op| {
        let place = graph.nodes().iter().position(|n| std::ptr::eq(&n.op, op)).unwrap_or(0);
        graph.nodes()[..place].iter().all(|n| !n.op.is_uncounted())
    };
    let facts = graph.source().facts();
    match facts.rows {
        RowsKnown::Never => false,
        RowsKnown::AtOnce | RowsKnown::ByIndex => true,
        RowsKnown::ByReading if window::lane_window_bytes(graph).is_some() => false,
        RowsKnown::ByReading if parts > 1 => true,
        // Cached rows are found by their row number.
        RowsKnown::ByReading if graph.nodes().iter().any(|n| n.op.is_cache_point()) => true,
        RowsKnown::ByReading => graph.nodes().iter().any(|n| match &n.op {
            Op::Shuffle(_) | Op::Repeat(_) | Op::SelectRows(_) | Op::Part(_) | Op::Enumerate(_) => true,
            Op::Tokenize(_) | Op::Chat(_) => facts.is_lines,
            op @ Op::Shard(_) => in_plan(op),
            _ => false,
        }),
    }
}
