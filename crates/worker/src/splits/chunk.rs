//! A chunk as a worker produces it: rows, and how far their pipeline has run.

use std::sync::Arc;

use forebay_core::Span;
use forebay_data::Chunk;

/// A chunk whose remaining row ops run at its consumer.
#[derive(Debug, Clone)]
pub(crate) struct ProducedChunk {
    pub(crate) chunk: Chunk,
    /// The number of row ops that have run on it here: the placement boundary.
    pub(crate) ops_on_worker: u32,
    /// Whether consumers of other jobs map the same memory: no process may write to it then.
    pub(crate) shared: bool,
    /// When it was computed, if a consumer records a trace.
    pub(crate) spans: Option<Arc<[Span]>>,
}
