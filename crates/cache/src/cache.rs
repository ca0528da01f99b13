//! The cache of a process: opened once, shared by everything that runs there.

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
use crate::stats::Stats;
use crate::tiers::block::writer;
use crate::tiers::peers::client::Peers;
use crate::tiers::peers::exports::peer_exports::PeerExports;
use crate::tiers::store::maintenance;
use crate::tiers::store::tier::StoreTier;
use crate::tiers::store::{Elsewhere, SharedStore};

/// How much may be kept, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// The most bytes of memory that rows take, with what is needed to find them. To find rows below, up to 64 MiB are taken
    /// even where this is less.
    pub memory: u64,
    /// The local disk, if it is used.
    pub disk: Option<Disk>,
    /// The store that machines share, if one is used.
    pub store: Option<SharedStore>,
}

/// A folder for blocks. Processes may share it, with one quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The folder; it is made when it is not there.
    pub folder: PathBuf,
    /// The most bytes that the blocks in it take together. A block has a few KiB besides its rows: far below 1 MiB nothing is
    /// kept.
    pub bytes: u64,
    /// Whether the bytes of remote files are kept in it, too.
    pub sources: bool,
}

/// How long the rows that wait to be written are waited for when the cache is dropped. What is not written is computed again.
const CLOSE_WAIT: Duration = Duration::from_secs(30);

/// The cache of a process. See the crate's documentation. Dropped, it writes what waits to be written; prefixes that are still
/// held go on without the disk.
#[derive(Debug)]
pub struct Cache {
    state: Arc<CacheState>,
    keeps_pages: bool,
}

impl Cache {
    /// Opens the cache, and the folder with what it has. A folder that can be read but not written to is read.
    ///
    /// # Errors
    /// What the system says when the folder can neither be made nor read, or there is no thread left.
    pub fn open(options: &Options) -> Result<Arc<Self>> {
        let state = Arc::new(CacheState::open(options)?);
        let keeps_pages = options.disk.as_ref().is_some_and(|disk| disk.sources);
        let start = |name: &str, work: fn(&CacheState)| start(&state, name, work);
        if state.disk().is_some() {
            start("forebay-cache", |state| state.disk().into_iter().for_each(|disk| writer::run(state, disk)))?;
        }
        if state.store().is_some() {
            start("forebay-store", |state| state.store().into_iter().for_each(|store| writer::run(state, store)))?;
            start("forebay-keeper", |state| {
                state.store().into_iter().for_each(|remote| maintenance::run(state, remote))
            })?;
        }
        if keeps_pages {
            start("forebay-pages", |state| state.disk().into_iter().for_each(|disk| pages::writer::run(state, disk)))?;
        }
        Ok(Arc::new(Self { state, keeps_pages }))
    }

    /// From now on rows that are not here are looked for at peers, before they are in the store: `peers` lists and reads what they
    /// have, with the names of a store's objects, and is not written to; and is asked for rows that are about to be computed. `watch` as for a [`SharedStore`]. Only the first who calls is heeded.
    ///
    /// # Errors
    /// What the system says when there is no thread left.
    pub fn meet(&self, peers: Arc<dyn Peers>, watch: Arc<dyn Stopwatch>) -> Result<()> {
        if !self.state.meet(StoreTier::of_peers(peers.clone(), watch), peers) {
            return Ok(());
        }
        start(&self.state, "forebay-peers", |state| {
            state.peers().get().into_iter().for_each(|remote| maintenance::run(state, remote));
        })
    }

    /// Returns what a peer is given: see [`PeerExports`]. Nothing where neither memory nor a folder is used.
    pub fn exports(&self) -> Option<PeerExports> {
        let keeps = self.state.disk().is_some() || self.state.has_memory();
        keeps.then(|| PeerExports::new(self.state.clone()))
    }

    /// Returns remote files that are read through the folder; nothing where there is none, or it keeps no bytes of remote
    /// files. `what` says where they are, for people: `s3://bucket/train/`. `bytes` is how much there is, 0 where that is
    /// not known.
    pub fn page_cache(&self, what: &str, bytes: u64) -> Option<Arc<PageCache>> {
        self.keeps_pages.then(|| PageCache::open(&self.state, what, bytes))
    }

    /// Returns the rows of a prefix. `rows` is how many its source has; `what` is for people: "decode_image of /data/train".
    /// Where there are peers, or a store, waits a few seconds at most until it is known what they have.
    pub fn prefix(&self, key: PrefixKey, schema: &Arc<Schema>, rows: u64, what: &str) -> Arc<Prefix> {
        let (prefix, in_use) = self.state.prefix(key, schema, rows, what);
        self.state.remotes().for_each(|remote| remote.open(&prefix));
        Arc::new(Prefix::new(self.state.clone(), prefix, in_use))
    }

    /// Writes the rows and pages that wait to be written, and waits for that at most `limit`. Says whether it was done by then.
    pub fn flush(&self, limit: Duration) -> bool {
        let until = deadline(limit);
        let left = || until.saturating_duration_since(Instant::now());
        // All are asked, whatever becomes of the first.
        let disk = self.state.disk().is_none_or(|disk| disk.queue.flush(left()));
        let pages = !self.keeps_pages || self.state.pages().queue.flush(left());
        self.state.store().is_none_or(|store| store.queue.flush(left())) && disk && pages
    }

    /// Waits until rows that are computed next need not be left out for those that wait to be written, `limit` at most. For
    /// whoever computes only to keep.
    pub fn ease(&self, limit: Duration) {
        let until = deadline(limit);
        let left = || until.saturating_duration_since(Instant::now());
        self.state.disk().into_iter().for_each(|disk| _ = disk.queue.ease(left()));
        self.state.store().into_iter().for_each(|store| _ = store.queue.ease(left()));
    }

    /// Returns what peers have room for, if each has `own` bytes as this process has, and what the store has.
    pub fn elsewhere(&self, own: u64) -> [Elsewhere; 2] {
        [self.state.peers().get(), self.state.store()]
            .map(|remote| remote.map(|remote| remote.elsewhere(own)).unwrap_or_default())
    }

    /// Says why nothing is written to the folder now, if there is one and nothing is.
    pub fn disk_stopped(&self) -> Option<String> {
        self.state.disk()?.stopped()
    }

    /// Returns the bytes of the blocks that were removed from the folder when it was opened, for they were more than it may hold.
    pub fn disk_trimmed(&self) -> u64 {
        self.state.disk().map_or(0, |disk| disk.trimmed())
    }

    /// Says why the store did not take what was to be written there last, if there is one and it did not; with the store's url.
    pub fn store_stopped(&self) -> Option<(String, String)> {
        let stats = self.state.store()?.stats();
        Some((stats.uri, stats.refused?))
    }

    /// Returns what is kept and how it was used since the cache was opened.
    pub fn stats(&self) -> Stats {
        self.state.stats()
    }
}

fn start(state: &Arc<CacheState>, name: &str, work: fn(&CacheState)) -> Result<()> {
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
        self.state.disk().into_iter().for_each(|disk| disk.queue.close(left()));
        self.state.remotes().for_each(|remote| remote.close(until));
    }
}
