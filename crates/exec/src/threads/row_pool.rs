//! Threads that share the rows of a morsel, so that all of them work on the first batch.
//!
//! A thread that runs a morsel opens its rows as [`ParallelRows`]. Every thread of the pool, including that thread,
//! takes the next row of the oldest open set (by the morsel's place in the stream), runs it, and takes another. The
//! bits of a row do not depend on the thread. A thread with a set of its own takes only rows of the same stream, and
//! before each of them other jobs may have their turn (see `preemption`); no thread takes rows of its set meanwhile.
//!
//! Invariants: rows of a set start in order, and none starts after a failure, so the error of a set is the error of its
//! first bad row. The pool never calls the closure of a set after [`RowPool::for_each_row`] has returned.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use forebay_core::{Error, ErrorKind, Result};

use crate::ops::scratch::Scratch;
use crate::panic::panicked;
use crate::threads::preemption::between_rows;

type Body<'a> = dyn Fn(usize, &mut Scratch) -> Result<()> + Sync + 'a;

/// The threads of one stream or one worker.
pub struct RowPool {
    state: Mutex<State>,
    /// Notified when the last row of a set has ended.
    done: Condvar,
    /// Wakes idle threads when a set is opened.
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    open: BTreeMap<Key, ParallelRows>,
    /// The number of sets opened so far.
    opened: u64,
    stopped: bool,
}

/// Sorts the oldest first: by the place in the stream, then by the order of opening.
type Key = (u64, u64);

/// The rows of one morsel that the threads share.
struct ParallelRows {
    body: &'static Body<'static>,
    stream: u64,
    opener: ThreadId,
    /// Its thread waits for its turn.
    is_held: bool,
    rows: usize,
    next: usize,
    running: usize,
    error: Option<(usize, Error)>,
}

/// One row that a thread runs.
struct Claim {
    key: Key,
    body: &'static Body<'static>,
    row: usize,
}

impl RowPool {
    /// Makes a pool. It calls `wake`, without a lock held, whenever it opens a set that idle threads can help with.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { state: Mutex::default(), done: Condvar::new(), wake: Box::new(wake) }
    }

    /// Says whether an open set has a row that no thread has started.
    pub fn has_work(&self) -> bool {
        self.lock().open.values().any(ParallelRows::is_free)
    }

    /// Runs rows of open sets until none is left.
    pub fn run_shared(&self, scratch: &mut Scratch) {
        self.run_shared_while(scratch, &|| true);
    }

    /// As [`RowPool::run_shared`], but starts a row only while `go_on` holds.
    pub fn run_shared_while(&self, scratch: &mut Scratch, go_on: &dyn Fn() -> bool) {
        while go_on() && self.run_next(None, scratch) {}
    }

    /// Starts no more rows. Open sets, and all later ones, end in an error.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        state.open.values_mut().for_each(ParallelRows::stop);
    }

    /// Keeps the rows of this thread's sets from all threads, until [`RowPool::let_go`].
    pub fn hold(&self) {
        self.set_held(true);
    }

    /// Ends [`RowPool::hold`].
    pub fn let_go(&self) {
        self.set_held(false);
    }

    fn set_held(&self, is_held: bool) {
        let own = thread::current().id();
        let mut state = self.lock();
        state.open.values_mut().filter(|open| open.opener == own).for_each(|open| open.is_held = is_held);
    }

    /// Runs `body` for rows `0..rows` with all idle threads of the pool, and returns when all rows are done. `order` is
    /// the morsel's place in the stream.
    fn for_each_row(
        &self,
        (stream, order): (u64, u64),
        rows: usize,
        scratch: &mut Scratch,
        body: &Body<'_>,
    ) -> Result<()> {
        // SAFETY: only the lifetime changes. `OpenRows` removes the set, and waits for the rows that run, before this
        // function returns or unwinds; no thread calls the closure of a set that was removed.
        let body = unsafe { std::mem::transmute::<&Body<'_>, &'static Body<'static>>(body) };
        let opened = self.open((stream, order), rows, body);
        (self.wake)();
        while !self.is_done(opened.key) {
            between_rows();
            if !self.run_next(Some(stream), scratch) {
                break;
            }
        }
        opened.close()
    }

    fn open(&self, (stream, order): (u64, u64), rows: usize, body: &'static Body<'static>) -> OpenRows<'_> {
        let mut state = self.lock();
        state.opened += 1;
        let key = (order, state.opened);
        let opener = thread::current().id();
        let mut open = ParallelRows { body, stream, opener, is_held: false, rows, next: 0, running: 0, error: None };
        if state.stopped {
            open.stop();
        }
        state.open.insert(key, open);
        OpenRows { pool: self, key }
    }

    /// Runs one row of the oldest set (of a stream) that has one left; returns false when none has.
    fn run_next(&self, stream: Option<u64>, scratch: &mut Scratch) -> bool {
        let Some(Claim { key, body, row }) = self.claim(stream) else { return false };
        let ran = catch_unwind(AssertUnwindSafe(|| body(row, scratch))).unwrap_or_else(|panic| {
            // A panic may have left the scratch inconsistent.
            scratch.reset();
            Err(panicked(&*panic))
        });
        let mut state = self.lock();
        if let Some(running) = state.open.get_mut(&key) {
            running.end(row, ran);
            if running.is_done() {
                self.done.notify_all();
            }
        }
        true
    }

    fn claim(&self, stream: Option<u64>) -> Option<Claim> {
        let mut state = self.lock();
        let is_of = |open: &ParallelRows| stream.is_none_or(|stream| open.stream == stream);
        let (&key, open) = state.open.iter_mut().find(|(_, open)| open.is_free() && is_of(open))?;
        let row = open.next;
        open.next += 1;
        open.running += 1;
        Some(Claim { key, body: open.body, row })
    }

    fn is_done(&self, key: Key) -> bool {
        self.lock().open.get(&key).is_none_or(ParallelRows::is_done)
    }

    /// The state is consistent between statements: no closure runs while it is locked.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ParallelRows {
    fn has_next(&self) -> bool {
        self.next < self.rows
    }

    /// Says whether a thread may start a row.
    fn is_free(&self) -> bool {
        self.has_next() && !self.is_held
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

/// Keeps a set open until it is dropped.
struct OpenRows<'a> {
    pool: &'a RowPool,
    key: Key,
}

impl OpenRows<'_> {
    fn close(self) -> Result<()> {
        let ended = self.end();
        std::mem::forget(self);
        ended.and_then(|l| l.error).map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Starts no more rows, waits for the running rows, and removes the set.
    fn end(&self) -> Option<ParallelRows> {
        let mut state = self.pool.lock();
        loop {
            let open = state.open.get_mut(&self.key)?;
            open.next = open.rows;
            if open.running == 0 {
                return state.open.remove(&self.key);
            }
            state = self.pool.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for OpenRows<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// The pool of a thread, and the stream and place in it of the morsel that the thread runs.
#[derive(Clone)]
pub(crate) struct PoolHandle {
    pub(crate) pool: Arc<RowPool>,
    pub(crate) stream: u64,
    pub(crate) order: u64,
}

impl PoolHandle {
    /// Runs `body` for rows `0..rows` with the pool, and returns when all rows are done.
    pub(crate) fn for_each_row(&self, rows: usize, scratch: &mut Scratch, body: &Body<'_>) -> Result<()> {
        self.pool.for_each_row((self.stream, self.order), rows, scratch, body)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    fn pool() -> RowPool {
        RowPool::new(|| {})
    }

    #[test]
    fn every_row_runs_once_whichever_thread_runs_it() {
        let pool = pool();
        let done = std::sync::atomic::AtomicBool::new(false);
        let counts: Vec<_> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.load(SeqCst) {
                        pool.run_shared(&mut Scratch::default());
                        std::thread::yield_now();
                    }
                });
            }
            for _ in 0..20 {
                let count = |row: usize, _: &mut Scratch| {
                    counts[row].fetch_add(1, SeqCst);
                    Ok(())
                };
                pool.for_each_row((0, 0), counts.len(), &mut Scratch::default(), &count).expect("no row fails");
            }
            done.store(true, SeqCst);
        });
        assert!(counts.iter().all(|c| c.load(SeqCst) == 20));
        assert!(!pool.has_work());
    }

    #[test]
    fn the_first_bad_row_is_reported_and_a_panic_is_an_error() {
        let pool = pool();
        for _ in 0..50 {
            let barrier = std::sync::Barrier::new(2);
            let body = |row: usize, _: &mut Scratch| match row {
                3 | 4 => {
                    // Both are running, and the later one fails first.
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
                    while !pool.has_work() {
                        std::thread::yield_now();
                    }
                    pool.run_shared(&mut Scratch::default());
                });
                let error = pool.for_each_row((0, 0), 100, &mut Scratch::default(), &body).expect_err("fails");
                assert_eq!(error.message(), "row 3");
                helper.join().expect("no panic");
            });
        }
        let error = pool.for_each_row((0, 0), 2, &mut Scratch::default(), &|_, _| panic!("boom")).expect_err("fails");
        assert!(error.message().contains("boom"), "{error}");
    }

    #[test]
    fn after_a_stop_no_row_is_begun() {
        let pool = pool();
        let ran = AtomicUsize::new(0);
        let body = |row: usize, _: &mut Scratch| {
            ran.fetch_add(1, SeqCst);
            if row == 2 {
                pool.stop();
            }
            Ok(())
        };
        for _ in 0..2 {
            let error = pool.for_each_row((0, 0), 100, &mut Scratch::default(), &body).expect_err("stopped");
            assert_eq!((error.kind(), ran.load(SeqCst)), (ErrorKind::Closed, 3));
        }
    }

    #[test]
    fn the_oldest_morsel_comes_first() {
        let pool = pool();
        let ran = Mutex::new(Vec::new());
        let old = |row: usize, _: &mut Scratch| {
            ran.lock().expect("no panic").push(("old", row));
            Ok(())
        };
        let new = |row: usize, scratch: &mut Scratch| {
            if row == 0 {
                pool.for_each_row((0, 1), 2, scratch, &old)?;
            }
            ran.lock().expect("no panic").push(("new", row));
            Ok(())
        };
        pool.for_each_row((0, 2), 2, &mut Scratch::default(), &new).expect("no row fails");
        let ran = ran.into_inner().expect("no panic");
        assert_eq!(ran[..2], [("old", 0), ("old", 1)]);
        assert_eq!(ran.len(), 4);
    }

    #[test]
    fn no_thread_takes_rows_of_another_stream_or_of_a_set_whose_thread_waits() {
        let pool = pool();
        let ran = Mutex::new(Vec::new());
        let take = || ran.lock().expect("no panic");
        let other = |row: usize, _: &mut Scratch| {
            take().push(("other", row));
            Ok(())
        };
        let own = |row: usize, scratch: &mut Scratch| {
            take().push(("own", row));
            if row == 0 {
                // As while the thread of `own` waits for its turn: another thread comes by, and another job runs.
                pool.hold();
                assert!(!pool.has_work());
                pool.run_shared(scratch);
                std::thread::scope(|scope| {
                    let other_job = || pool.for_each_row((7, 2), 2, &mut Scratch::default(), &other);
                    scope.spawn(other_job).join().expect("no panic").expect("no row fails");
                });
                assert_eq!(*take(), [("own", 0), ("other", 0), ("other", 1)]);
                pool.let_go();
                // The rows of `own` are older, and not of this stream.
                pool.for_each_row((7, 2), 2, scratch, &other)?;
                assert_eq!(take().len(), 5);
            }
            Ok(())
        };
        pool.for_each_row((1, 1), 3, &mut Scratch::default(), &own).expect("no row fails");
        assert_eq!(take()[5..], [("own", 1), ("own", 2)]);
    }
}
