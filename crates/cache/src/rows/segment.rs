//! Rows in memory, as they were computed or read together.

use std::sync::Arc;

use crate::quota::accounts::LastHit;
use crate::rows::number::Number;
use crate::rows::table::Table;

/// Rows in memory.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) table: Table,
    pub(crate) numbers: Vec<Number>,
    pub(crate) last_hit: Arc<LastHit>,
}
