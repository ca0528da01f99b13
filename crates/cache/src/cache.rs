//! The cache of a process: opened once, and shared by all of its pipelines.

#![expect(clippy::disallowed_methods, reason = "the threads of tiers, which end with the cache")]

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Result, Stopwatch, SystemClock};
use forebay_data::Schema;

use crate::key::PrefixKey;
use crate::lock::{deadline, left};
use crate::options::Options;
use crate::pages::{self, PageCache};
use crate::rows::index::Index;
use crate::rows::prefix::Prefix;
use crate::state::CacheState;
use crate::stats::{PrefixStats, Stats, StoreStats};
use crate::tiers::TierId;
use crate::tiers::disk::tier::DiskTier;
use crate::tiers::list::Tiers;
use crate::tiers::memory::accounts::MemoryTier;
use crate::tiers::peers::client::Peers;
use crate::tiers::peers::exports::peer_exports::PeerExports;
use crate::tiers::peers::tier::PeersTier;
use crate::tiers::remote::blocks::Elsewhere;
use crate::tiers::store::tier::StoreTier;
use crate::tiers::tier::{BlockTier, TierThread};

/// How long a dropped cache waits until queued rows are written. Rows that are not written are computed again.
const CLOSE_WAIT: Duration = Duration::from_secs(30);

/// The cache of a process. See the documentation of the crate. A dropped cache writes the queued rows; its prefixes
/// that still live continue without the disk.
#[derive(Debug)]
pub struct Cache {
    state: Arc<CacheState>,
    tiers: Arc<Tiers>,
    keeps_pages: bool,
}

impl Cache {
    /// Opens the cache, and the folder with its blocks. A folder that cannot be written to is only read.
    ///
    /// # Errors
    /// The system's error where the folder can neither be created nor read, or a thread cannot be started.
    pub fn open(options: &Options) -> Result<Arc<Self>> {
        let (state, tiers) = open_tiers(options)?;
        let keeps_pages = options.disk.as_ref().is_some_and(|disk| disk.sources);
        tiers.below().cloned().try_for_each(|tier| start_all(&state, tier))?;
        if keeps_pages {
            let work = |state: &CacheState| state.disk().into_iter().for_each(|disk| pages::writer::run(state, disk));
            start(&state, ("forebay-pages", Box::new(work)))?;
        }
        Ok(Arc::new(Self { state, tiers, keeps_pages }))
    }

    /// Adds peers. From now on, missing rows are looked for at peers before the store. `peers` lists and reads their
    /// blocks under the names of a store's objects, and is not written to; it is also asked for rows that are about to
    /// be computed. `watch` is as for a [`SharedStore`](crate::SharedStore). Only the first call has an effect.
    ///
    /// # Errors
    /// The system's error where a thread cannot be started.
    pub fn meet(&self, peers: Arc<dyn Peers>, watch: Arc<dyn Stopwatch>) -> Result<()> {
        let tier = Arc::new(PeersTier::new(peers, watch.clone()));
        if !self.tiers.add(tier.clone()) {
            return Ok(());
        }
        self.state.export_rows(watch);
        start_all(&self.state, tier)
    }

    /// Returns the blocks and rows that peers may read. `None` where neither memory nor a folder is used.
    pub fn exports(&self) -> Option<PeerExports> {
        let keeps = self.state.disk().is_some() || self.state.memory().is_used();
        keeps.then(|| PeerExports::new(self.state.clone()))
    }

    /// Returns a page cache for remote files; `None` where there is no folder, or it keeps no pages. `what` names the
    /// place of the files for messages: `s3://bucket/train/`. `bytes` is their total size, 0 where it is not known.
    pub fn page_cache(&self, what: &str, bytes: u64) -> Option<Arc<PageCache>> {
        self.keeps_pages.then(|| PageCache::open(&self.state, what, bytes))
    }

    /// Returns a prefix. `rows` is the number of rows of its source; `what` describes it for messages: "decode_image of
    /// /data/train". With peers or a store, waits a few seconds at most until their blocks are known.
    pub fn prefix(&self, key: PrefixKey, schema: &Arc<Schema>, rows: u64, what: &str) -> Arc<Prefix> {
        let (prefix, in_use) = self.state.prefix(key, schema, rows, what, |unused| {
            self.tiers.below().for_each(|tier| tier.leave_prefix(unused));
        });
        self.tiers.below().for_each(|tier| tier.open_prefix(&self.state, &prefix));
        Arc::new(Prefix::new(self.state.clone(), self.tiers.clone(), prefix, in_use))
    }

    /// Writes the queued rows and pages, and waits at most `limit`. Returns whether everything was written.
    pub fn flush(&self, limit: Duration) -> bool {
        let until = deadline(limit);
        let left = || left(until);
        // Each queue is flushed, whether or not an earlier one was done.
        let late = self.tiers.sinks().filter(|sink| !sink.queue().flush(left())).count();
        let pages = !self.keeps_pages || self.state.pages().queue.flush(left());
        late == 0 && pages
    }

    /// Waits, at most `limit`, until the write queues have room for rows that are computed next. For callers that
    /// compute rows only to keep them.
    pub fn ease(&self, limit: Duration) {
        let until = deadline(limit);
        let left = || left(until);
        self.tiers.sinks().for_each(|sink| _ = sink.queue().ease(left()));
    }

    /// Returns the figures of peers and of the store. Each peer is assumed to have room for `own` bytes, like this
    /// process.
    pub fn elsewhere(&self, own: u64) -> [Elsewhere; 2] {
        let tier = |id| self.tiers.get(id);
        [TierId::Peers, TierId::Store].map(|id| tier(id).map(|tier| tier.elsewhere(own)).unwrap_or_default())
    }

    /// Returns the reason why nothing is written to the folder now; `None` if it is written to, or there is no folder.
    pub fn disk_stopped(&self) -> Option<String> {
        self.state.disk()?.stopped()
    }

    /// Returns the bytes of the blocks that were deleted when the folder was opened, because it exceeded its quota.
    pub fn disk_trimmed(&self) -> u64 {
        self.state.disk().map_or(0, |disk| disk.trimmed())
    }

    /// Returns the URL of the store and why it refused the last write, if it did.
    pub fn store_stopped(&self) -> Option<(String, String)> {
        let mut stats = Stats::default();
        self.tiers.get(TierId::Store)?.add_stats(&mut stats);
        let StoreStats { uri, refused, .. } = stats.store?;
        Some((uri, refused?))
    }

    /// Returns the figures of the cached rows, and of their use since the cache was opened.
    pub fn stats(&self) -> Stats {
        let add = |index: &Index, stats: &mut PrefixStats| {
            self.tiers.all().for_each(|tier| tier.add_prefix_stats(index, stats));
        };
        let mut stats = self.state.stats(add);
        self.tiers.all().for_each(|tier| tier.add_stats(&mut stats));
        stats
    }
}

/// Starts the threads of a tier.
fn start_all(state: &Arc<CacheState>, tier: Arc<dyn BlockTier>) -> Result<()> {
    tier.threads().into_iter().try_for_each(|thread| start(state, thread))
}

fn start(state: &Arc<CacheState>, (name, work): TierThread) -> Result<()> {
    let state = state.clone();
    Ok(std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&state)).map(drop)?)
}

impl Drop for Cache {
    fn drop(&mut self) {
        let until = deadline(CLOSE_WAIT);
        let left = || left(until);
        if self.keeps_pages {
            self.state.pages().queue.close(left());
        }
        self.tiers.below().for_each(|tier| tier.close(until));
    }
}

/// Opens the tiers that the options name. This is the one place that puts them together.
///
/// # Errors
/// The system's error where the folder can neither be created nor read.
fn open_tiers(options: &Options) -> Result<(Arc<CacheState>, Arc<Tiers>)> {
    let watch = || Arc::new(SystemClock::default());
    let memory = Arc::new(MemoryTier::new(options));
    let disk = options.disk.as_ref().map(|disk| DiskTier::open(disk, watch())).transpose()?.map(Arc::new);
    let tiers = Tiers::new(memory.clone());
    disk.iter().for_each(|disk| _ = tiers.add(disk.clone()));
    options.store.iter().for_each(|store| _ = tiers.add(Arc::new(StoreTier::new(store))));
    Ok((Arc::new(CacheState::new(memory, disk)), Arc::new(tiers)))
}
