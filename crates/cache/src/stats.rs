//! Statistics of the cache, for users and for the policy of a job. They never change a sample.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::key::PrefixKey;

/// The state of a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// The memory of rows and of the index.
    pub memory: TierStats,
    /// The part of it for the index of tiers and of filtered-out rows.
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

/// The fill level of a tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TierStats {
    /// Bytes in use.
    pub bytes: u64,
    /// The most bytes.
    pub quota: u64,
}

/// The folder on the local disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// The bytes of all blocks, of all processes.
    pub tier: TierStats,
    /// Why nothing is written now: the disk is full, or the folder is read-only or gone. Writing is tried again after a
    /// pause.
    pub stopped: Option<String>,
    /// Whether that pause continues. After it, the next block is a trial.
    pub left_alone: bool,
    /// Blocks that were broken, and removed.
    pub corrupt_blocks: u64,
    /// Blocks of another version, which are not touched.
    pub other_blocks: u64,
}

/// The store that machines share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Its URL.
    pub uri: String,
    /// The bytes of all blocks, of all processes, as of this process's last count: 0 until it writes.
    pub tier: TierStats,
    /// Why it is not read now, while reads pause.
    pub unread: Option<String>,
    /// Why it is not written to now, while writes pause.
    pub unwritten: Option<String>,
    /// The error of the last write, if no write succeeded since. One failure does not pause writes.
    pub refused: Option<String>,
    /// The quota is full of blocks that others use.
    pub full: bool,
    /// Blocks that were broken, and removed.
    pub corrupt_blocks: u64,
    /// Blocks of another version, which are not touched.
    pub other_blocks: u64,
}

/// A prefix: its rows that are kept now, and the events since the cache was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixStats {
    /// Its key.
    pub key: PrefixKey,
    /// Its description, for messages.
    pub what: String,
    /// The rows of its source.
    pub rows: u64,
    /// Rows in memory.
    pub memory_rows: u64,
    /// Bytes of these rows.
    pub memory_bytes: u64,
    /// Rows on disk, as far as this process knows.
    pub disk_rows: u64,
    /// Rows at peers, as far as this process knows.
    pub peer_rows: u64,
    /// Rows in the store, as far as this process knows.
    pub store_rows: u64,
    /// Rows that are known to be removed by a filter.
    pub filtered_out: u64,
    /// The requested rows and what happened to them.
    pub counts: Counts,
}

/// Remote files that are read through the folder: their pages that are kept now, and the events since the cache was
/// opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceStats {
    /// Its key.
    pub key: PrefixKey,
    /// The place of the files, for messages.
    pub what: String,
    /// Bytes of the files; 0 where this is not known.
    pub bytes: u64,
    /// Pages of it on disk, as far as this process knows.
    pub pages: u64,
    /// The requested bytes and what happened to them.
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
    /// Rows that another caller was computing, and passed on.
    shared,
    /// Rows that had to be computed.
    misses,
    /// Rows that were computed and not kept in memory: it was full.
    memory_refused,
    /// Rows that were evicted from memory.
    memory_evicted,
    /// Rows that were computed and not kept on disk: it was full, stopped or too slow.
    disk_refused,
    /// Rows whose blocks on disk were deleted, by this process or by others.
    disk_evicted,
    /// Rows that were computed and not kept in the store: it was full, paused or too slow, or moving them took longer
    /// than computing them.
    store_refused,
    /// Rows whose blocks in the store were deleted by others.
    store_evicted,
    /// Rows that peers or the store have and that were not read: they were late, or the tier was paused.
    late,
    /// Rows that peers or the store have and that were not read, because computing them costs less.
    cheaper,
    /// Rows of blocks that were copied from the store to the disk.
    brought,
    /// Rows of blocks that cannot be found, because the index had no memory left.
    unindexed,
    /// Requested rows of a block that could not be read.
    unreadable,
    /// Rows that could not be kept because of an internal error.
    unfit,
}

counters! {
    "the bytes of a source", SourceCounts, SourceCounters:
    /// Requested bytes.
    asked,
    /// The part of them that was read from disk.
    from_disk,
    /// Bytes that were fetched from the store: whole pages, where they are kept.
    fetched,
    /// Pages on disk with a wrong sum, which were fetched again.
    corrupt,
    /// Pages that were fetched and not kept: the disk was full, stopped or too slow.
    not_kept,
}

pub(crate) fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}
