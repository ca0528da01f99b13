//! The cache of a process: opened once, and shared by all of its pipelines.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::{Result, Stopwatch};
use forebay_data::Schema;

use crate::key::PrefixKey;
use crate::lock::deadline;
use crate::pages::{self, PageCache};
use crate::rows::prefix::Prefix;
use crate::state::CacheState;
use crate::stats::{Stats, StoreStats};
use crate::tiers::TierId;
use crate::tiers::peers::client::Peers;
use crate::tiers::peers::exports::peer_exports::PeerExports;
use crate::tiers::peers::tier::PeersTier;
use crate::tiers::remote::blocks::Elsewhere;
use crate::tiers::store::SharedStore;
use crate::tiers::tier::{BlockTier, TierThread};

/// The quotas of a cache, and its places.
#[derive(Debug, Clone)]
pub struct Options {
    /// The most bytes of memory for rows and their index. The index of tiers may take up to 64 MiB even where this is
    /// less.
    pub memory: u64,
    /// The local disk, if it is used.
    pub disk: Option<Disk>,
    /// The store that machines share, if one is used.
    pub store: Option<SharedStore>,
}

/// A folder for blocks. All processes that use the folder share its quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The folder. It is created if it is missing.
    pub folder: PathBuf,
    /// The most bytes of all blocks in it. A block has a few KiB besides its rows: far below 1 MiB, no rows are kept.
    pub bytes: u64,
    /// Whether pages of remote files are kept in it, too.
    pub sources: bool,
}

/// How long a dropped cache waits until queued rows are written. Rows that are not written are computed again.
const CLOSE_WAIT: Duration = Duration::from_secs(30);

/// The cache of a process. See the documentation of the crate. A dropped cache writes the queued rows; its prefixes
/// that still live continue without the disk.
#[derive(Debug)]
pub struct Cache {
    state: Arc<CacheState>,
    keeps_pages: bool,
}

impl Cache {
    /// Opens the cache, and the folder with its blocks. A folder that cannot be written to is only read.
    ///
    /// # Errors
    /// The system's error where the folder can neither be created nor read, or a thread cannot be started.
    pub fn open(options: &Options) -> Result<Arc<Self>> {
        let state = Arc::new(CacheState::open(options)?);
        let keeps_pages = options.disk.as_ref().is_some_and(|disk| disk.sources);
        state.tiers().below().cloned().try_for_each(|tier| start_all(&state, tier))?;
        if keeps_pages {
            let work = |state: &CacheState| state.disk().into_iter().for_each(|disk| pages::writer::run(state, disk));
            start(&state, ("forebay-pages", Box::new(work)))?;
        }
        Ok(Arc::new(Self { state, keeps_pages }))
    }

    /// Adds peers. From now on, lookups try peers before the store. `peers` lists and reads their blocks under the
    /// names of a store's objects, and is read-only; the cache also requests rows from it that are about to be
    /// computed. `watch` is as for a [`SharedStore`]. Only the first call has an effect.
    ///
    /// # Errors
    /// The system's error where a thread cannot be started.
    pub fn meet(&self, peers: Arc<dyn Peers>, watch: Arc<dyn Stopwatch>) -> Result<()> {
        let tier = Arc::new(PeersTier::new(peers, watch.clone()));
        if !self.state.tiers().add(tier.clone()) {
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
        let (prefix, in_use) = self.state.prefix(key, schema, rows, what);
        self.state.tiers().below().for_each(|tier| tier.open_prefix(&self.state, &prefix));
        Arc::new(Prefix::new(self.state.clone(), prefix, in_use))
    }

    /// Writes the queued rows and pages, and waits at most `limit`. Returns whether everything was written.
    pub fn flush(&self, limit: Duration) -> bool {
        let until = deadline(limit);
        let left = || until.saturating_duration_since(Instant::now());
        // Each queue is flushed, whether or not an earlier one was done.
        let late = self.state.tiers().sinks().filter(|sink| !sink.queue().flush(left())).count();
        let pages = !self.keeps_pages || self.state.pages().queue.flush(left());
        late == 0 && pages
    }

    /// Waits, at most `limit`, until the write queues have room for rows that are computed next. For callers that
    /// compute rows only to keep them.
    pub fn ease(&self, limit: Duration) {
        let until = deadline(limit);
        let left = || until.saturating_duration_since(Instant::now());
        self.state.tiers().sinks().for_each(|sink| _ = sink.queue().ease(left()));
    }

    /// Returns the figures of peers and of the store. Each peer is assumed to have room for `own` bytes, like this
    /// process.
    pub fn elsewhere(&self, own: u64) -> [Elsewhere; 2] {
        let tier = |id| self.state.tiers().get(id);
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
        self.state.tiers().get(TierId::Store)?.add_stats(&mut stats);
        let StoreStats { uri, refused, .. } = stats.store?;
        Some((uri, refused?))
    }

    /// Returns the figures of the cached rows, and of their use since the cache was opened.
    pub fn stats(&self) -> Stats {
        self.state.stats()
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
        let left = || until.saturating_duration_since(Instant::now());
        if self.keeps_pages {
            self.state.pages().queue.close(left());
        }
        self.state.tiers().below().for_each(|tier| tier.close(until));
    }
}
