//! The command line's progress line, for long work in Python, and in the cells of notebooks.

use std::sync::Mutex;

use pyo3::prelude::*;

use crate::functions::lock;

/// Returns a writer to the cell's output, if this process is the kernel of a notebook.
pub(crate) fn notebook() -> Option<forebay_cli::NotebookWriter> {
    let is_kernel = Python::try_attach(|py| {
        let stderr = py.import("sys")?.getattr("stderr")?;
        PyResult::Ok(stderr.get_type().module()?.to_str()?.starts_with("ipykernel"))
    });
    matches!(is_kernel, Some(Ok(true))).then_some(write as forebay_cli::NotebookWriter)
}

fn write(text: &str) {
    // Progress is optional, so an error of the notebook's stream is ignored.
    let _ = Python::try_attach(|py| -> PyResult<()> {
        let stderr = py.import("sys")?.getattr("stderr")?;
        stderr.call_method1("write", (text,))?;
        stderr.call_method0("flush").map(drop)
    });
}

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

    /// Whether a line will be drawn if the work takes longer than a second.
    #[getter]
    fn shown(&self) -> bool {
        lock(&self.0).as_ref().is_some_and(forebay_cli::Progress::is_shown)
    }

    /// Erases the line.
    fn end(&self) {
        drop(lock(&self.0).take());
    }
}
