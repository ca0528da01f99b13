//! Threads that share the rows of a loop, so that the first batch is ready when all of them have worked on it.
//!
//! A thread that runs a morsel opens a loop over its rows; every thread of the crew, that one too, takes the next row of
//! the oldest open loop (by the morsel's place in the stream), runs it, and takes another. Which thread runs a row shows
//! in no bit of it.
//! Invariants: rows of a loop are begun in order, and after a failure no more are, so the error of a loop is that of its
//! first bad row; a loop's closure is never called after [`Crew::for_each_row`] has returned.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use forebay_core::{Error, ErrorKind, Result};

use crate::work::Scratch;

type Body<'a> = dyn Fn(usize, &mut Scratch) -> Result<()> + Sync + 'a;

/// The threads of one stream or one worker.
pub struct Crew {
    state: Mutex<State>,
    /// Told when the last row of a loop has ended.
    done: Condvar,
    /// Tells the threads that have nothing to do of a new loop.
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    loops: BTreeMap<Key, Loop>,
    opened: u64,
    stopped: bool,
}

/// Oldest first: the place in the stream, and among equal ones the order of opening.
type Key = (u64, u64);

struct Loop {
    body: &'static Body<'static>,
    rows: usize,
    next: usize,
    running: usize,
    error: Option<(usize, Error)>,
}

/// One row to run.
struct Claim {
    key: Key,
    body: &'static Body<'static>,
    row: usize,
}

impl Crew {
    /// Makes a crew; `wake` is called, without a lock held, whenever there is a loop that idle threads can join.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { state: Mutex::default(), done: Condvar::new(), wake: Box::new(wake) }
    }

    /// Says whether a row waits for a thread.
    pub fn has_work(&self) -> bool {
        self.lock().loops.values().any(Loop::has_next)
    }

    /// Runs rows of open loops as long as there are any.
    pub fn help(&self, scratch: &mut Scratch) {
        while self.run_next(scratch) {}
    }

    /// Begins no more rows: nobody wants what comes of them. Loops that are open, and any later one, end in an error.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        state.loops.values_mut().for_each(Loop::stop);
    }

    /// Runs `body` for rows `0..rows`, with whoever of the crew has time, and returns when all of them are done. `order`
    /// is the morsel's place in the stream.
    pub(crate) fn for_each_row(&self, order: u64, rows: usize, scratch: &mut Scratch, body: &Body<'_>) -> Result<()> {
        // SAFETY: only the lifetime changes. `Opened` removes the loop, and waits for the rows that run, before this
        // function returns or unwinds; nobody calls the closure of a loop that was removed.
        let body = unsafe { std::mem::transmute::<&Body<'_>, &'static Body<'static>>(body) };
        let opened = self.open(order, rows, body);
        (self.wake)();
        while !self.is_done(opened.key) {
            if !self.run_next(scratch) {
                break;
            }
        }
        opened.close()
    }

    fn open(&self, order: u64, rows: usize, body: &'static Body<'static>) -> Opened<'_> {
        let mut state = self.lock();
        state.opened += 1;
        let key = (order, state.opened);
        let mut open = Loop { body, rows, next: 0, running: 0, error: None };
        if state.stopped {
            open.stop();
        }
        state.loops.insert(key, open);
        Opened { crew: self, key }
    }

    /// Runs one row of the oldest loop that has one left; false when none has.
    fn run_next(&self, scratch: &mut Scratch) -> bool {
        let Some(Claim { key, body, row }) = self.claim() else { return false };
        let ran = catch_unwind(AssertUnwindSafe(|| body(row, scratch))).unwrap_or_else(|panic| {
            // What a panic left behind is not used again.
            scratch.reset();
            Err(crate::panicked(&*panic))
        });
        let mut state = self.lock();
        if let Some(running) = state.loops.get_mut(&key) {
            running.end(row, ran);
            if running.is_done() {
                self.done.notify_all();
            }
        }
        true
    }

    fn claim(&self) -> Option<Claim> {
        let mut state = self.lock();
        let (&key, open) = state.loops.iter_mut().find(|(_, l)| l.has_next())?;
        let row = open.next;
        open.next += 1;
        open.running += 1;
        Some(Claim { key, body: open.body, row })
    }

    fn is_done(&self, key: Key) -> bool {
        self.lock().loops.get(&key).is_none_or(Loop::is_done)
    }

    /// The state is consistent between statements: no closure runs while it is locked.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loop {
    fn has_next(&self) -> bool {
        self.next < self.rows
    }

    fn is_done(&self) -> bool {
        !self.has_next() && self.running == 0
    }

    fn stop(&mut self) {
        if self.has_next() {
            self.next = self.rows;
            let stopped = Error::new(ErrorKind::Closed, "the iterator was closed");
            self.error.get_or_insert((usize::MAX, stopped));
        }
    }

    fn end(&mut self, row: usize, ran: Result<()>) {
        self.running -= 1;
        if let Err(error) = ran {
            self.next = self.rows;
            if self.error.as_ref().is_none_or(|(first, _)| row < *first) {
                self.error = Some((row, error));
            }
        }
    }
}

/// A loop that is open until this is dropped.
struct Opened<'a> {
    crew: &'a Crew,
    key: Key,
}

impl Opened<'_> {
    fn close(self) -> Result<()> {
        let ended = self.end();
        std::mem::forget(self);
        ended.and_then(|l| l.error).map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Begins no more rows, waits for those that run, and takes the loop out.
    fn end(&self) -> Option<Loop> {
        let mut state = self.crew.lock();
        loop {
            let open = state.loops.get_mut(&self.key)?;
            open.next = open.rows;
            if open.running == 0 {
                return state.loops.remove(&self.key);
            }
            state = self.crew.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// A thread's part in a crew while it runs a morsel.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) crew: Arc<Crew>,
    pub(crate) order: u64,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    fn crew() -> Crew {
        Crew::new(|| {})
    }

    #[test]
    fn every_row_runs_once_whoever_helps() {
        let crew = crew();
        let done = std::sync::atomic::AtomicBool::new(false);
        let counts: Vec<_> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.load(SeqCst) {
                        crew.help(&mut Scratch::default());
                        std::thread::yield_now();
                    }
                });
            }
            for _ in 0..20 {
                let count = |row: usize, _: &mut Scratch| {
                    counts[row].fetch_add(1, SeqCst);
                    Ok(())
                };
                crew.for_each_row(0, counts.len(), &mut Scratch::default(), &count).expect("no row fails");
            }
            done.store(true, SeqCst);
        });
        assert!(counts.iter().all(|c| c.load(SeqCst) == 20));
        assert!(!crew.has_work());
    }

    #[test]
    fn the_first_bad_row_is_told_and_a_panic_is_an_error() {
        let crew = crew();
        for _ in 0..50 {
            let barrier = std::sync::Barrier::new(2);
            let body = |row: usize, _: &mut Scratch| match row {
                3 | 4 => {
                    // Both are being run, and the later one fails first.
                    barrier.wait();
                    if row == 3 {
                        std::thread::yield_now();
                    }
                    Err(Error::data(format!("row {row}")))
                }
                5.. => Err(Error::internal("was begun after a failure")),
                _ => Ok(()),
            };
            std::thread::scope(|scope| {
                let helper = scope.spawn(|| {
                    while !crew.has_work() {
                        std::thread::yield_now();
                    }
                    crew.help(&mut Scratch::default());
                });
                let error = crew.for_each_row(0, 100, &mut Scratch::default(), &body).expect_err("fails");
                assert_eq!(error.message(), "row 3");
                helper.join().expect("no panic");
            });
        }
        let error = crew.for_each_row(0, 2, &mut Scratch::default(), &|_, _| panic!("boom")).expect_err("fails");
        assert!(error.message().contains("boom"), "{error}");
    }

    #[test]
    fn after_a_stop_no_row_is_begun() {
        let crew = crew();
        let ran = AtomicUsize::new(0);
        let body = |row: usize, _: &mut Scratch| {
            ran.fetch_add(1, SeqCst);
            if row == 2 {
                crew.stop();
            }
            Ok(())
        };
        for _ in 0..2 {
            let error = crew.for_each_row(0, 100, &mut Scratch::default(), &body).expect_err("stopped");
            assert_eq!((error.kind(), ran.load(SeqCst)), (ErrorKind::Closed, 3));
        }
    }

    #[test]
    fn the_oldest_loop_comes_first() {
        let crew = crew();
        let ran = Mutex::new(Vec::new());
        let old = |row: usize, _: &mut Scratch| {
            ran.lock().expect("no panic").push(("old", row));
            Ok(())
        };
        let new = |row: usize, scratch: &mut Scratch| {
            if row == 0 {
                crew.for_each_row(1, 2, scratch, &old)?;
            }
            ran.lock().expect("no panic").push(("new", row));
            Ok(())
        };
        crew.for_each_row(2, 2, &mut Scratch::default(), &new).expect("no row fails");
        let ran = ran.into_inner().expect("no panic");
        assert_eq!(ran[..2], [("old", 0), ("old", 1)]);
        assert_eq!(ran.len(), 4);
    }
}
