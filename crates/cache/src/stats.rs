//! What the cache says of itself. For people and for the policy of a job; never for a sample.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::key::PrefixKey;
use crate::tiers::Tier;

/// A cache as it is now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// The memory that rows take, with what is needed to find them.
    pub memory: TierStats,
    /// Of it, what finds rows on disk and rows that filters removed.
    pub index_bytes: u64,
    /// The folder on the local disk, if there is one.
    pub disk: Option<DiskStats>,
    /// The store that machines share, if there is one.
    pub store: Option<StoreStats>,
    /// Each prefix that was used since the cache was opened, by key.
    pub prefixes: Vec<PrefixStats>,
    /// Each source of remote files that was read since the cache was opened, by key.
    pub sources: Vec<SourceStats>,
}

/// How full a tier is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TierStats {
    /// Bytes that are taken.
    pub bytes: u64,
    /// The most that may be.
    pub quota: u64,
}

/// The folder on the local disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// The bytes of all blocks, whoever wrote them.
    pub tier: TierStats,
    /// Why nothing is written now: the disk is full, or the folder cannot be written to, or is gone. It is tried again after a while.
    pub stopped: Option<String>,
    /// Whether that while goes on: after it, the next block is a try.
    pub left_alone: bool,
    /// Blocks that were broken, and removed.
    pub corrupt_blocks: u64,
    /// Blocks that another version wrote, and which are left alone.
    pub other_blocks: u64,
}

/// The store that machines share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Its url.
    pub uri: String,
    /// The bytes of all blocks, whoever wrote them, as far as this process counted: 0 until it writes.
    pub tier: TierStats,
    /// Why it is not read now, if it is not: it is left alone for a while.
    pub unread: Option<String>,
    /// Why it is not written to now, if it is not.
    pub unwritten: Option<String>,
    /// What it said to the last rows that it did not take, if it has taken none since. Once is no reason to leave it alone.
    pub refused: Option<String>,
    /// The quota is full, of what others use.
    pub full: bool,
    /// Blocks that were broken, and removed.
    pub corrupt_blocks: u64,
    /// Blocks that another version wrote, and which are left alone.
    pub other_blocks: u64,
}

/// A prefix: what is kept now, and what happened since the cache was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixStats {
    /// What it is found by.
    pub key: PrefixKey,
    /// What it is, for people.
    pub what: String,
    /// The rows of its source.
    pub rows: u64,
    /// Rows in memory.
    pub memory_rows: u64,
    /// Bytes of these rows.
    pub memory_bytes: u64,
    /// Rows on disk, as far as they were looked at.
    pub disk_rows: u64,
    /// Rows that peers have, as far as they were looked at.
    pub peer_rows: u64,
    /// Rows in the store, as far as they were looked at.
    pub store_rows: u64,
    /// Rows that a filter removed, and are known to be.
    pub filtered_out: u64,
    /// What was asked for and what became of it.
    pub counts: Counts,
}

/// Remote files that are read through the folder: what is kept now, and what happened since the cache was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceStats {
    /// What it is found by.
    pub key: PrefixKey,
    /// Where the files are, for people.
    pub what: String,
    /// Bytes of the files; 0 where that is not known.
    pub bytes: u64,
    /// Pages of it on disk, as far as they were looked at.
    pub pages: u64,
    /// What was asked for and what became of it.
    pub counts: SourceCounts,
}

macro_rules! counters {
    ($what:literal, $counts:ident, $counters:ident: $($(#[$doc:meta])* $name:ident),* $(,)?) => {
        #[doc = concat!("What happened to ", $what, ".")]
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $counts { $($(#[$doc])* pub $name: u64,)* }

        #[doc = concat!("Counts of what happens to ", $what, ".")]
        #[derive(Debug, Default)]
        pub(crate) struct $counters { $(pub(crate) $name: AtomicU64,)* }

        impl $counters {
            pub(crate) fn counts(&self) -> $counts {
                $counts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    "rows", Counts, Counters:
    /// Rows that were found in memory.
    memory_hits,
    /// Rows that were found on disk.
    disk_hits,
    /// Rows that were found at peers.
    peer_hits,
    /// Rows that were found in the store.
    store_hits,
    /// Rows that were known to be removed by a filter.
    filtered_out_hits,
    /// Rows that somebody else was computing, and handed over.
    shared,
    /// Rows that were to be computed.
    misses,
    /// Rows that were computed and not kept in memory: it was full.
    memory_refused,
    /// Rows that made room for others in memory.
    memory_evicted,
    /// Rows that were computed and not kept on disk: it was full, stopped or too slow.
    disk_refused,
    /// Rows whose blocks on disk were removed, by us or by others.
    disk_evicted,
    /// Rows that were computed and not kept in the store: it was full, left alone or too slow, or moving them took longer than
    /// computing them.
    store_refused,
    /// Rows whose blocks in the store were removed by others.
    store_evicted,
    /// Rows that peers or the store have and that were not read there: they came too late, or nobody was asked.
    late,
    /// Rows that peers or the store have and that were not read there, because computing them costs less.
    cheaper,
    /// Rows of blocks that were copied from the store to the disk.
    brought,
    /// Rows of blocks that are not found: what finds rows had no memory left.
    unindexed,
    /// Rows that were asked for in a block that could not be read.
    unreadable,
    /// Rows that could not be kept for what they were: internal errors.
    unfit,
}

counters! {
    "the bytes of a source", SourceCounts, SourceCounters:
    /// Bytes that were asked for.
    asked,
    /// Of them, those that were read from disk.
    from_disk,
    /// Bytes that came from the store: whole pages, where they are kept.
    fetched,
    /// Pages on disk that were not what was written, and were fetched again.
    corrupt,
    /// Pages that were fetched and not kept: the disk was full, stopped or too slow.
    not_kept,
}

impl Counters {
    /// Counts rows that are found on a level.
    pub(crate) fn hits(&self, tier: Tier) -> &AtomicU64 {
        match tier {
            Tier::Disk => &self.disk_hits,
            Tier::Peers => &self.peer_hits,
            Tier::Store => &self.store_hits,
        }
    }
}

pub(crate) fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}
