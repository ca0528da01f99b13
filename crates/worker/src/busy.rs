//! What the threads of a worker are at, which of them are held up, and which jobs may have one. Pure: the time is an argument.
//!
//! A thread is held up once it has brought nothing and used no processor for [`HELD_UP_AFTER`], or has brought nothing for
//! [`CANCELLED_AFTER`] to a job that was cancelled. A thread in a call of the system cannot be ended, so another one computes in its
//! place; when it comes back it is one of those that compute again. One that uses the processor is not replaced, however long it takes.
//! So that threads in place of others do not hang, too: a job that is held up comes after all others and counts the threads that it
//! has lost, and while any is held up a job that has brought nothing yet has one thread. Bounds: threads, of which each is at one piece.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::turns::{Line, When};

/// How long a thread may bring nothing and wait.
pub(crate) const HELD_UP_AFTER: Duration = Duration::from_secs(5);
/// How long a thread may bring nothing that nobody wants any more.
pub(crate) const CANCELLED_AFTER: Duration = Duration::from_secs(1);
/// A thread that uses as much of the processor within [`HELD_UP_AFTER`] computes.
const COMPUTES: Duration = Duration::from_millis(100);

/// Jobs that are known to bring something; beyond that it is found out anew.
const BRINGS_MAX: usize = 1024;

/// One piece of work that a thread is at.
pub(crate) type PieceId = u64;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    Computing,
    /// It waits for a reader, or before it asks a storage again.
    Aside,
    /// It hangs, and another computes in its place.
    HeldUp,
}

/// What is asked of a thread that is at a piece.
pub(crate) trait Asked: Send {
    /// Says whether nobody wants the piece any more.
    fn is_stale(&self) -> bool;

    /// Returns the processor time of the thread; `None` where nobody knows.
    fn used(&self) -> Option<Duration>;
}

struct At {
    line: Option<Line>,
    thread: Box<dyn Asked>,
    /// When it last brought something.
    since: Instant,
    /// When it last brought something or was seen to compute, and what it had used of the processor when it was first asked since.
    waits_since: Instant,
    used: Option<Duration>,
    is: Is,
}

impl At {
    fn job(&self) -> Option<u64> {
        self.line.map(|(job, _)| job)
    }

    /// Says whether it is held up now that it is looked at.
    fn look(&mut self, now: Instant) -> bool {
        let silent = now.saturating_duration_since(self.since);
        if self.is != Is::Computing || silent < CANCELLED_AFTER {
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
pub(crate) struct Busy {
    next: PieceId,
    at: BTreeMap<PieceId, At>,
    computing: usize,
    /// Jobs of which a thread has brought something since one was held up.
    brings: BTreeSet<u64>,
}

impl Busy {
    /// Returns how many threads compute.
    pub(crate) fn computing(&self) -> usize {
        self.computing
    }

    /// Returns how many threads are held up.
    pub(crate) fn held_up(&self) -> usize {
        self.at.values().filter(|at| at.is == Is::HeldUp).count()
    }

    /// Returns how many threads are at something and do not compute.
    pub(crate) fn away(&self) -> usize {
        self.at.len() - self.computing
    }

    /// Returns the jobs that have a thread which is held up.
    pub(crate) fn jobs_held_up(&self) -> BTreeSet<u64> {
        self.at.values().filter(|at| at.is == Is::HeldUp).filter_map(At::job).collect()
    }

    /// Returns a function that says when a line is served by one of so many threads.
    pub(crate) fn turn(&self, most: usize) -> impl Fn(Line) -> When + use<> {
        let mut threads: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
        for at in self.at.values().filter(|at| at.is != Is::Aside) {
            if let Some(job) = at.job() {
                let (all, held_up) = threads.entry(job).or_default();
                (*all, *held_up) = (*all + 1, *held_up + usize::from(at.is == Is::HeldUp));
            }
        }
        let (brings, computing) = (self.brings.clone(), self.computing);
        let some = threads.values().any(|(_, held_up)| *held_up > 0);
        move |(job, _)| match threads.get(&job).copied().unwrap_or_default() {
            (all, _) if some && all > 0 && !brings.contains(&job) => When::Never,
            (_, 0) => When::InTurn,
            (_, held_up) if computing + held_up < most => When::Last,
            _ => When::Never,
        }
    }

    /// A thread begins with a piece of a line; `None` helps another one.
    pub(crate) fn begin(&mut self, now: Instant, line: Option<Line>, thread: impl Asked + 'static) -> PieceId {
        self.next += 1;
        self.computing += 1;
        let thread = Box::new(thread);
        let at = At { line, thread, since: now, waits_since: now, used: None, is: Is::Computing };
        self.at.insert(self.next, at);
        self.next
    }

    /// A piece has ended.
    pub(crate) fn end(&mut self, id: PieceId) {
        let Some(at) = self.at.remove(&id) else { return };
        self.computing -= usize::from(at.is == Is::Computing);
        self.note_brings(at.job());
    }

    /// A piece has brought something: its thread computes.
    pub(crate) fn go_on(&mut self, now: Instant, id: PieceId) {
        if let Some(at) = self.at.get_mut(&id) {
            self.computing += usize::from(at.is != Is::Computing);
            (at.is, at.since, at.waits_since, at.used) = (Is::Computing, now, now, None);
            let job = at.job();
            self.note_brings(job);
        }
    }

    /// While no thread is held up nobody asks who brings anything.
    fn note_brings(&mut self, job: Option<u64>) {
        self.brings.extend(job);
        if self.held_up() == 0 || self.brings.len() > BRINGS_MAX {
            self.brings.clear();
        }
    }

    /// A thread waits, until [`Busy::go_on`].
    pub(crate) fn step_aside(&mut self, id: PieceId) {
        if let Some(at) = self.at.get_mut(&id) {
            self.computing -= usize::from(at.is == Is::Computing);
            at.is = Is::Aside;
        }
    }

    /// Looks for threads that are held up and were not before: others are to compute in their place. Returns for how long each of
    /// them has brought nothing.
    pub(crate) fn look(&mut self, now: Instant) -> Vec<Duration> {
        let before = self.held_up();
        let mut found = Vec::new();
        for at in self.at.values_mut() {
            if at.look(now) {
                at.is = Is::HeldUp;
                found.push((at.job(), now.saturating_duration_since(at.since)));
            }
        }
        self.computing -= found.len();
        if before == 0 && !found.is_empty() {
            // Who computed until now is trusted.
            self.brings = self.at.values().filter_map(At::job).collect();
        }
        let lost: BTreeSet<_> = found.iter().filter_map(|(job, _)| *job).collect();
        self.brings.retain(|job| !lost.contains(job));
        found.into_iter().map(|(_, silent)| silent).collect()
    }
}

#[cfg(test)]
mod tests;
