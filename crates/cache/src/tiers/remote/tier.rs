//! What differs between remote tiers: what their maintenance thread does besides listing and reading.

use crate::state::CacheState;
use crate::stats::Counters;
use crate::tiers::block::name::Name;
use crate::tiers::remote::state::Remote;
use crate::tiers::tier::BlockTier;

/// A tier whose blocks lie elsewhere.
pub(crate) trait RemoteTier: BlockTier {
    /// Returns what is known of the place.
    fn remote(&self) -> &Remote;

    /// Handles a block that is broken where it lies.
    fn remove_broken(&self, name: &Name, why: &str);

    /// Notes that so many rows are gone from the place.
    fn note_gone(&self, _counters: &Counters, _rows: usize) {}

    /// Does the periodic work of the tier.
    fn upkeep(&self, _cache: &CacheState) {}
}
