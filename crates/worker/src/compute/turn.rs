//! The turns of a source block, which is one long task: between two of its chunks, it lets consumers compute that have
//! waited longer.
//!
//! The block's thread waits, and another thread computes in its place. The block is an entry of the queue meanwhile, in
//! front of its consumer's later splits. So a new consumer waits for one chunk of other consumers, however long their
//! splits are. Only the time in which a block computes is charged to its consumer, not that of waiting for the consumer
//! to read.
//!
//! `PoolShared::next_turn` decides. Bound: a block pauses only while there is a thread in its place, of which the pool bounds the number.

use std::time::Instant;

use crate::compute::fair_queue::{Charge, Flow, Share};
use crate::compute::watchdog::TaskId;

/// A block whose thread waits for its turn.
pub(crate) struct Paused {
    pub(crate) id: TaskId,
    /// As of its split.
    pub(crate) order: u64,
}

/// The current part of a block, from one chunk to the next.
pub(crate) struct Turn {
    pub(crate) id: TaskId,
    pub(crate) flow: Flow,
    pub(crate) share: Share,
    pub(crate) order: u64,
    /// The charge for this part; `None` while the block waits for its consumer.
    pub(crate) charge: Option<Charge>,
    /// When the part began.
    pub(crate) since: Instant,
}
