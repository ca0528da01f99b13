//! Supervises a consumer's local worker: starts it when it is wanted, sets its number of threads, restarts it.
//!
//! It runs in one thread, which for the kernel is also the child's parent: a child ends with the thread that started
//! it. The thread examines the machine, and the consumer's heartbeats report the spare capacity. If the user does not
//! set the number of threads, the dispatcher's answers do, but never above the number of cores that are idle *now*.
//! Bounds: one child; a child that ends is restarted after 1 s, then 2, up to 60.

#![expect(clippy::disallowed_methods, reason = "a thread starts the worker and looks at it now and then")]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_client::{LocalWorkerSlot, Spare};
use forebay_core::{Clock, Error, Result, SystemClock};
use forebay_policy::scaling::forebay::left;

use super::files::{Files, System};
use super::machine::Machine;
use super::obey;
use super::recipe::LocalRecipe;
use crate::children::child::Child;

/// How often the child is checked, and the machine.
const LOOK: Duration = Duration::from_millis(50);
const LOOK_MACHINE: Duration = Duration::from_millis(500);
/// How long a child may take to listen, beside a trainer that uses every core.
const START_MAX: Duration = Duration::from_secs(120);
/// A child without threads is ended after this time.
const REST_MAX: Duration = Duration::from_secs(60);
/// The pause before a restart doubles from the first to the last of these, until a child lives that long.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LAST: Duration = Duration::from_secs(60);
/// How long it may take to end before it is killed.
const END_MAX: Duration = Duration::from_secs(3);

/// How many threads a local worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalThreads {
    /// A fixed number.
    Fixed(usize),
    /// As many of the idle cores as help.
    Auto,
}

/// A consumer's local worker. Dropping it ends the process, and waits for nothing.
pub struct LocalWorker {
    stop: Arc<AtomicBool>,
    news: News,
}

/// The error for the user, once.
type News = Arc<Mutex<Option<Error>>>;

impl LocalWorker {
    /// Begins to supervise a local worker. Returns at once.
    ///
    /// # Errors
    /// Exhausted when no thread can be started.
    pub fn start(recipe: LocalRecipe, threads: LocalThreads, slot: Arc<LocalWorkerSlot>) -> Result<Self> {
        Self::start_on(System, recipe, threads, slot)
    }

    fn start_on(
        files: impl Files + Send + 'static,
        recipe: LocalRecipe,
        threads: LocalThreads,
        slot: Arc<LocalWorkerSlot>,
    ) -> Result<Self> {
        let (stop, news) = (Arc::new(AtomicBool::new(false)), News::default());
        let keeper = Keeper {
            recipe,
            threads,
            slot,
            child: None,
            said: 0,
            rests: None,
            pause: PAUSE_FIRST,
            not_before: Instant::now(),
            told: false,
            news: news.clone(),
        };
        std::thread::Builder::new().name("forebay-local".to_owned()).spawn({
            let stop = stop.clone();
            move || keeper.run(&stop, Machine::new(files))
        })?;
        Ok(Self { stop, news })
    }

    /// Returns why no local worker computes, the first time only. Reading goes on without one.
    pub fn news(&self) -> Option<Error> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for LocalWorker {
    fn drop(&mut self) {
        // A forked process has no such thread: the child is the parent's.
        self.stop.store(true, Relaxed);
    }
}

/// A child, its start, and whether it listens.
struct Kept {
    child: Child,
    since: Instant,
    listens: bool,
}

struct Keeper {
    recipe: LocalRecipe,
    threads: LocalThreads,
    slot: Arc<LocalWorkerSlot>,
    child: Option<Kept>,
    /// The number of threads that was sent to the child, and since when it is zero.
    said: usize,
    rests: Option<Instant>,
    pause: Duration,
    not_before: Instant,
    told: bool,
    news: News,
}

impl Keeper {
    fn run(mut self, stop: &AtomicBool, mut machine: Machine<impl Files>) {
        let clock = SystemClock::default();
        let asks = self.threads == LocalThreads::Auto;
        let mut spare: Option<Spare> = None;
        let mut look_at = Some(Instant::now());
        while !stop.load(Relaxed) {
            let now = Instant::now();
            if look_at.is_some_and(|at| now >= at) {
                look_at = Some(now + LOOK_MACHINE);
                let pid = self.child.as_ref().map(|kept| kept.child.pid());
                match machine.look(clock.now(), pid, self.said as u32, asks) {
                    Ok(seen) => spare = seen,
                    Err(error) if asks => {
                        self.tell(error);
                        break;
                    }
                    // A number that the user set does not depend on the machine.
                    Err(_) => (spare, look_at) = (None, None),
                }
                self.slot.set_spare(spare);
            }
            self.step(now, self.wanted(spare.as_ref()));
            std::thread::sleep(LOOK);
        }
        self.slot.set_spare(None);
        self.end();
    }

    fn wanted(&self, spare: Option<&Spare>) -> usize {
        match self.threads {
            LocalThreads::Fixed(threads) => threads,
            LocalThreads::Auto => spare.map_or(0, |s| may_have(self.slot.wanted_threads(), s)) as usize,
        }
    }

    fn step(&mut self, now: Instant, wanted: usize) {
        if let Some(error) = self.child.as_mut().and_then(|kept| kept.failed(now)) {
            return self.failed(now, error);
        }
        let Some(kept) = &mut self.child else {
            if wanted > 0 && now >= self.not_before {
                self.begin(now);
            }
            return;
        };
        if !kept.listens {
            match kept.child.listens() {
                Ok(Some(address)) => {
                    kept.listens = true;
                    // Before it gets any split.
                    self.slot.set_address(Some(address));
                }
                Ok(None) => return,
                Err(error) => return self.failed(now, error),
            }
        }
        if wanted != self.said {
            kept.child.say(&obey::line(wanted));
            self.said = wanted;
        }
        if now - kept.since >= PAUSE_LAST {
            self.pause = PAUSE_FIRST;
        }
        self.rests = if wanted == 0 { self.rests.or(Some(now)) } else { None };
        if self.rests.is_some_and(|since| now - since >= REST_MAX) {
            self.end();
        }
    }

    fn begin(&mut self, now: Instant) {
        match self.recipe.start() {
            Ok(child) => {
                self.child = Some(Kept { child, since: now, listens: false });
                (self.said, self.rests) = (0, None);
            }
            Err(error) => self.failed(now, error),
        }
    }

    /// The child ended, or did not start: schedules another one after a pause.
    fn failed(&mut self, now: Instant, error: Error) {
        self.tell(error);
        self.not_before = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_LAST);
        self.slot.set_address(None);
        if let Some(mut kept) = self.child.take() {
            kept.child.kill();
        }
    }

    /// Reports an error to the user, once.
    fn tell(&mut self, error: Error) {
        tracing::warn!(error = error.message(), "no local worker computes now");
        if !std::mem::replace(&mut self.told, true) {
            *self.news.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    fn end(&mut self) {
        (self.said, self.rests) = (0, None);
        self.slot.set_address(None);
        if let Some(mut kept) = self.child.take() {
            kept.child.release();
            kept.child.wait(Instant::now() + END_MAX);
        }
    }
}

/// Returns how many of the wanted threads the machine has cores for.
fn may_have(wanted: u32, spare: &Spare) -> u32 {
    left(wanted, f64::from(spare.millicores) / 1000.0, f64::from(spare.pressure) / 1000.0)
}

impl Kept {
    /// Returns the error of a child that has ended, or did not listen in time.
    fn failed(&mut self, now: Instant) -> Option<Error> {
        if let Some(status) = self.child.ended() {
            return Some(self.child.unavailable(&format!("ended ({status}); others compute its splits again")));
        }
        let late = !self.listens && now - self.since >= START_MAX;
        late.then(|| self.child.unavailable("did not listen in time"))
    }
}

#[cfg(test)]
mod tests;
