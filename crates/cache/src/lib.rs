//! The cache: rows that a pipeline's deterministic prefix gave, kept in memory, on a local disk and in a store that machines
//! share, found by row.
//!
//! A shuffled epoch asks for rows from everywhere, so rows are what is found ([`RowKey`]) and blocks of rows are what is
//! stored. Whoever needs rows asks a [`Prefix`] for them, computes what nobody has, and gives that back:
//!
//! ```text
//! let mut look = prefix.look(&keys, &memory);              // what is there, and what is to be computed
//! let mut found = look.found;
//! loop {
//!     let computed = compute(look.claim.rows())?;          // an error drops the claim: others go on with it
//!     found.add(computed.rows, computed.columns)?;
//!     let pending = look.claim.fulfil(&computed);          // only then wait for what others are at
//!     if pending.is_empty() { break }
//!     look = pending.wait(limit, &memory);
//!     found.merge(look.found);
//! }
//! let columns = found.columns(&memory)?;                   // one copy
//! ```
//!
//! Invariants: what is found has the bits that were computed, or it is not found; nothing here fails a job that could run
//! without a cache: what cannot be kept or read is missing, and counted ([`Stats`]); no row is computed by two at once, also not by two
//! processes that are peers, but for one whose first computer is late; memory, disk, queues and waits have bounds.
//!
//! Whether and when a row is found changes only when it comes, never what it is.
//!
//! Processes that keep rows elsewhere, in memory or on another disk, are peers: each reads the others' blocks as it would a store's
//! ([`Cache::meet`]), and shows its own ([`PeerExports`]): those on its disk, and snapshots of what is in its memory alone.
//!
//! The bytes of remote files are kept in the same folder, and given in ranges: [`PageCache`].

mod cache;
mod commands;
mod key;
mod lock;
mod pages;
mod quota;
mod rows;
mod state;
mod stats;
mod tiers;

pub use cache::{Cache, Disk, Options};
pub use commands::{BadBlock, CacheLocation, PrefixListing, VerifyReport, evict, list, verify};
pub use key::{FileKey, PrefixKey, RowKey};
pub use pages::request::Request;
pub use pages::{Done, Fetch, PAGE_BYTES, PageCache, PagedFile};
pub use rows::claim::{Claim, Computed, Pending};
pub use rows::found::Found;
pub use rows::prefix::{Look, Prefix};
pub use stats::{Counts, DiskStats, PrefixStats, SourceCounts, SourceStats, Stats, StoreStats, TierStats};
pub use tiers::peers::client::{PeerReplies, Peers};
pub use tiers::peers::exports::peer_exports::{PART_BYTES_MAX, PeerExports};
pub use tiers::peers::server::{PeerReply, PeerRequest};
pub use tiers::store::{Elsewhere, Object, Part, SharedStore, Store};

/// Reads every row of a block that anybody may have written: for the fuzzer. Returns how many are right.
///
/// # Errors
/// Data, saying what is wrong.
#[doc(hidden)]
pub fn check_block(bytes: &[u8]) -> forebay_core::Result<u64> {
    let rows = tiers::block::format::open(bytes).and_then(|(header, layout)| commands::check(bytes, &header, &layout));
    rows.map_err(|trouble| forebay_core::Error::data(format!("{trouble:?}")))
}

/// The version of what is kept. Blocks of another are left alone; keys of another are other keys.
pub const FORMAT: u32 = 1;
