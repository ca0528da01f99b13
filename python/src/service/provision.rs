//! The reconciler, for provisioners that are written in Python.

use std::time::Duration;

use forebay_core::Ticks;
use forebay_server::{Action, WorkerCounts};
use pyo3::prelude::*;

/// Decides the actions that bring the number of workers to the wanted one. Times are seconds of one monotonic clock.
#[pyclass(module = "forebay._native")]
pub(crate) struct Reconciler(forebay_server::Reconciler);

#[pymethods]
impl Reconciler {
    #[new]
    fn new(workers_min: u32, workers_max: u32, at_once: u32) -> Self {
        Self(forebay_server::Reconciler::new(workers_min, workers_max, at_once))
    }

    /// Returns "keep", "start" (one) or "end" (one).
    #[pyo3(signature = (now_s, wanted, starting, running, leaving))]
    fn next(&mut self, now_s: f64, wanted: Option<u32>, starting: u32, running: u32, leaving: u32) -> &'static str {
        match self.0.next(ticks(now_s), wanted, WorkerCounts { starting, running, leaving }) {
            Action::Keep => "keep",
            Action::StartOne => "start",
            Action::EndOne => "end",
        }
    }

    /// Returns the seconds until another is started.
    fn failed(&mut self, now_s: f64) -> f64 {
        self.0.failed(ticks(now_s)).as_secs_f64()
    }

    fn lives(&mut self, since_s: f64) {
        self.0.lives(ticks(since_s));
    }
}

/// An invalid time is the beginning.
fn ticks(seconds: f64) -> Ticks {
    Ticks::default() + Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
