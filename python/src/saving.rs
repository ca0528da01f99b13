//! Folders that `save` writes and `load` reads.

use std::path::Path;
use std::sync::Mutex;

use forebay_core::{Error, Result};
use forebay_data::Chunk;
use forebay_io::saved::{Head, Progress, Writer, open};
use forebay_plan::Op;
use pyo3::prelude::*;

use crate::errors::{detached, raise};
use crate::functions::{closed, lock};
use crate::pipeline::Pipeline;

/// Writes the rows of one iterator to one folder.
#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct SavedWriter {
    writer: Mutex<Option<Writer>>,
    begun: Progress,
}

impl SavedWriter {
    /// Adds rows; returns whether the file is full.
    pub(crate) fn push(&self, py: Python<'_>, chunk: &Chunk) -> PyResult<bool> {
        self.with(py, |writer| writer.push(chunk))
    }

    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Writer) -> Result<T> + Send) -> PyResult<T> {
        detached(py, || lock(&self.writer).as_mut().ok_or_else(closed).and_then(work))
    }
}

#[pymethods]
impl SavedWriter {
    /// Begins, or goes on behind what is there.
    #[staticmethod]
    fn begin(
        py: Python<'_>,
        folder: &str,
        pipeline: &Pipeline,
        seed: u64,
        epochs: u64,
        file_bytes: u64,
        overwrite: bool,
    ) -> PyResult<Self> {
        let graph = &pipeline.graph;
        let behind = graph.nodes().iter().rev().take_while(|node| !matches!(node.op, Op::Take { .. }));
        if let Some(node) = behind.into_iter().find(|node| matches!(node.op, Op::Repeat { count: None })) {
            let endless = Error::invalid("an epoch of this never ends, so it cannot be saved");
            return Err(raise(py, &node.blame(endless.hint("say how often to repeat, or take(n)"))));
        }
        let head = Head::new(&graph.dataset_id().to_string(), seed, epochs, graph.schema().fields().to_vec());
        detached(py, || {
            let (writer, begun) = Writer::begin(Path::new(folder), head, file_bytes, overwrite)?;
            Ok(Self { writer: Mutex::new(Some(writer)), begun })
        })
    }

    /// The reader's state behind what is there.
    #[getter]
    fn state(&self) -> Option<&str> {
        self.begun.state.as_deref()
    }

    /// Whether all was there when it began.
    #[getter]
    fn complete(&self) -> bool {
        self.begun.complete
    }

    /// Rows that were written so far.
    #[getter]
    fn rows(&self) -> u64 {
        lock(&self.writer).as_ref().map_or(self.begun.rows, Writer::rows)
    }

    /// Ends a file.
    fn end_part(&self, py: Python<'_>, state: &str) -> PyResult<()> {
        self.with(py, |writer| writer.end_part(state))
    }

    /// Says that this is all. Returns files and rows.
    fn finish(&self, py: Python<'_>, state: &str) -> PyResult<(u64, u64)> {
        let all = detached(py, || lock(&self.writer).take().ok_or_else(closed)?.finish(state))?;
        Ok((all.parts, all.rows))
    }

    /// Lets the folder go.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(lock(&self.writer).take()));
    }
}

/// What is saved in a folder: files, their rows if all are there. `None` when nothing is.
#[pyfunction]
pub(crate) fn saved(py: Python<'_>, folder: &str) -> PyResult<Option<(u64, Option<u64>)>> {
    detached(py, || {
        let found = open(Path::new(folder))?;
        Ok(found.map(|found| (found.parts.len() as u64, found.head.complete.map(|all| all.rows))))
    })
}
