//! Chunks that one job has computed, kept for other running jobs with the same samples, so that each is computed once.
//!
//! Jobs share when their [`SampleStreamKey`] is equal: pipeline, seed, source, sharding and tenant. The dispatcher
//! grants a split of all of them to the worker that has computed it for one. There the first job that requests a chunk
//! computes it; the others wait for it, or find it. No memory is copied: consumers on this machine are informed that
//! the memory is shared.
//!
//! Invariants: a chunk that is found has the bits that would be computed (W-1), once its consumer has run the remaining
//! ops. A thread waits at most [`WAIT_MAX`] for a chunk that another computes; a computation that is given up lets the
//! others compute. At most [`BYTES_MAX`] are kept, the newest. So a job delays another by one chunk at most, and a job
//! that falls behind computes for itself. Chunks that all jobs have taken are evicted first, and are at most
//! [`SERVED_BYTES_MAX`]: jobs that run in step reuse a few blocks of memory instead of fresh pages for each chunk.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_proto::SampleStreamKey;

use crate::lock::lock;
use crate::splits::chunk::ProducedChunk;
use crate::splits::split_buffer::SplitKey;

/// The most bytes of chunks that are kept.
const BYTES_MAX: usize = 256 << 20;
/// Of these bytes, the most in chunks that all jobs have taken. They serve a job that has just begun, and a split that
/// is computed again.
const SERVED_BYTES_MAX: usize = 32 << 20;
/// How long a thread waits for a chunk that another thread computes.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10);

/// A chunk: the number of its stream, then consumer, epoch, ordinal and index.
type ChunkKey = (u64, u32, u64, u64, u64);

enum Entry {
    /// A thread computes it.
    InFlight,
    /// The chunk, and the subscribers that have taken it.
    Ready(ProducedChunk, Vec<u64>),
}

#[derive(Default)]
struct ChunksState {
    /// The number of each stream, and how many jobs subscribe to it.
    streams: HashMap<SampleStreamKey, (u64, Arc<AtomicU64>)>,
    next: u64,
    last_subscriber: u64,
    chunks: HashMap<ChunkKey, Entry>,
    /// Ready chunks that some subscriber has not taken, the oldest first.
    unserved: VecDeque<ChunkKey>,
    /// Ready chunks that all subscribers have taken.
    served: VecDeque<ChunkKey>,
    bytes: usize,
    served_bytes: usize,
}

/// The shared chunks of one worker.
pub(crate) struct SharedChunks {
    state: Mutex<ChunksState>,
    changed: Condvar,
    bytes_max: usize,
    served_bytes_max: usize,
}

/// The subscription of one job; dropping it ends it.
pub(crate) struct Subscriber {
    shared_chunks: Arc<SharedChunks>,
    stream: SampleStreamKey,
    number: u64,
    id: u64,
    jobs: Arc<AtomicU64>,
}

/// The state of a requested chunk.
pub(crate) enum Lookup {
    /// It is ready.
    Ready(ProducedChunk),
    /// The caller must compute it.
    Compute(InFlight),
    /// Another thread computes it.
    InFlight,
}

/// A chunk that its holder computes. Dropping this without [`InFlight::complete`] lets another thread compute it.
pub(crate) struct InFlight {
    shared_chunks: Arc<SharedChunks>,
    key: ChunkKey,
    subscriber: u64,
}

impl Default for SharedChunks {
    fn default() -> Self {
        Self::new(BYTES_MAX, SERVED_BYTES_MAX)
    }
}

impl SharedChunks {
    fn new(bytes_max: usize, served_bytes_max: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), bytes_max, served_bytes_max }
    }

    /// Subscribes a job.
    pub(crate) fn join(self: &Arc<Self>, stream: SampleStreamKey) -> Subscriber {
        let mut state = lock(&self.state);
        let next = state.next;
        let (number, jobs) = state.streams.entry(stream.clone()).or_insert_with(|| (next, Arc::default())).clone();
        state.next += u64::from(number == next);
        jobs.fetch_add(1, Relaxed);
        state.last_subscriber += 1;
        Subscriber { shared_chunks: self.clone(), stream, number, id: state.last_subscriber, jobs }
    }
}

impl ChunksState {
    fn drop_oldest(&mut self) -> bool {
        if self.drop_served() {
            return true;
        }
        let Some(key) = self.unserved.pop_front() else { return false };
        self.bytes -= self.chunks.remove(&key).map_or(0, |entry| entry.num_bytes());
        true
    }

    fn drop_served(&mut self) -> bool {
        let Some(key) = self.served.pop_front() else { return false };
        let bytes = self.chunks.remove(&key).map_or(0, |entry| entry.num_bytes());
        self.bytes -= bytes;
        self.served_bytes -= bytes;
        true
    }

    /// Records that a subscriber has taken a ready chunk. Once all `jobs` have, the chunk is among the first to be
    /// evicted.
    fn note_taken(&mut self, key: ChunkKey, subscriber: u64, jobs: u64, served_bytes_max: usize) {
        let Some(Entry::Ready(produced, subscribers)) = self.chunks.get_mut(&key) else { return };
        if !subscribers.contains(&subscriber) {
            subscribers.push(subscriber);
        }
        if (subscribers.len() as u64) < jobs {
            return;
        }
        // Chunks are mostly taken in their order, so the search ends near the front.
        if let Some(at) = self.unserved.iter().position(|other| *other == key) {
            self.served_bytes += produced.chunk.num_bytes();
            self.unserved.remove(at);
            self.served.push_back(key);
        }
        while self.served_bytes > served_bytes_max && self.drop_served() {}
    }

    fn drop_stream(&mut self, number: u64) {
        let is_its = |key: &ChunkKey| key.0 == number;
        self.unserved.retain(|key| !is_its(key));
        let (served, rest): (VecDeque<ChunkKey>, _) = std::mem::take(&mut self.served).into_iter().partition(is_its);
        self.served = rest;
        self.served_bytes -= served.iter().filter_map(|key| self.chunks.get(key)).map(Entry::num_bytes).sum::<usize>();
        let gone = self.chunks.extract_if(|key, entry| is_its(key) && matches!(entry, Entry::Ready(..)));
        let bytes: usize = gone.map(|(_, entry)| entry.num_bytes()).sum();
        self.bytes -= bytes;
    }
}

impl Entry {
    fn num_bytes(&self) -> usize {
        if let Entry::Ready(produced, _) = self { produced.chunk.num_bytes() } else { 0 }
    }
}

impl Subscriber {
    /// Returns whether another job with the same samples runs here now.
    pub(crate) fn is_shared(&self) -> bool {
        self.jobs.load(Relaxed) > 1
    }

    /// Looks up a chunk. A ready chunk stays for the other subscribers.
    pub(crate) fn lookup(&self, split: SplitKey, index: u64) -> Lookup {
        let key = self.chunk_key(split, index);
        let mut state = lock(&self.shared_chunks.state);
        match state.chunks.get(&key) {
            Some(Entry::InFlight) => Lookup::InFlight,
            Some(Entry::Ready(produced, _)) => {
                let produced = produced.clone();
                state.note_taken(key, self.id, self.jobs.load(Relaxed), self.shared_chunks.served_bytes_max);
                Lookup::Ready(produced)
            }
            None => {
                state.chunks.insert(key, Entry::InFlight);
                Lookup::Compute(InFlight { shared_chunks: self.shared_chunks.clone(), key, subscriber: self.id })
            }
        }
    }

    /// Waits while another thread computes a chunk; returns false after [`WAIT_MAX`].
    pub(crate) fn wait(&self, split: SplitKey, index: u64) -> bool {
        let (key, until) = (self.chunk_key(split, index), Instant::now() + WAIT_MAX);
        let mut state = lock(&self.shared_chunks.state);
        while matches!(state.chunks.get(&key), Some(Entry::InFlight)) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.shared_chunks.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn chunk_key(&self, split: SplitKey, index: u64) -> ChunkKey {
        (self.number, split.consumer, split.epoch, split.ordinal, index)
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let mut state = lock(&self.shared_chunks.state);
        let left = self.jobs.fetch_sub(1, Relaxed) - 1;
        if left == 0 {
            state.streams.remove(&self.stream);
        }
        if left < 2 {
            state.drop_stream(self.number);
        }
    }
}

impl InFlight {
    /// Keeps the chunk for the other subscribers, and marks it as shared.
    pub(crate) fn complete(self, produced: &mut ProducedChunk) {
        let bytes = produced.chunk.num_bytes();
        if bytes > self.shared_chunks.bytes_max {
            return;
        }
        produced.shared = true;
        let mut state = lock(&self.shared_chunks.state);
        while state.bytes + bytes > self.shared_chunks.bytes_max && state.drop_oldest() {}
        state.bytes += bytes;
        state.unserved.push_back(self.key);
        state.chunks.insert(self.key, Entry::Ready(produced.clone(), vec![self.subscriber]));
        // The drop of `self` wakes the threads that wait.
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = lock(&self.shared_chunks.state);
        if matches!(state.chunks.get(&self.key), Some(Entry::InFlight)) {
            state.chunks.remove(&self.key);
        }
        drop(state);
        self.shared_chunks.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
