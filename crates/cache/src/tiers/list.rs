//! The tiers of a process. Only this module combines them.

use std::sync::{Arc, OnceLock};

use forebay_core::{Result, SystemClock};

use crate::cache::Options;
use crate::tiers::TierId;
use crate::tiers::disk::tier::DiskTier;
use crate::tiers::memory::MemoryTier;
use crate::tiers::store::tier::StoreTier;
use crate::tiers::tier::{BlockSink, BlockTier, Tier};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Tiers {
    memory: MemoryTier,
    /// By [`TierId`], the nearest first. Peers can be added while the cache is open.
    below: [OnceLock<Arc<dyn BlockTier>>; TierId::ALL.len()],
    /// The tier of the local disk, whose folder also has pages of files and the locks of prefixes in use.
    disk: Option<Arc<DiskTier>>,
}

impl Tiers {
    /// Opens the tiers that the options name.
    ///
    /// # Errors
    /// The system's error where the folder can neither be created nor read.
    pub(crate) fn open(options: &Options) -> Result<Self> {
        let watch = || Arc::new(SystemClock::default());
        let disk = options.disk.as_ref().map(|disk| DiskTier::open(disk, watch())).transpose()?.map(Arc::new);
        let tiers = Self { memory: MemoryTier::new(options), below: Default::default(), disk: disk.clone() };
        disk.into_iter().for_each(|disk| _ = tiers.add(disk));
        options.store.iter().for_each(|store| _ = tiers.add(Arc::new(StoreTier::new(store))));
        Ok(tiers)
    }

    /// Adds a tier, if its place is free; returns whether it is.
    pub(crate) fn add(&self, tier: Arc<dyn BlockTier>) -> bool {
        self.below[tier.id() as usize].set(tier).is_ok()
    }

    pub(crate) fn memory(&self) -> &MemoryTier {
        &self.memory
    }

    pub(crate) fn disk(&self) -> Option<&Arc<DiskTier>> {
        self.disk.as_ref()
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
        std::iter::once::<&dyn Tier>(&self.memory).chain(below)
    }
}
