//! The cache: rows of a pipeline's deterministic prefix, kept in memory, on a local disk, at peers, and in a store that
//! machines share. Rows are found one by one.
//!
//! | module | |
//! |---|---|
//! | `cache` | [`Cache`]: the cache of a process |
//! | `rows` | lookup, claims and single flight of rows, the index, and the rows in memory |
//! | `tiers` | the places where rows are kept, behind one trait: memory, the local disk, peers, the store |
//! | `quota` | which rows a tier with a quota keeps |
//! | `state` | the state that all prefixes share |
//! | `pages` | the bytes of remote files, in the same folder: [`PageCache`] |
//! | `commands` | `forebay cache ls`, `stats`, `verify` and `evict` |
//! | `options`, `version` | its places and their quotas; the version of the stored format |
//! | `key`, `stats`, `lock` | names of rows and prefixes; counters; locks and deadlines |
//!
//! A shuffled epoch requests rows in any order, so single rows are looked up ([`RowKey`]), and blocks of rows are
//! stored. A caller looks up rows in a [`Prefix`], computes the missing rows, and passes them to the cache:
//!
//! ```text
//! let mut look = prefix.look(&keys, &memory);              // rows that are there, and rows to compute
//! let mut found = look.found;
//! loop {
//!     let computed = compute(look.claim.rows())?;          // an error drops the claim; others compute it
//!     found.add(computed.rows, computed.columns)?;
//!     let pending = look.claim.fulfil(&computed);          // only then wait for rows that others compute
//!     if pending.is_empty() { break }
//!     look = pending.wait(limit, &memory);
//!     found.merge(look.found);
//! }
//! let columns = found.columns(&memory)?;                   // one copy
//! ```
//!
//! Invariants: a row that is found has the bits that were computed. A job that can run without a cache never fails
//! because of it: rows that cannot be kept or read are missing, and counted ([`Stats`]). No two callers compute the
//! same row at the same time, even in two processes that are peers, unless the first is late. Memory, disk, queues and
//! waits have bounds.
//!
//! The cache changes when a row is ready, never its bits.
//!
//! Processes that keep rows elsewhere, in memory or on another disk, are peers. Each reads the blocks of the others as
//! it reads those of a store ([`Cache::meet`]), and exports its own ([`PeerExports`]): blocks on its disk, and
//! snapshots of rows that are only in its memory.

mod cache;
mod commands;
mod key;
mod lock;
mod options;
mod pages;
mod quota;
mod rows;
mod state;
mod stats;
mod tiers;
mod version;

pub use cache::Cache;
pub use commands::{BadBlock, CacheLocation, PrefixListing, VerifyReport, evict, list, verify};
pub use key::{FileKey, PrefixKey, RowKey};
pub use options::{Disk, Options};
pub use pages::page::PAGE_BYTES;
pub use pages::request::Request;
pub use pages::{Done, Fetch, PageCache, PagedFile};
pub use rows::claim::{Claim, Computed, Pending};
pub use rows::found::Found;
pub use rows::prefix::{Look, Prefix};
pub use stats::{Counts, DiskStats, PrefixStats, SourceCounts, SourceStats, Stats, StoreStats, TierStats};
#[doc(hidden)]
pub use tiers::block::check::check_block;
pub use tiers::peers::client::{PeerReplies, Peers};
pub use tiers::peers::exports::peer_exports::{PART_BYTES_MAX, PeerExports};
pub use tiers::peers::server::{PeerReply, PeerRequest};
pub use tiers::remote::blocks::{Elsewhere, Object, Part, RemoteBlocks};
pub use tiers::store::{SharedStore, Store};
pub use version::FORMAT;
