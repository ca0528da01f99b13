//! The messages to the writer of a tier.

use std::sync::Arc;

use crate::rows::number::Number;
use crate::rows::segment::Segment;
use crate::state::prefix::PrefixState;

/// Rows to be written, with their bytes in the queue.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) state: Arc<PrefixState>,
    pub(crate) rows: Rows,
    pub(crate) bytes: u64,
}

/// Rows to be written.
#[derive(Debug)]
pub(crate) enum Rows {
    /// A segment by its number in the index. A `passing` segment leaves the index when it is written here.
    Computed { id: u32, segment: Arc<Segment>, passing: bool },
    /// Rows that a filter removed.
    FilteredOut(Vec<Number>),
}
