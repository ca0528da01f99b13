//! Processes that are peers of each other, without a network between them, under the control of the test.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use bytes::Bytes;
use forebay_cache::{
    Cache, Counts, Disk, Object, Options, Part, PeerExports, PeerReplies, PeerRequest, Peers, Prefix, RemoteBlocks,
    SharedStore,
};
use forebay_core::{Error, ErrorKind, Result};

use super::pail::{Hand, Pail};
use super::{LIMIT, ask, is_without, prefix_key, schema};

pub(crate) const ROWS: u64 = 300;
/// Longer than any pause between listings of peers.
pub(crate) const LONG: Duration = Duration::from_secs(3);

/// The exports of other processes, without a network between them.
#[derive(Debug, Default)]
pub(crate) struct Others {
    pub(crate) exports: Mutex<Vec<PeerExports>>,
    pub(crate) is_away: AtomicBool,
    /// Bytes of each answer are changed.
    pub(crate) damages: AtomicBool,
    /// They answer requests for rows that they do not list yet.
    pub(crate) gives: AtomicBool,
    /// A request for such rows waits here first.
    pub(crate) gate: Mutex<Option<Arc<Barrier>>>,
    /// They do not answer.
    pub(crate) is_deaf: AtomicBool,
    /// The time of a request, in nanoseconds.
    pub(crate) takes: AtomicU64,
    pub(crate) asked: AtomicU64,
    pub(crate) reads: AtomicU64,
}

impl Others {
    pub(crate) fn are(&self) -> Vec<PeerExports> {
        if self.is_away.load(Relaxed) { Vec::new() } else { self.exports.lock().expect("not poisoned").clone() }
    }
}

impl RemoteBlocks for Others {
    fn uri(&self) -> &str {
        "peers"
    }

    fn list(&self, below: &str, _: Duration) -> Result<Vec<Object>> {
        if self.damages.load(Relaxed) && self.gives.load(Relaxed) {
            return Ok(Vec::new());
        }
        let prefix = below.rsplit('/').next().and_then(|prefix| forebay_cache::PrefixKey::parse(prefix).ok());
        let prefix = prefix.expect("peers are asked for a prefix");
        Ok(self.are().iter().flat_map(|exports| exports.blocks(prefix)).collect())
    }

    fn read(&self, parts: &[Part], _: Duration) -> Vec<Result<Bytes>> {
        self.reads.fetch_add(1, Relaxed);
        let gone = || Err(Error::new(ErrorKind::NotFound, "no peer has it"));
        let read =
            |part: &Part| self.are().iter().map(|exports| exports.read(part)).find(Result::is_ok).unwrap_or_else(gone);
        let damaged = |bytes: Bytes| {
            let mut bytes = bytes.to_vec();
            bytes.iter_mut().step_by(50).for_each(|byte| *byte ^= 1);
            Bytes::from(bytes)
        };
        let damages = self.damages.load(Relaxed);
        parts.iter().map(|part| read(part).map(|bytes| if damages { damaged(bytes) } else { bytes })).collect()
    }
}

impl Peers for Others {
    fn caches(&self) -> u64 {
        self.are().len() as u64
    }

    fn rows(&self, request: &PeerRequest<'_>, limit: Duration) -> PeerReplies {
        if !self.gives.load(Relaxed) {
            return PeerReplies::default();
        }
        self.asked.fetch_add(1, Relaxed);
        let gate = self.gate.lock().expect("not poisoned").take();
        gate.into_iter().for_each(|gate| _ = gate.wait());
        let replies =
            self.are().into_iter().flat_map(|exports| exports.rows(request, limit).unwrap_or_default().blocks);
        let damages = self.damages.load(Relaxed);
        let damaged = |bytes: Bytes| {
            let mut bytes = bytes.to_vec();
            let at = self.reads.fetch_add(7919, Relaxed) as usize % bytes.len();
            bytes[at] ^= 1;
            bytes.into()
        };
        let blocks = replies.map(|bytes| if damages { damaged(bytes) } else { bytes }).collect();
        let nanos = (!self.is_deaf.load(Relaxed)).then(|| self.takes.load(Relaxed));
        PeerReplies { blocks, nanos }
    }
}

/// A process with a folder of its own, and its clock.
pub(crate) struct Process {
    pub(crate) cache: Arc<Cache>,
    pub(crate) others: Arc<Others>,
    pub(crate) hand: Hand,
}

impl Process {
    pub(crate) fn new(memory: u64, folder: Option<&Path>, store: Option<&Arc<Pail>>) -> Self {
        let (hand, others) = (Hand::default(), Arc::<Others>::default());
        let disk = folder.map(|folder| Disk { folder: folder.to_owned(), bytes: 1 << 30, sources: true });
        let store =
            store.map(|pail| SharedStore { store: pail.clone(), bytes: 1 << 30, watch: Arc::new(hand.clone()) });
        let cache = Cache::open(&Options { memory, disk, store }).expect("opens");
        cache.meet(others.clone(), Arc::new(hand.clone())).expect("a thread");
        Self { cache, others, hand }
    }

    pub(crate) fn meets(self, other: &Self) -> Self {
        self.others.exports.lock().expect("not poisoned").extend(other.cache.exports());
        self
    }

    /// With memory only.
    pub(crate) fn in_memory(memory: u64) -> Self {
        Self::new(memory, None, None)
    }

    pub(crate) fn prefix(&self) -> Arc<Prefix> {
        self.cache.prefix(prefix_key(1), &schema(), ROWS, "test of peers")
    }

    pub(crate) fn counts(&self) -> Counts {
        self.cache.stats().prefixes[0].counts
    }

    /// Computes all rows, and has them on its disk.
    pub(crate) fn filled(self) -> Self {
        let prefix = self.prefix();
        all().chunks(50).for_each(|rows| assert_eq!(ask(&prefix, rows), rows));
        assert!(self.cache.flush(LIMIT));
        self
    }
}

pub(crate) fn all() -> Vec<u64> {
    (0..ROWS).collect()
}

pub(crate) fn kept() -> Vec<u64> {
    all().into_iter().filter(|&row| !is_without(row)).collect()
}
