//! A remote tier, which is the store or the peers: its parts, and the results of its requests.
//!
//! Reads and writes fail apart from each other, for example by their permissions, so each has its [`Breaker`]. Each
//! lock is taken by itself, and none is held while the store is asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay_core::{Error, ErrorKind, Result, Stopwatch};

use crate::key::PrefixKey;
use crate::lock::lock;
use crate::stats::StoreStats;
use crate::stats::TierStats;
use crate::tiers::Tier;
use crate::tiers::block::queue::Queue;
use crate::tiers::block::writer::Message;
use crate::tiers::block::{BLOCK_BYTES, BLOCK_BYTES_MIN};
use crate::tiers::store::breaker::Breaker;
use crate::tiers::store::cost::Cost;
use crate::tiers::store::maintenance::Jobs;
use crate::tiers::store::peer_ask_policy::PeerAskPolicy;
use crate::tiers::store::{Elsewhere, SharedStore, Store};

/// The time limit of writing a block, or of reading it as a whole.
pub(super) const BLOCK_WAIT: Duration = Duration::from_secs(60);
/// The time limit of listing objects, or of deleting or touching one.
pub(super) const LIST_WAIT: Duration = Duration::from_secs(30);

/// The blocks of a prefix in the tier, as far as this process knows.
#[derive(Debug, Default)]
pub(super) struct View {
    /// The numbers of the blocks whose header was read, whether they are used or not, by name.
    pub(super) known: HashMap<String, u32>,
    /// When it was last listed.
    pub(super) looked: Option<u64>,
    /// The least interval until the next listing, if it is longer than the usual one.
    pub(super) rest: u64,
    /// It will be listed again.
    pub(super) is_waited_for: bool,
    /// The number of listings without news since rows were missed.
    pub(super) quiet: u32,
}

/// See the module's documentation.
pub(crate) struct StoreTier {
    pub(super) tier: Tier,
    pub(super) store: Arc<dyn Store>,
    pub(super) quota: u64,
    pub(super) watch: Arc<dyn Stopwatch>,
    pub(crate) queue: Queue<Message>,
    pub(crate) block_bytes: u64,
    pub(super) jobs: Jobs,
    pub(super) reads: Mutex<Access>,
    pub(super) writes: Mutex<Access>,
    pub(super) cost: Mutex<Cost>,
    pub(super) peer_ask_policy: Mutex<PeerAskPolicy>,
    pub(super) views: Mutex<HashMap<PrefixKey, View>>,
    pub(super) next: AtomicU32,
    /// The bytes of all blocks, of all processes, once they were counted.
    pub(super) used: Mutex<Option<u64>>,
    pub(super) full: AtomicBool,
    pub(super) corrupt: AtomicU64,
    pub(super) other_format: AtomicU64,
}

/// Reading or writing: whether it works now.
#[derive(Debug)]
pub(super) struct Access {
    /// Its name in warnings.
    what: &'static str,
    pub(super) breaker: Breaker,
    /// Why it is not used now.
    why: Option<String>,
    /// The last failure since a success.
    failure: Option<String>,
    warned: bool,
}

impl Access {
    fn new(what: &'static str) -> Mutex<Self> {
        Mutex::new(Self { what, breaker: Breaker::default(), why: None, failure: None, warned: false })
    }

    fn succeeded(&mut self) {
        if self.breaker.succeeded() {
            tracing::info!("the cache's store is {} again", self.what);
        }
        (self.why, self.failure) = (None, None);
    }

    fn failed(&mut self, uri: &str, error: &Error, now: u64) {
        self.failure = Some(error.to_string());
        let lasting = matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Exhausted | ErrorKind::Invalid);
        if self.breaker.failed(now, lasting) {
            self.why = Some(error.to_string());
            if !std::mem::replace(&mut self.warned, true) {
                tracing::warn!(
                    store = uri,
                    "the cache's store is not {} for a while, and tried again later; jobs go on without: {error}",
                    self.what
                );
            }
        }
    }
}

impl std::fmt::Debug for StoreTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreTier").field("store", &self.store).finish_non_exhaustive()
    }
}

impl StoreTier {
    pub(crate) fn new(cache: &SharedStore) -> Self {
        Self::at(Tier::Store, cache.store.clone(), cache.bytes, cache.watch.clone())
    }

    /// The tier of peers, which is only read.
    pub(crate) fn of_peers(peers: Arc<dyn Store>, watch: Arc<dyn Stopwatch>) -> Self {
        Self::at(Tier::Peers, peers, 0, watch)
    }

    fn at(tier: Tier, store: Arc<dyn Store>, quota: u64, watch: Arc<dyn Stopwatch>) -> Self {
        Self {
            tier,
            store,
            quota,
            watch,
            queue: Queue::default(),
            block_bytes: BLOCK_BYTES.min(quota / 16).max(BLOCK_BYTES_MIN),
            jobs: Jobs::default(),
            reads: Access::new("read"),
            writes: Access::new("written to"),
            cost: Mutex::default(),
            peer_ask_policy: Mutex::default(),
            views: Mutex::default(),
            next: AtomicU32::new(0),
            used: Mutex::default(),
            full: AtomicBool::new(false),
            corrupt: AtomicU64::new(0),
            other_format: AtomicU64::new(0),
        }
    }

    /// Says whether this process writes to the tier and maintains it.
    pub(super) fn is_ours(&self) -> bool {
        self.tier == Tier::Store
    }

    pub(crate) fn now(&self) -> u64 {
        self.watch.nanos()
    }

    pub(crate) fn stats(&self) -> StoreStats {
        let bytes = lock(&self.used).unwrap_or(0);
        let (unwritten, refused) = {
            let writes = lock(&self.writes);
            (writes.why.clone(), writes.failure.clone())
        };
        StoreStats {
            uri: self.store.uri().to_owned(),
            tier: TierStats { bytes, quota: self.quota },
            unread: lock(&self.reads).why.clone(),
            unwritten,
            refused,
            full: self.full.load(Ordering::Relaxed),
            corrupt_blocks: self.corrupt.load(Ordering::Relaxed),
            other_blocks: self.other_format.load(Ordering::Relaxed),
        }
    }

    /// Returns the figures of the tier. Each peer is taken to have room for `own` bytes, as this process has.
    pub(crate) fn elsewhere(&self, own: u64) -> Elsewhere {
        let cost = lock(&self.cost).clone();
        let room = match self.tier {
            _ if !self.is_read() => 0,
            Tier::Peers => own.saturating_mul(self.store.caches()),
            _ => self.quota,
        };
        Elsewhere { room, request_nanos: cost.request_nanos, byte_nanos: cost.byte_nanos, reads: cost.reads }
    }

    /// Notes the results of a read.
    pub(super) fn note_read<'a>(&self, answers: impl IntoIterator<Item = Option<&'a Error>>) {
        let mut reads = lock(&self.reads);
        let unanswered = |e: &&Error| !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Data);
        match answers.into_iter().flatten().find(unanswered) {
            None => reads.succeeded(),
            Some(e) => reads.failed(self.store.uri(), e, self.now()),
        }
    }

    pub(super) fn note_write<T>(&self, done: Result<T>) -> Option<T> {
        let mut writes = lock(&self.writes);
        match done {
            Ok(done) => {
                writes.succeeded();
                Some(done)
            }
            Err(e) => {
                writes.failed(self.store.uri(), &e, self.now());
                None
            }
        }
    }

    /// Closes the queue, and waits until `until` for the queued rows to be written.
    pub(crate) fn close(&self, until: Instant) {
        self.jobs.close();
        if !self.is_ours() {
            return;
        }
        self.queue.close(until.saturating_duration_since(Instant::now()));
    }
}
