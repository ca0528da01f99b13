//! Folders that `save` writes and `load` reads.

use std::sync::{Arc, Mutex};

use forebay_core::{Error, ErrorKind, Result};
use forebay_data::Chunk;
use forebay_io::saved::{Compression, Files, Format, Head, Poll, Progress, Writer, open};
use forebay_plan::{Op, ops};
use pyo3::prelude::*;

use crate::errors::{detached, raise};
use crate::functions::{closed, lock};
use crate::pipeline::Pipeline;

/// Writes the rows of one iterator to one folder.
#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct SavedWriter {
    writer: Mutex<Option<Writer>>,
    begun: Progress,
    interrupt: Arc<Interrupt>,
}

/// The exception of Ctrl-C during a wait for a store.
#[derive(Default)]
struct Interrupt(Mutex<Option<PyErr>>);

impl Interrupt {
    /// Returns the poll that checks for it.
    fn poll(self: &Arc<Self>) -> Poll {
        let interrupt = self.clone();
        Arc::new(move || {
            Python::attach(|py| py.check_signals()).map_err(|e| {
                *lock(&interrupt.0) = Some(e);
                Error::new(ErrorKind::Closed, "interrupted")
            })
        })
    }

    /// Runs work that may wait for a store.
    fn run<T: Send>(&self, py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
        let done = detached(py, work);
        lock(&self.0).take().map_or(done, Err)
    }
}

impl SavedWriter {
    /// Adds rows; returns how many of them fit if the file is full.
    pub(crate) fn push(&self, py: Python<'_>, chunk: &Chunk) -> PyResult<Option<u64>> {
        self.with(py, |writer| writer.push(chunk))
    }

    /// Adds the rest of the rows that were pushed last.
    pub(crate) fn go_on(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.with(py, Writer::go_on)
    }

    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Writer) -> Result<T> + Send) -> PyResult<T> {
        self.interrupt.run(py, || lock(&self.writer).as_mut().ok_or_else(closed).and_then(work))
    }
}

#[pymethods]
impl SavedWriter {
    /// Begins, or continues behind the rows in the folder.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "what a user said, word for word")]
    fn begin(
        py: Python<'_>,
        folder: &str,
        pipeline: &Pipeline,
        seed: u64,
        epochs: u64,
        consumer: Option<(u64, u64)>,
        format: &str,
        compression: Option<&str>,
        file_bytes: u64,
        overwrite: bool,
    ) -> PyResult<Self> {
        let graph = &pipeline.graph;
        let behind = graph.nodes().iter().rev().take_while(|node| !matches!(node.op, Op::Take(_)));
        if let Some(node) = behind.into_iter().find(|node| matches!(node.op, Op::Repeat(ops::Repeat { count: None }))) {
            let endless = Error::invalid("an epoch of this never ends, so it cannot be saved");
            return Err(raise(py, &node.blame(endless.hint("say how often to repeat, or take(n)"))));
        }
        let files = files(format, compression, file_bytes).map_err(|e| raise(py, &e))?;
        let (dataset, fields) = (graph.dataset_id().to_string(), graph.schema().fields().to_vec());
        let head = Head::new(&dataset, seed, epochs, consumer, files, fields);
        let interrupt = Arc::<Interrupt>::default();
        interrupt.run(py, || {
            let (writer, begun) = Writer::begin(folder, head, overwrite, interrupt.poll())?;
            Ok(Self { writer: Mutex::new(Some(writer)), begun, interrupt: interrupt.clone() })
        })
    }

    /// Returns the reader's state behind the rows in the folder.
    #[getter]
    fn state(&self) -> Option<&str> {
        self.begun.state.as_deref()
    }

    /// Returns whether the folder was complete when it began.
    #[getter]
    fn complete(&self) -> bool {
        self.begun.complete
    }

    /// Returns the rows that were written so far.
    #[getter]
    fn rows(&self) -> u64 {
        lock(&self.writer).as_ref().map_or(self.begun.rows, Writer::rows)
    }

    /// Ends a file.
    fn end_part(&self, py: Python<'_>, state: &str) -> PyResult<()> {
        self.with(py, |writer| writer.end_part(state))
    }

    /// Completes the folder. Returns files and rows.
    fn finish(&self, py: Python<'_>, state: &str) -> PyResult<(u64, u64)> {
        let all = self.interrupt.run(py, || lock(&self.writer).take().ok_or_else(closed)?.finish(state))?;
        Ok((all.parts, all.rows))
    }

    /// Releases the folder.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(lock(&self.writer).take()));
    }
}

/// Reads the options of the files.
fn files(format: &str, compression: Option<&str>, bytes: u64) -> Result<Files> {
    let unknown = |what: &str, name: &str| Error::invalid(format!("save: unknown {what} {name:?}"));
    let format = Format::ALL.into_iter().find(|f| f.name() == format).ok_or_else(|| unknown("format", format))?;
    let known = [Compression::Zstd, Compression::Snappy];
    let find = |name: &str| known.into_iter().find(|c| c.name() == name).ok_or_else(|| unknown("compression", name));
    Ok(Files { format, compression: compression.map(find).transpose()?, bytes })
}

/// The contents of a folder of `save`.
#[pyclass(frozen, get_all, module = "forebay._native")]
pub(crate) struct SavedFolder {
    /// The format of its files.
    format: &'static str,
    /// Its columns, as JSON.
    schema: String,
    /// The patterns of the files that count, in order.
    patterns: Vec<String>,
    /// The number of files that count.
    files: u64,
    /// Rows in them.
    rows: u64,
    /// Whether the folder is complete.
    complete: bool,
}

/// Inspects a folder that `save` wrote. `None` when nothing is saved there.
#[pyfunction]
pub(crate) fn saved(py: Python<'_>, folder: &str) -> PyResult<Option<SavedFolder>> {
    let interrupt = Arc::<Interrupt>::default();
    interrupt.run(py, || {
        let Some(found) = open(folder, interrupt.poll())? else { return Ok(None) };
        let first = found.heads.first();
        let format = first.map_or("", |head| head.files.format.name());
        let schema = serde_json::to_string(first.map_or(&[][..], |head| &head.schema[..]))
            .map_err(|e| Error::internal(format!("a schema: {e}")))?;
        let ((files, rows), complete) = (found.so_far(), found.is_complete());
        Ok(Some(SavedFolder { format, schema, patterns: found.patterns(), files, rows, complete }))
    })
}
