//! A consumer's process: its timers, its state, and the state that outlives it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use forebay_client::simulate::{Borrowing, Consumer, StreamEnd};
use forebay_data::Chunk;
use forebay_exec::{Delivery, Position, SkippedSample};

use crate::losses::account::{Began, SkippedName};
use crate::net::payload::SentChunk;

/// The assumed bytes of each chunk: a few of them fill the buffer.
pub(crate) const CHUNK_BYTES: usize = 40 << 20;

pub(crate) enum ConsumerTimer {
    Ask,
    Connect,
    Attached(u64),
    Beat(u64),
    /// A chunk of a stream was finished.
    Finished(u64),
    /// The training step is done.
    Stepped,
    Poll,
    Finish,
}

/// The saved state of a training script.
#[derive(Clone, Default)]
pub(super) struct Saved {
    pub(super) position: Position,
    /// The number of items before that position.
    pub(super) cursor: usize,
    pub(super) left_out: Vec<SkippedSample>,
    pub(super) got: BTreeSet<usize>,
}

#[derive(Default)]
pub(crate) struct ConsumerNode {
    pub(super) machine: Option<Consumer>,
    /// The number of its job.
    pub(super) job: Option<u64>,
    pub(super) asked: Option<u64>,
    pub(super) session: Option<u64>,
    pub(super) open: bool,
    pub(super) half_closed: bool,
    pub(super) fetches: BTreeMap<u64, Stream>,
    /// Whether `next` was called and has not returned, and whether a check of it is scheduled.
    pub(super) in_next: bool,
    pub(super) polling: bool,
    pub(super) finishing: bool,
    /// The delivery of the current training step, and the number of items before it.
    pub(super) delivered: Option<(Delivery, usize)>,
    /// The number of items received.
    pub(super) cursor: usize,
    /// The indexes of these, if they may come in any order, and those of the last delivery.
    pub(super) any_order: bool,
    pub(super) got: BTreeSet<usize>,
    pub(super) latest: Vec<usize>,
    /// The position where this process began, and the skipped samples that were reported to it.
    pub(super) began: Position,
    pub(super) told: Vec<SkippedName>,
    /// All skipped samples so far, also from before this process began.
    pub(super) left_out: Vec<SkippedSample>,
    pub(super) saved: Option<Saved>,
    /// Places and the number of their accepted chunks, for planted bugs.
    pub(super) taken: BTreeMap<(u64, u64), u64>,
    /// The boundary of the first chunk of each place, in row ops.
    pub(super) cut: BTreeMap<(u64, u64), u32>,
    /// Whether it once had everything, and whether the dispatcher received its last message.
    pub(super) complete: bool,
    pub(crate) heard_out: bool,
    pub(crate) done: bool,
}

impl ConsumerNode {
    pub(crate) fn ended(&mut self) {
        *self = Self {
            saved: self.saved.take(),
            job: self.job,
            cursor: self.cursor,
            began: std::mem::take(&mut self.began),
            complete: self.complete,
            heard_out: self.heard_out,
            done: self.done,
            ..Self::default()
        };
    }

    /// Returns the number of its items, or that at the end of its process.
    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    pub(crate) fn job_id(&self) -> Option<u64> {
        self.job
    }

    pub(crate) fn told(&self) -> Began<'_> {
        (&self.began, &self.told)
    }
}

/// Returns the name of a job, by its number.
pub(crate) fn job_name(job: usize) -> String {
    format!("job {job}")
}

/// Returns the number of a job, by its name.
pub(crate) fn job_number(name: &str) -> usize {
    name.rsplit(' ').next().and_then(|n| n.parse::<usize>().ok()).unwrap_or(0)
}

/// An accepted chunk: its index, its rows, and the number of row ops that have run on them.
pub(super) struct Taken(pub(super) u64, pub(super) Chunk, pub(super) u32);

/// A stream of chunks.
pub(super) struct Stream {
    pub(super) id: u64,
    pub(super) place: (u64, u64),
    /// Chunks that wait for room.
    pub(super) waiting: VecDeque<SentChunk>,
    /// A chunk that a thread is finishing.
    pub(super) finishing: Option<Taken>,
    /// The end of the stream, after these chunks.
    pub(super) end: Option<StreamEnd>,
    /// The boundary of its last chunk, in row ops.
    pub(super) cut: Option<u32>,
    /// The memory lent on it.
    pub(super) borrowing: Option<Borrowing>,
}

impl Stream {
    pub(super) fn arrived(&mut self, sent: SentChunk) {
        self.waiting.push_back(sent);
    }
}
