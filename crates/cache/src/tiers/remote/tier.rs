//! The differences between remote tiers: the work of their maintenance thread besides listing and reading.

use crate::state::CacheState;
use crate::stats::Counters;
use crate::tiers::block::name::Name;
use crate::tiers::remote::state::Remote;
use crate::tiers::tier::BlockTier;

/// A tier whose blocks are in another place.
pub(crate) trait RemoteTier: BlockTier {
    /// Returns the state of the place.
    fn remote(&self) -> &Remote;

    /// Handles a block that is broken at its place.
    fn remove_broken(&self, name: &Name, why: &str);

    /// Records that rows are gone from the place.
    fn note_gone(&self, _counters: &Counters, _rows: usize) {}

    /// Does the periodic work of the tier.
    fn upkeep(&self, _cache: &CacheState) {}
}
