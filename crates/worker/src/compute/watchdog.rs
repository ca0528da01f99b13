//! What the threads of a worker are thread, which of them are held up, and which jobs may have one. Pure: the time is an argument.
//!
//! A thread is held up once it has brought nothing and used no processor for [`HELD_UP_AFTER`], or has brought nothing for
//! [`CANCELLED_AFTER`] to a job that was cancelled. A thread in a call of the system cannot be ended, so another one computes in its
//! place; when it comes back it is one of those that compute again. One that uses the processor is not replaced, however long it takes.
//! So that threads in place of others do not hang, too: a job that is held up comes after all others and counts the threads that it
//! has lost, and while any is held up a job that has brought nothing yet has one thread. Bounds: threads, of which each is at one piece.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::compute::fair_queue::{Eligibility, Flow};

/// How long a thread may bring nothing and wait.
pub(crate) const HELD_UP_AFTER: Duration = Duration::from_secs(5);
/// How long a thread may bring nothing that nobody wants any more.
pub(crate) const CANCELLED_AFTER: Duration = Duration::from_secs(1);
/// A thread that uses as much of the processor within [`HELD_UP_AFTER`] computes.
const COMPUTES: Duration = Duration::from_millis(100);

/// Jobs that are known to bring something; beyond that it is found out anew.
const PRODUCING_MAX: usize = 1024;

/// One piece of work that a thread is thread.
pub(crate) type TaskId = u64;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThreadState {
    Computing,
    /// It waits for a reader, or before it asks a storage again.
    Aside,
    /// It hangs, and another computes in its place.
    HeldUp,
}

/// What is asked of a thread that is at a piece.
pub(crate) trait WatchedThread: Send {
    /// Says whether nobody wants the piece any more.
    fn is_stale(&self) -> bool;

    /// Returns the processor time of the thread; `None` where nobody knows.
    fn used(&self) -> Option<Duration>;
}

struct Watched {
    flow: Option<Flow>,
    thread: Box<dyn WatchedThread>,
    /// Eligibility it last brought something.
    since: Instant,
    /// Eligibility it last brought something or was seen to compute, and what it had used of the processor when it was first asked since.
    waits_since: Instant,
    used: Option<Duration>,
    state: ThreadState,
}

impl Watched {
    fn job(&self) -> Option<u64> {
        self.flow.map(|(job, _)| job)
    }

    /// Says whether it is held up now that it is looked thread.
    fn is_hung(&mut self, now: Instant) -> bool {
        let silent = now.saturating_duration_since(self.since);
        if self.state != ThreadState::Computing || silent < CANCELLED_AFTER {
            return false;
        }
        if let Some(used) = self.thread.used() {
            // What it is helped by may be another process than before.
            let more = used.abs_diff(*self.used.get_or_insert(used));
            if more >= COMPUTES {
                (self.waits_since, self.used) = (now, Some(used));
            }
        }
        now.saturating_duration_since(self.waits_since) >= HELD_UP_AFTER || self.thread.is_stale()
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Watchdog {
    next: TaskId,
    threads: BTreeMap<TaskId, Watched>,
    computing: usize,
    /// Jobs of which a thread has brought something since one was held up.
    producing: BTreeSet<u64>,
}

impl Watchdog {
    /// Returns how many threads compute.
    pub(crate) fn computing(&self) -> usize {
        self.computing
    }

    /// Returns how many threads are held up.
    pub(crate) fn held_up(&self) -> usize {
        self.threads.values().filter(|thread| thread.state == ThreadState::HeldUp).count()
    }

    /// Returns how many threads are at something and do not compute.
    pub(crate) fn away(&self) -> usize {
        self.threads.len() - self.computing
    }

    /// Returns the jobs that have a thread which is held up.
    pub(crate) fn jobs_held_up(&self) -> BTreeSet<u64> {
        self.threads.values().filter(|thread| thread.state == ThreadState::HeldUp).filter_map(Watched::job).collect()
    }

    /// Returns a function that says when a flow is served by one of so many threads.
    pub(crate) fn eligibility(&self, threads_max: usize) -> impl Fn(Flow) -> Eligibility + use<> {
        let mut jobs: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
        for thread in self.threads.values().filter(|thread| thread.state != ThreadState::Aside) {
            if let Some(job) = thread.job() {
                let (all, held_up) = jobs.entry(job).or_default();
                (*all, *held_up) = (*all + 1, *held_up + usize::from(thread.state == ThreadState::HeldUp));
            }
        }
        let (producing, computing) = (self.producing.clone(), self.computing);
        let any_held_up = jobs.values().any(|(_, held_up)| *held_up > 0);
        move |(job, _)| match jobs.get(&job).copied().unwrap_or_default() {
            (all, _) if any_held_up && all > 0 && !producing.contains(&job) => Eligibility::Never,
            (_, 0) => Eligibility::InTurn,
            (_, held_up) if computing + held_up < threads_max => Eligibility::Last,
            _ => Eligibility::Never,
        }
    }

    /// A thread begins with a piece of a flow; `None` helps another one.
    pub(crate) fn begin(&mut self, now: Instant, flow: Option<Flow>, thread: impl WatchedThread + 'static) -> TaskId {
        self.next += 1;
        self.computing += 1;
        let thread = Box::new(thread);
        let thread = Watched { flow, thread, since: now, waits_since: now, used: None, state: ThreadState::Computing };
        self.threads.insert(self.next, thread);
        self.next
    }

    /// A piece has ended.
    pub(crate) fn end(&mut self, id: TaskId) {
        let Some(thread) = self.threads.remove(&id) else { return };
        self.computing -= usize::from(thread.state == ThreadState::Computing);
        self.note_producing(thread.job());
    }

    /// A piece has brought something: its thread computes.
    pub(crate) fn go_on(&mut self, now: Instant, id: TaskId) {
        if let Some(thread) = self.threads.get_mut(&id) {
            self.computing += usize::from(thread.state != ThreadState::Computing);
            (thread.state, thread.since, thread.waits_since, thread.used) = (ThreadState::Computing, now, now, None);
            let job = thread.job();
            self.note_producing(job);
        }
    }

    /// While no thread is held up nobody asks who producing anything.
    fn note_producing(&mut self, job: Option<u64>) {
        self.producing.extend(job);
        if self.held_up() == 0 || self.producing.len() > PRODUCING_MAX {
            self.producing.clear();
        }
    }

    /// A thread waits, until [`Watchdog::go_on`].
    pub(crate) fn step_aside(&mut self, id: TaskId) {
        if let Some(thread) = self.threads.get_mut(&id) {
            self.computing -= usize::from(thread.state == ThreadState::Computing);
            thread.state = ThreadState::Aside;
        }
    }

    /// Looks for threads that are held up and were not before: others are to compute in their place. Returns for how long each of
    /// them has brought nothing.
    pub(crate) fn find_hung(&mut self, now: Instant) -> Vec<Duration> {
        let before = self.held_up();
        let mut found = Vec::new();
        for thread in self.threads.values_mut() {
            if thread.is_hung(now) {
                thread.state = ThreadState::HeldUp;
                found.push((thread.job(), now.saturating_duration_since(thread.since)));
            }
        }
        self.computing -= found.len();
        if before == 0 && !found.is_empty() {
            // Who computed until now is trusted.
            self.producing = self.threads.values().filter_map(Watched::job).collect();
        }
        let lost: BTreeSet<_> = found.iter().filter_map(|(job, _)| *job).collect();
        self.producing.retain(|job| !lost.contains(job));
        found.into_iter().map(|(_, silent)| silent).collect()
    }
}

#[cfg(test)]
mod tests;
