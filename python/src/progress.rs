//! The command line's progress line, for long work in Python.

use std::sync::Mutex;

use pyo3::prelude::*;

use crate::functions::lock;

/// A line on a terminal's stderr with the progress of long work.
#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct Progress(Mutex<Option<forebay_cli::Progress>>);

#[pymethods]
impl Progress {
    /// Starts the clock; shows nothing before a second has passed.
    #[new]
    #[pyo3(signature = (what, unit=""))]
    fn new(what: String, unit: &str) -> Self {
        Self(Mutex::new(Some(forebay_cli::Progress::new(what, unit))))
    }

    /// Shows how much is done.
    fn show(&self, done: u64, total: u64) {
        if let Some(line) = &*lock(&self.0) {
            line.show(done, total);
        }
    }

    /// Erases the line.
    fn end(&self) {
        drop(lock(&self.0).take());
    }
}
