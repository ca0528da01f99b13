//! The interface of a tier.
//!
//! [`Tier`] is common to memory and the tiers below it. [`BlockTier`] is a tier below memory, which keeps rows in
//! blocks: it makes its blocks known to the index, and reads them. [`BlockSink`] is a tier that this process writes
//! blocks to.
//!
//! These parts are the same for all tiers, and so are not part of the traits: finding a row (`rows::index`), claims and
//! single flight (`rows::claim`, `rows::in_flight`), the check of a row's sum (`rows::tier_read`), the choice of the
//! rows that memory keeps (`rows::admit`), quotas and values (`quota`), and gathering rows into blocks
//! (`block::writer`).
//!
//! Rules for an implementation: no job fails because of a tier, so no method returns an error to a job. A job waits for
//! a tier only within a named bound. A block that cannot be read is a miss.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use bytes::Bytes;
use forebay_data::Memory;

use crate::key::PrefixKey;
use crate::rows::answer::Answer;
use crate::rows::claimed::ClaimedRows;
use crate::rows::index::Index;
use crate::state::CacheState;
use crate::state::prefix::PrefixState;
use crate::stats::{Counters, PrefixStats, Stats};
use crate::tiers::TierId;
use crate::tiers::block::message::Message;
use crate::tiers::block::queue::Queue;
use crate::tiers::block::read::{Want, bytes_of};
use crate::tiers::block::read_at::{ReadAt, Trouble};
use crate::tiers::block::{Block, BlockRef};
use crate::tiers::remote::blocks::Elsewhere;

/// A place where rows are kept.
pub(crate) trait Tier: Send + Sync + fmt::Debug {
    /// Says whether `bytes` of rows of a prefix would be kept now. `nanos_per_byte` is the time of computing them, if
    /// that is known.
    fn wants_rows(&self, _cache: &CacheState, _state: &PrefixState, _bytes: u64, _nanos_per_byte: Option<f64>) -> bool {
        false
    }

    /// Returns the counter of rows that are found here.
    fn hits<'a>(&self, counters: &'a Counters) -> &'a AtomicU64;

    /// Adds the figures of the tier.
    fn add_stats(&self, _stats: &mut Stats) {}

    /// Adds the figures of the rows of a prefix that are here.
    fn add_prefix_stats(&self, index: &Index, stats: &mut PrefixStats);
}

/// A tier below memory. The index identifies its blocks by numbers that the tier assigns.
pub(crate) trait BlockTier: Tier {
    /// Returns its place in the order of tiers.
    fn id(&self) -> TierId;

    /// Says whether its blocks are on this machine. Rows from another machine may be late.
    fn is_local(&self) -> bool {
        false
    }

    /// Says how rows that were read here are kept in memory.
    fn promotion(&self) -> Promotion;

    /// Makes the blocks of a prefix that is about to be used known to its index.
    fn open_prefix(&self, cache: &CacheState, state: &Arc<PrefixState>);

    /// Forgets a prefix that is no longer used, whose blocks have left the index.
    fn leave_prefix(&self, _prefix: PrefixKey) {}

    /// Records that rows of a prefix are computed. The tier may look for blocks that others wrote meanwhile.
    fn missed(&self, _state: &Arc<PrefixState>) {}

    /// Requests the rows of a claim, even if no block with them is known. Rows that are sent are found, and no longer
    /// claimed.
    fn ask(
        &self,
        _cache: &CacheState,
        _state: &PrefixState,
        _answer: &mut Answer,
        _claimed: &mut ClaimedRows,
        _memory: &Memory,
    ) {
    }

    /// Decides whether the wanted rows are read now. Counts them if not, and counts trials of a slow tier.
    fn admits_read(&self, _cache: &CacheState, _state: &PrefixState, _blocks: &[WantedBlock]) -> bool {
        true
    }

    /// Reads the wanted rows of blocks. Calls `each` once for each block, in order, with a file that has at least the
    /// wanted bytes, or with the reason why there is none.
    fn read(
        &self,
        cache: &CacheState,
        state: &Arc<PrefixState>,
        blocks: &[WantedBlock],
        each: &mut dyn FnMut(Result<&dyn ReadAt, Trouble>),
    );

    /// Records that a block could not be read. A broken block is removed.
    fn give_up(&self, state: &Arc<PrefixState>, id: u32, block: &Block, trouble: &Trouble);

    /// Returns the tier as one that blocks are written to, if this process writes there.
    fn sink(&self) -> Option<&dyn BlockSink> {
        None
    }

    /// Returns its room, and the cost of a read from it. `own` is the room of this process.
    fn elsewhere(&self, _own: u64) -> Elsewhere {
        Elsewhere::default()
    }

    /// Returns the threads that work for the tier until it is closed.
    fn threads(self: Arc<Self>) -> Vec<TierThread>;

    /// Ends the threads of the tier, and waits until `until` for the queued rows to be written.
    fn close(&self, until: Instant);
}

/// A tier that blocks are written to.
pub(crate) trait BlockSink: BlockTier {
    /// Returns the queue of rows that wait to be written.
    fn queue(&self) -> &Queue<Message>;

    /// Returns the bytes of rows of a block.
    fn block_bytes(&self) -> u64;

    /// Says whether nothing is written now.
    fn is_stopped(&self) -> bool;

    /// Publishes a block, if there is room. The tier reports failures; no job fails because of them.
    fn put(&self, cache: &CacheState, state: &PrefixState, block: &Bytes) -> Option<BlockRef>;

    /// Returns the counter of rows that were computed and are not kept here.
    fn refused<'a>(&self, counters: &'a Counters) -> &'a AtomicU64;
}

/// A thread of a tier: its name, and its work.
pub(crate) type TierThread = (&'static str, Box<dyn FnOnce(&CacheState) + Send>);

/// The wanted rows of one block.
#[derive(Debug)]
pub(crate) struct WantedBlock {
    /// The number of the block.
    pub(crate) id: u32,
    pub(crate) block: Arc<Block>,
    /// The rows, by their place in the block.
    pub(crate) wants: Vec<Want>,
}

impl WantedBlock {
    /// Returns the bytes of the rows.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(&self.block.layout, &self.wants)
    }
}

/// How rows that were read from a tier are kept in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promotion {
    /// In free room.
    IfFree,
    /// As copies, which make room for this process's own rows (see [`crate::quota::accounts`]).
    AsCopies,
    /// As this process's own rows, which evict rows of less value, and are exported to peers.
    AsOwn,
}
