//! The iterator under every Python iterator: it waits without the GIL, ends at once on Ctrl-C, and has a position.

mod iteration;
mod trace;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, Once, Weak};
use std::time::{Duration, Instant};

use arrow_buffer::Buffer;
use forebay_core::{ConsumerIndex, Error, ErrorKind, Fault};
use forebay_data::{Chunk, DType};
use forebay_exec::table::sorted_rows;
use forebay_exec::{Position, SavedSkip, SavedState, SkippedSample, Span};
use forebay_plan::EpochPlan;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::convert::arrays::Columns;
use crate::convert::memory::Memory;
use crate::convert::numpy::NumPy;
use crate::errors::{detached, interruptible, raise};
use crate::functions::runner::Runner;
use crate::functions::{closed, lock};
use crate::saving::SavedWriter;

pub(crate) use iteration::Iteration;
use trace::StreamTrace;

/// How long `close` waits for threads that are in a user's code.
const CLOSE_WAIT: Duration = Duration::from_secs(2);
/// How long it waits if the user waits for an error, or for the end of the program.
const LEAVE_WAIT: Duration = Duration::from_millis(200);

/// A skipped sample, for Python: epoch, split, number and repetition of the sample, the exception, the record.
type LostRow<'py> = (u64, u64, u64, u64, Bound<'py, PyAny>, Option<Bound<'py, PyBytes>>);

struct Inner {
    iteration: Mutex<Option<Iteration>>,
    /// The begin and the end of the last delivery.
    at: Mutex<Span>,
    /// Skipped samples that were not requested yet.
    losses: Mutex<Vec<SkippedSample>>,
    /// Skipped samples that might not fail again: a resumed run must still leave them out.
    uncertain: Mutex<Vec<SavedSkip>>,
    closing: AtomicBool,
    /// The last figures of the iteration, once that is gone.
    last: Mutex<Option<String>>,
    /// Threads do not survive a fork: a child must not touch any of this, nor wait for it.
    process: u32,
    /// A second `close` waits for the first, and then leaves the interpreter alone: it may be ending.
    end: Once,
    runner: Runner,
    trace: StreamTrace,
}

/// Iterators that may have threads when the interpreter ends.
static LIVE: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// One stream of deliveries.
#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct NativeIterator {
    inner: Arc<Inner>,
    plan: Arc<EpochPlan>,
    consumer: ConsumerIndex,
}

impl NativeIterator {
    pub(crate) fn new(
        iteration: Iteration,
        from: Position,
        plan: Arc<EpochPlan>,
        consumer: ConsumerIndex,
        uncertain: Vec<SavedSkip>,
        runner: Runner,
    ) -> Self {
        let trace = StreamTrace::of(iteration.stream());
        let inner = Arc::new(Inner {
            iteration: Mutex::new(Some(iteration)),
            at: Mutex::new(Span::at(from)),
            losses: Mutex::default(),
            uncertain: Mutex::new(uncertain),
            closing: AtomicBool::new(false),
            last: Mutex::default(),
            process: std::process::id(),
            end: Once::new(),
            runner,
            trace,
        });
        let mut live = lock(&LIVE);
        live.retain(|i| i.strong_count() > 0);
        live.push(Arc::downgrade(&inner));
        Self { inner, plan, consumer }
    }
}

#[pymethods]
impl NativeIterator {
    /// Returns the next batch as a dictionary, or a list of single samples; `None` at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((batched, chunk)) = self.deliver(py)? else { return Ok(None) };
        if batched {
            return Ok(Some(Columns::of(py, chunk)?.dict(py)?.into_any()));
        }
        let columns = Columns::by_row(py, chunk)?;
        let rows: Vec<Bound<'py, PyDict>> = (0..columns.rows()).map(|i| columns.row(py, i)).collect::<PyResult<_>>()?;
        Ok(Some(PyList::new(py, rows)?.into_any()))
    }

    /// Writes the next rows instead of returning them. Returns whether there were any, and, if the file is full, how
    /// many rows of the last delivery are in it: the next call writes the rest first.
    fn write(&self, py: Python<'_>, writer: &SavedWriter) -> PyResult<(bool, Option<u64>)> {
        if let Some(used) = writer.go_on(py)? {
            return Ok((true, Some(used)));
        }
        match self.deliver(py)? {
            Some((_, chunk)) => Ok((true, writer.push(py, &chunk)?)),
            None => Ok((false, None)),
        }
    }

    /// Reads all batches, and returns the places of their rows in the order of a column, as unsigned 64-bit numbers.
    fn sorted_rows<'py>(&self, py: Python<'py>, column: &str, descending: bool) -> PyResult<Bound<'py, PyAny>> {
        let mut chunks = Vec::new();
        while let Some((_, chunk)) = self.deliver(py)? {
            chunks.push(chunk);
        }
        let rows = detached(py, || {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            match chunks.as_slice() {
                [] => Ok(Vec::new()),
                chunks => sorted_rows(&Chunk::concat(chunks)?, column, descending, threads),
            }
        })?;
        let count = rows.len();
        let memory = Bound::new(py, Memory::of(Buffer::from_vec(rows)))?;
        NumPy::get(py)?.view(py, memory.as_any(), DType::Uint64, &[count])
    }

    /// Returns the samples that were skipped since the last call, in the order of the stream.
    fn losses<'py>(&self, py: Python<'py>) -> Vec<LostRow<'py>> {
        let lost = std::mem::take(&mut *lock(&self.inner.losses));
        let row = |lost: SkippedSample| {
            let exception = raise(py, &lost.loss.error).into_value(py).into_bound(py).into_any();
            let record = lost.loss.record.map(|record| PyBytes::new(py, &record));
            (lost.epoch.0, lost.split, lost.loss.row.sample.0, lost.loss.row.epoch.0, exception, record)
        };
        lost.into_iter().map(row).collect()
    }

    /// Returns the state once `rows` samples of the last delivery have been used (`None`: all), with the properties
    /// that it depends on, as JSON.
    #[pyo3(signature = (rows=None))]
    fn saved(&self, rows: Option<u64>) -> String {
        let at = lock(&self.inner.at).after(rows.unwrap_or(u64::MAX));
        let left_out = lock(&self.inner.uncertain).clone();
        serde_json::to_string(&SavedState::new(&self.plan, self.consumer, at, left_out)).unwrap_or_default()
    }

    /// Returns the costs of the pipeline's ops in this process, and the cache's figures with reasons, as JSON.
    fn stats(&self, py: Python<'_>) -> Option<String> {
        // Without the GIL: the thread that holds the iteration may be waiting for it.
        py.detach(|| {
            let iteration = lock(&self.inner.iteration);
            iteration.as_ref().map(Iteration::stats).or_else(|| lock(&self.inner.last).clone())
        })
    }

    /// Returns the number of the stream in traces, and when the last delivery was requested, by the clock of spans.
    #[getter]
    fn traced(&self) -> (u64, u64) {
        (self.inner.trace.stream, self.inner.trace.asked())
    }

    /// Returns the epoch of the last delivery.
    #[getter]
    fn epoch(&self) -> u64 {
        lock(&self.inner.at).epoch()
    }

    /// Stops the threads (and processes). Waits for them, but not for a user's code that does not end.
    fn close(&self, py: Python<'_>) {
        let inner = self.inner.clone();
        if !py.detach(move || inner.close(CLOSE_WAIT)) {
            self.inner.tell_running();
        }
    }
}

impl NativeIterator {
    /// Waits for the next delivery, and returns whether it is a batch.
    fn deliver(&self, py: Python<'_>) -> PyResult<Option<(bool, Chunk)>> {
        let inner = &self.inner;
        let mut news = None;
        inner.trace.ask();
        let delivery = interruptible(py, |poll| {
            // Locked without the GIL: the thread that holds it may be waiting for the GIL.
            let mut iteration = lock(&inner.iteration);
            let iteration = iteration.as_mut().ok_or_else(closed)?;
            let mut go_on = || {
                let asked = if inner.closing.load(Ordering::Relaxed) { Err(closed()) } else { poll() };
                asked.inspect_err(|_| inner.runner.stop())
            };
            let delivery = iteration.next(&mut go_on);
            inner.tell(iteration.take_losses());
            news = iteration.news();
            let Some(delivery) = delivery? else {
                iteration.end_position().into_iter().for_each(|end| lock(&inner.at).end_at(end));
                return Ok(None);
            };
            *lock(&inner.at) = delivery.span();
            Ok(Some((delivery.batched, delivery.chunk)))
        });
        inner.trace.got();
        if matches!(delivery, Ok(None)) {
            inner.runner.rest();
        }
        if let Some(error) = news {
            crate::cache::warn(&error);
        }
        crate::cache::tell(!matches!(delivery, Ok(Some(_))));
        let delivery = match delivery {
            Ok(delivery) => delivery,
            Err(e) => {
                py.detach(|| inner.clone().close(LEAVE_WAIT));
                return Err(e);
            }
        };
        Ok(delivery)
    }
}

impl Inner {
    fn tell(&self, losses: Vec<SkippedSample>) {
        if losses.is_empty() {
            return;
        }
        let mut uncertain = lock(&self.uncertain);
        for lost in losses.iter().filter(|l| l.loss.error.fault() == Fault::Process).map(SavedSkip::of) {
            if !uncertain.contains(&lost) {
                uncertain.push(lost);
            }
        }
        lock(&self.losses).extend(losses);
    }

    /// Stops everything from a thread of its own: a user's function may never return, and a thread that drops an
    /// iterator may have a pending exception, with which no Python code may run.
    ///
    /// Returns whether all has ended.
    fn close(self: Arc<Self>, wait: Duration) -> bool {
        self.begin_close().is_none_or(|ended| ended.recv_timeout(wait).is_ok())
    }

    /// As [`Inner::close`], and returns a receiver that gets a message when all has ended.
    fn begin_close(self: Arc<Self>) -> Option<mpsc::Receiver<()>> {
        if self.process != std::process::id() {
            // Its threads, which a drop would wait for, are in the parent; and so are its processes, which the parent
            // uses.
            std::mem::forget(self);
            return None;
        }
        self.closing.store(true, Ordering::Relaxed);
        let (done, ended) = mpsc::channel();
        let join = move || {
            self.end.call_once(|| {
                self.runner.stop();
                let mut iteration = lock(&self.iteration);
                *lock(&self.last) = iteration.as_ref().map(Iteration::stats);
                drop(iteration.take());
            });
            drop(self);
            let _ = done.send(());
        };
        std::thread::Builder::new().name("forebay-close".to_owned()).spawn(join).is_ok().then_some(ended)
    }

    /// Warns, once, that users' functions outlive their iterator.
    fn tell_running(&self) {
        static TOLD: AtomicBool = AtomicBool::new(false);
        let running = self.runner.running();
        if running.is_empty() || TOLD.swap(true, Ordering::Relaxed) {
            return;
        }
        let message = "the iterator is closed, but a function of it has not returned yet: its thread ends when it does";
        let error = Error::new(ErrorKind::Function, message)
            .with("function", running.join(", "))
            .hint("nothing can end a function in a thread; with executor=\"process\" it would have been ended");
        crate::cache::warn(&error);
    }
}

impl Drop for NativeIterator {
    fn drop(&mut self) {
        // Under the GIL, which the threads may be waiting for, so this waits for nothing.
        self.inner.clone().close(Duration::ZERO);
    }
}

/// Ends every iterator before the interpreter does, and flushes the cache.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) {
    let live: Vec<_> = std::mem::take(&mut *lock(&LIVE)).iter().filter_map(Weak::upgrade).collect();
    py.detach(|| {
        let ended: Vec<_> = live.into_iter().filter_map(Inner::begin_close).collect();
        let (any, deadline) = (!ended.is_empty(), Instant::now() + LEAVE_WAIT);
        for ended in ended {
            let _ = ended.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        }
        if any {
            crate::functions::user_call::wait_for_around();
        }
        crate::functions::process::kept::clear();
        crate::cache::flush();
        crate::cache::tell(true);
    });
}

/// Flushes the cache.
#[pyfunction]
pub(crate) fn flush_cache(py: Python<'_>) {
    py.detach(|| {
        crate::cache::flush();
        crate::cache::tell(true);
    });
}

/// Waits until the queue for writing to the cache has room.
#[pyfunction]
pub(crate) fn ease_cache(py: Python<'_>) {
    py.detach(crate::cache::ease);
}

/// Raises an error from JSON (used by tests of the exception tree).
#[pyfunction]
pub(crate) fn raise_error(py: Python<'_>, json: &str) -> PyErr {
    crate::errors::raise(py, &Error::from_json(json))
}
