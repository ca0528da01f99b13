//! A worker's process: its timers, its threads' work, the streams that it serves, and its leases.

use std::collections::{BTreeMap, VecDeque};

use forebay_proto::{ConsumerStream, Ticket, worker_event};
use forebay_worker::simulate::{ChunkStream, Computing, Preparing, Task, Worker};

pub(crate) enum WorkerTimer {
    Connect,
    Welcome(u64),
    Beat(u64),
    Prepared(Preparing, bool),
    /// A thread has computed a chunk; one at a time if they come in order.
    Computed(Computed),
    /// A ticket has waited long enough.
    Knock,
    /// A thread has waited long enough.
    Waited,
    Leave,
}

#[derive(Default)]
pub(crate) struct WorkerNode {
    pub(super) machine: Option<Worker>,
    pub(super) port: u32,
    pub(super) session: Option<u64>,
    /// The interval of its heartbeats, once it was welcomed.
    pub(super) every: Option<u64>,
    pub(super) entries: VecDeque<Entry>,
    /// Chunks that wait for the result of another thread.
    pub(super) parked: Vec<Parked>,
    /// Free threads; negative while threads that had waited go on.
    pub(super) free: isize,
    pub(super) serving: BTreeMap<u64, Serving>,
    /// The time since when it leaves, and the time until another process starts in its place.
    pub(super) leaving: Option<(u64, u64)>,
    /// The time until which it is slower, and the factor. It belongs to the machine: a process that starts in its place
    /// is as slow.
    pub(crate) slow: (u64, u64),
    /// By token: the leases that it was sent. The simulation's own account.
    pub(super) book: BTreeMap<u64, Place>,
}

/// (job, consumer, epoch, ordinal).
pub(super) type Place = (u64, u32, u64, u64);

pub(super) fn place(ticket: &Ticket) -> Place {
    (ticket.job, ticket.consumer, ticket.epoch, ticket.ordinal)
}

impl WorkerNode {
    pub(crate) fn ended(&mut self) {
        *self = Self { port: self.port, slow: self.slow, ..Self::default() };
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    pub(crate) fn port(&self) -> Option<u32> {
        self.machine.as_ref().map(|_| self.port)
    }

    /// Records an event in the account of its leases.
    pub(super) fn account(&mut self, event: &worker_event::Event) {
        match event {
            worker_event::Event::Lease(l) => {
                let place = (l.job, l.consumer, l.epoch, l.ordinal);
                self.book.retain(|_, held| *held != place);
                self.book.insert(l.token, place);
            }
            worker_event::Event::Revoke(revoke) => drop(self.book.remove(&revoke.token)),
            worker_event::Event::Consumed(c) => self
                .book
                .retain(|_, held| (held.0, held.1) != (c.job, c.consumer) || (held.2, held.3) >= (c.epoch, c.ordinal)),
            worker_event::Event::Forget(forget) => self.book.retain(|_, held| held.0 != forget.job),
            _ => {}
        }
    }
}

/// Splits `w3:17` into the worker and its port.
pub(crate) fn address(text: &str) -> Option<(usize, u32)> {
    let (worker, port) = text.strip_prefix('w')?.split_once(':')?;
    Some((worker.parse().ok()?, port.parse().ok()?))
}

/// An open stream.
pub(super) enum Serving {
    /// A ticket that waits for its lease, its time limit, and the stream on which memory may be lent.
    Knocking(Ticket, u64, Option<ConsumerStream>),
    /// A consumer: its ticket, the number of chunks that it may be sent, and the stream on which memory is lent.
    Open(ChunkStream, Ticket, u32, Option<ConsumerStream>),
}

/// A split that is being computed.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(super) task: Task,
    pub(super) chunks: usize,
    pub(super) next: usize,
    pub(super) streamed: bool,
}

/// A chunk that a thread has computed, or failed to.
pub(crate) struct Computed {
    pub(super) entry: Entry,
    pub(super) index: usize,
    /// The number of row ops that have run on it, from its lease when the thread began.
    pub(super) ops: u32,
    /// Its time, in ms.
    pub(super) time: u64,
    pub(super) failed: bool,
    /// The other jobs for which it is computed.
    pub(super) computing: Computing,
}

/// A chunk that a thread waits for, because another thread computes it; and the time limit.
pub(crate) struct Parked {
    pub(super) entry: Entry,
    pub(super) index: usize,
    pub(super) until: u64,
}
