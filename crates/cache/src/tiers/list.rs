//! The tiers of a process, the nearest first.

use std::sync::{Arc, OnceLock};

use crate::tiers::TierId;
use crate::tiers::memory::accounts::MemoryTier;
use crate::tiers::tier::{BlockSink, BlockTier, Tier};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Tiers {
    memory: Arc<MemoryTier>,
    /// By [`TierId`], the nearest first. Peers can be added while the cache is open.
    below: [OnceLock<Arc<dyn BlockTier>>; TierId::ALL.len()],
}

impl Tiers {
    /// Makes a list of memory alone.
    pub(crate) fn new(memory: Arc<MemoryTier>) -> Self {
        Self { memory, below: Default::default() }
    }

    /// Adds a tier, if its place is free; returns whether it is.
    pub(crate) fn add(&self, tier: Arc<dyn BlockTier>) -> bool {
        self.below[tier.id() as usize].set(tier).is_ok()
    }

    /// Returns a tier, if this process has it.
    pub(crate) fn get(&self, id: TierId) -> Option<&Arc<dyn BlockTier>> {
        self.below[id as usize].get()
    }

    /// Returns the tiers below memory, the nearest first.
    pub(crate) fn below(&self) -> impl Iterator<Item = &Arc<dyn BlockTier>> {
        self.below.iter().filter_map(OnceLock::get)
    }

    /// Returns the tiers that blocks are written to, the nearest first.
    pub(crate) fn sinks(&self) -> impl Iterator<Item = &dyn BlockSink> {
        self.below().filter_map(|tier| tier.sink())
    }

    /// Returns all tiers, the nearest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &dyn Tier> {
        let below = self.below().map(|tier| -> &dyn Tier { &**tier });
        std::iter::once::<&dyn Tier>(&*self.memory).chain(below)
    }
}
