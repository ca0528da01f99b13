//! The cache of a process, and the inputs of its decisions.

use std::sync::Arc;

use forebay_cache::Cache;
use forebay_core::{Stopwatch, SystemClock};
use forebay_policy::caching::Rent;

use crate::cached::autocache_profile::AutoCacheProfiles;

/// The cache that `cache()` and `autocache()` use in a process, and the sources of its cost figures.
#[derive(Clone)]
pub struct CacheContext {
    /// The cache.
    pub cache: Arc<Cache>,
    /// Measures the cost of rows. It decides which rows are kept, and nothing else.
    pub watch: Arc<dyn Stopwatch>,
    /// The measurements of pipelines with `autocache()`.
    pub profiles: Arc<AutoCacheProfiles>,
    /// The price of the cache's store, for the decisions of `autocache()`.
    pub rent: Rent,
}

impl CacheContext {
    /// Uses a cache, the system clock, and no profile yet.
    pub fn new(cache: Arc<Cache>) -> Self {
        Self { cache, watch: Arc::new(SystemClock::default()), profiles: Arc::default(), rent: Rent::default() }
    }
}
