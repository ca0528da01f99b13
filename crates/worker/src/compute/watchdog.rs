//! Watches the threads of a worker: finds threads that hang ("are held up"), and the jobs that may get one. Pure: the
//! time is an argument.
//!
//! A thread is held up once it has made no progress and used no processor for [`HELD_UP_AFTER`], or has made no
//! progress for [`CANCELLED_AFTER`] on a task of a cancelled job. A thread in a system call cannot be ended, so another
//! computes in its place; when it comes back, it computes again. A thread that uses the processor is not replaced,
//! however long it takes.
//!
//! The replacements must not hang as well. So a job that is held up comes after all others, and its threads that hang
//! count against it; and while any thread is held up, a job that has not yet made progress gets one thread. Bounds: one
//! task for each thread.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::compute::fair_queue::{Eligibility, Flow};

/// How long a thread may wait without progress.
pub(crate) const HELD_UP_AFTER: Duration = Duration::from_secs(5);
/// How long a thread may make no progress on a task that is no longer needed.
pub(crate) const CANCELLED_AFTER: Duration = Duration::from_secs(1);
/// A thread that uses this much processor time within [`HELD_UP_AFTER`] computes.
const COMPUTES: Duration = Duration::from_millis(100);

/// Jobs that are remembered as making progress; beyond this number all are forgotten, and observed anew.
const PRODUCING_MAX: usize = 1024;

/// A task that a thread works on.
pub(crate) type TaskId = u64;

/// The state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThreadState {
    Computing,
    /// It waits for a consumer, or before it retries a storage.
    Aside,
    /// It hangs, and another computes in its place.
    HeldUp,
}

/// The watchdog's view of a thread that has a task.
pub(crate) trait WatchedThread: Send {
    /// Returns whether the task is no longer needed.
    fn is_stale(&self) -> bool;

    /// Returns the processor time of the thread; `None` if it is not known.
    fn used(&self) -> Option<Duration>;
}

struct Watched {
    flow: Option<Flow>,
    thread: Box<dyn WatchedThread>,
    /// When it last made progress.
    since: Instant,
    /// When it last made progress or was seen to compute, and the processor time that it had used at the first look
    /// after that.
    waits_since: Instant,
    used: Option<Duration>,
    state: ThreadState,
}

impl Watched {
    fn job(&self) -> Option<u64> {
        self.flow.map(|(job, _)| job)
    }

    /// Returns whether it is held up now.
    fn is_hung(&mut self, now: Instant) -> bool {
        let silent = now.saturating_duration_since(self.since);
        if self.state != ThreadState::Computing || silent < CANCELLED_AFTER {
            return false;
        }
        if let Some(used) = self.thread.used() {
            // A difference in either direction: the process that helps it may have been replaced by a new one.
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
    /// Jobs that have made progress since a thread was held up.
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

    /// Returns how many threads have a task and do not compute.
    pub(crate) fn away(&self) -> usize {
        self.threads.len() - self.computing
    }

    /// Returns the jobs that have a thread which is held up.
    pub(crate) fn jobs_held_up(&self) -> BTreeSet<u64> {
        self.threads.values().filter(|thread| thread.state == ThreadState::HeldUp).filter_map(Watched::job).collect()
    }

    /// Returns the jobs for which a thread computes.
    pub(crate) fn jobs_at_work(&self) -> BTreeSet<u64> {
        self.threads.values().filter(|thread| thread.state == ThreadState::Computing).filter_map(Watched::job).collect()
    }

    /// Returns a function that returns when a flow may be served, with this many threads.
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

    /// Begins a task of a flow on a thread; `None` when it helps another thread.
    pub(crate) fn begin(&mut self, now: Instant, flow: Option<Flow>, thread: impl WatchedThread + 'static) -> TaskId {
        self.next += 1;
        self.computing += 1;
        let thread = Box::new(thread);
        let thread = Watched { flow, thread, since: now, waits_since: now, used: None, state: ThreadState::Computing };
        self.threads.insert(self.next, thread);
        self.next
    }

    /// Ends a task.
    pub(crate) fn end(&mut self, id: TaskId) {
        let Some(thread) = self.threads.remove(&id) else { return };
        self.computing -= usize::from(thread.state == ThreadState::Computing);
        self.note_producing(thread.job());
    }

    /// Notes progress of a task: its thread computes.
    pub(crate) fn go_on(&mut self, now: Instant, id: TaskId) {
        if let Some(thread) = self.threads.get_mut(&id) {
            self.computing += usize::from(thread.state != ThreadState::Computing);
            (thread.state, thread.since, thread.waits_since, thread.used) = (ThreadState::Computing, now, now, None);
            let job = thread.job();
            self.note_producing(job);
        }
    }

    /// Not needed while no thread is held up, so the set is empty then.
    fn note_producing(&mut self, job: Option<u64>) {
        self.producing.extend(job);
        if self.held_up() == 0 || self.producing.len() > PRODUCING_MAX {
            self.producing.clear();
        }
    }

    /// Notes that a thread waits, until [`Watchdog::go_on`].
    pub(crate) fn step_aside(&mut self, id: TaskId) {
        if let Some(thread) = self.threads.get_mut(&id) {
            self.computing -= usize::from(thread.state == ThreadState::Computing);
            thread.state = ThreadState::Aside;
        }
    }

    /// Finds threads that have come to be held up since the last call, so that others can replace them. Returns for
    /// each how long it has made no progress.
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
            // Jobs that computed until now are assumed to make progress.
            self.producing = self.threads.values().filter_map(Watched::job).collect();
        }
        let lost: BTreeSet<_> = found.iter().filter_map(|(job, _)| *job).collect();
        self.producing.retain(|job| !lost.contains(job));
        found.into_iter().map(|(_, silent)| silent).collect()
    }
}

#[cfg(test)]
mod tests;
