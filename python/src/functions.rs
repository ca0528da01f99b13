//! Users' functions in this interpreter, under the GIL.
//!
//! Why here: the simplest of the two executors, and the one that the processes of the other run. Functions get arrays
//! over the engine's memory, read-only: what they want to change, they copy. A function that never returns holds its
//! thread for ever; [`PyFunctions::stop`] asks it to end with an exception.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{ArrayRef, BooleanArray};
use forebay_core::{Error, ErrorKind, Fault, Result, rng::op_key};
use forebay_data::{Chunk, RowId, Schema};
use forebay_exec::{Functions, Pickle, Randomness};
use forebay_plan::{BlobId, Function};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arrays::Columns;
use crate::errors::{from_exception, from_user, from_value};
use crate::rows::{columns_of_batch, columns_of_rows};

/// Told before each row that a user's code sees.
type Progress = Box<dyn Fn(u64) + Send + Sync>;

/// Runs users' functions here. See the module's documentation.
#[derive(Default)]
pub(crate) struct PyFunctions {
    loaded: Mutex<HashMap<BlobId, Py<PyAny>>>,
    /// The threads that are in a user's code.
    inside: Mutex<HashSet<std::ffi::c_long>>,
    stopped: AtomicBool,
    progress: Option<Progress>,
    /// The process whose functions these are alone.
    process: Option<u32>,
}

impl PyFunctions {
    /// Makes the executor of a function process.
    pub(crate) fn with_progress(progress: Progress) -> Self {
        let mut functions = Self::default();
        (functions.progress, functions.process) = (Some(progress), Some(std::process::id()));
        functions
    }

    /// Ends a process that a user's function forked and that has come back out of it: it must not answer in our place.
    fn end_fork(&self) {
        if self.process.is_some_and(|process| process != std::process::id()) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }

    /// Makes every call end soon: between two rows, or with an exception inside the user's code.
    pub(crate) fn stop(&self, py: Python<'_>) {
        self.stopped.store(true, Ordering::Relaxed);
        let Ok(stop) = py.import("forebay._src.user_errors").and_then(|m| m.getattr("Stop")) else { return };
        for &thread in lock(&self.inside).iter() {
            // SAFETY: the GIL is held, and `stop` is a live exception class; an unknown thread is ignored.
            unsafe { pyo3::ffi::PyThreadState_SetAsyncExc(thread, stop.as_ptr()) };
        }
    }

    fn step(&self, row: usize) -> Result<()> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(closed());
        }
        if let Some(progress) = &self.progress {
            progress(row as u64);
        }
        Ok(())
    }

    /// Calls into users' code with this thread on the list of those that `stop` reaches.
    fn inside<T>(&self, work: impl FnOnce(Python<'_>) -> Result<T>) -> Result<T> {
        let run = |py: Python<'_>| {
            // SAFETY: the GIL is held.
            let thread = unsafe { pyo3::ffi::PyThread_get_thread_ident() } as std::ffi::c_long;
            lock(&self.inside).insert(thread);
            let result = if self.stopped.load(Ordering::Relaxed) { Err(closed()) } else { work(py) };
            lock(&self.inside).remove(&thread);
            result
        };
        Python::try_attach(run).unwrap_or_else(|| Err(closed()))
    }

    fn load<'py>(&self, py: Python<'py>, pickle: &Pickle) -> Result<Bound<'py, PyAny>> {
        if let Some(object) = lock(&self.loaded).get(&pickle.id) {
            return Ok(object.bind(py).clone());
        }
        let bytes = PyBytes::new(py, &pickle.bytes);
        let load = || py.import("pickle")?.call_method1(intern!(py, "loads"), (bytes,));
        let object = load().map_err(|e| {
            let error = if e.is_instance_of::<pyo3::exceptions::PyImportError>(py) {
                Error::new(ErrorKind::Function, format!("cannot be loaded: {}", e.value(py)))
            } else {
                from_user(py, &e)
            };
            of_code(error).hint("modules that the function imports have to be installed on every worker")
        })?;
        lock(&self.loaded).insert(pickle.id.clone(), object.clone().unbind());
        Ok(object)
    }

    /// Calls a function once for each row, or once for all.
    fn call<'py>(
        &self,
        py: Python<'py>,
        function: &Function,
        pickle: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
    ) -> Result<Vec<Bound<'py, PyAny>>> {
        let ids = input.ids();
        let callable = self.load(py, pickle)?;
        let columns = Columns::of(py, input.clone()).map_err(|e| from_exception(py, &e))?;
        let generators =
            randomness.map(|r| Ok((generators(py)?, r))).transpose().map_err(|e: PyErr| from_exception(py, &e))?;
        let rows = if function.batched { 1 } else { columns.rows() };
        let mut returned = Vec::with_capacity(rows);
        for (row, id) in ids.iter().enumerate().take(rows) {
            self.step(row)?;
            let blame = |e: Error| if function.batched { e } else { e.with("sample", id.sample) };
            let argument = if function.batched { columns.dict(py) } else { columns.row(py, row) };
            let argument = argument.map_err(|e| from_exception(py, &e))?;
            let result = match &generators {
                None => callable.call1((argument,)),
                Some((generators, r)) => {
                    let key = op_key(r.seed, id.epoch, r.random);
                    let rng = generators.call_method1(intern!(py, "at"), (key, id.sample.0));
                    callable.call1((argument, rng.map_err(|e| from_exception(py, &e))?))
                }
            };
            self.end_fork();
            returned.push(
                result.map_err(|e| {
                    if self.stopped.load(Ordering::Relaxed) { closed() } else { blame(from_user(py, &e)) }
                })?,
            );
        }
        Ok(returned)
    }
}

impl PyFunctions {
    /// Calls a function on each row by itself, and leaves out the rows that fail, unless all do.
    fn tried<'py>(
        &self,
        py: Python<'py>,
        function: &Function,
        pickle: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
    ) -> Result<Vec<Bound<'py, PyAny>>> {
        if function.batched {
            return self.call(py, function, pickle, input, randomness);
        }
        let (mut returned, mut failed) = (Vec::new(), None);
        for row in 0..input.num_rows() {
            match self.call(py, function, pickle, &input.slice(row, 1), randomness) {
                Ok(value) => returned.extend(value),
                Err(error) if error.fault() == Fault::Other => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if returned.is_empty() => Err(error),
            _ => Ok(returned),
        }
    }

    /// Returns the columns that a function gives for these rows.
    pub(crate) fn fields(
        &self,
        function: &Function,
        blobs: &dyn forebay_io::Blobs,
        input: &Chunk,
        randomness: Option<Randomness>,
    ) -> Result<Vec<forebay_data::Field>> {
        let pickle = Pickle { id: function.blob.clone(), bytes: blobs.get(&function.blob)? };
        let run = |py: Python<'_>| {
            let returned = self.tried(py, function, &pickle, input, randomness)?;
            let fields = match returned.as_slice() {
                [batch] if function.batched => crate::probe::fields_of_batch(batch),
                rows => crate::probe::fields_of_rows(rows),
            };
            fields.map_err(|e| from_value(py, &e))
        };
        self.inside(run).map_err(|e| explain(e, &function.name, input.ids()))
    }
}

impl Functions for PyFunctions {
    fn map(
        &self,
        function: &Function,
        pickle: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
        output: &Arc<Schema>,
    ) -> Result<Vec<ArrayRef>> {
        let run = |py: Python<'_>| {
            let returned = self.call(py, function, pickle, input, randomness)?;
            let columns = match returned.as_slice() {
                [batch] if function.batched => columns_of_batch(output, batch, input.num_rows()),
                rows => columns_of_rows(py, output, rows),
            };
            columns.map_err(|e| of_code(from_value(py, &e)))
        };
        self.inside(run).map_err(|e| explain(e, &function.name, input.ids()))
    }

    fn filter(
        &self,
        function: &Function,
        pickle: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
    ) -> Result<BooleanArray> {
        let run = |py: Python<'_>| {
            let returned = self.call(py, function, pickle, input, randomness)?;
            let keep = match returned.as_slice() {
                [batch] if function.batched => mask(batch, input.num_rows()),
                rows => rows.iter().enumerate().map(|(i, v)| truth(v, i)).collect(),
            };
            keep.map(BooleanArray::from).map_err(|e| of_code(from_value(py, &e)))
        };
        self.inside(run).map_err(|e| explain(e, &function.name, input.ids()))
    }

    fn items(&self, dataset: &Pickle, rows: &[u64], ids: Arc<[RowId]>, schema: &Arc<Schema>) -> Result<Chunk> {
        let run = |py: Python<'_>| {
            let object = self.load(py, dataset)?;
            let mut items = Vec::with_capacity(rows.len());
            for (i, row) in rows.iter().enumerate() {
                self.step(i)?;
                let item = object.call_method1(intern!(py, "__getitem__"), (row,));
                self.end_fork();
                items.push(item.map_err(|e| from_user(py, &e).with("sample", ids[i].sample))?);
            }
            columns_of_rows(py, schema, &items).map_err(|e| of_code(from_value(py, &e)))
        };
        let columns = self.inside(run).map_err(|e| explain(e, "the dataset", &ids))?;
        Chunk::new(schema.clone(), columns, ids)
    }

    fn generate(
        &self,
        generator: &Pickle,
        rows: usize,
        schema: &Arc<Schema>,
        emit: &mut dyn FnMut(Vec<ArrayRef>, usize) -> Result<()>,
    ) -> Result<()> {
        let start = |py: Python<'_>| {
            let iterator = self.load(py, generator)?.call0().and_then(|i| i.try_iter());
            iterator.map(|i| i.into_any().unbind()).map_err(|e| from_user(py, &e))
        };
        let name = "the generator";
        let iterator = self.inside(start).map_err(|e| explain(e, name, &[]))?;
        let mut seen = 0;
        loop {
            let pull = |py: Python<'_>| {
                let mut items = Vec::with_capacity(rows);
                let mut iterator = iterator.bind(py).try_iter().map_err(|e| from_value(py, &e))?;
                while items.len() < rows {
                    self.step(seen + items.len())?;
                    let Some(item) = iterator.next() else { break };
                    items
                        .push(item.map_err(|e| from_user(py, &e).with("sample", format!("0:{}", seen + items.len())))?);
                }
                let columns = columns_of_rows(py, schema, &items).map_err(|e| from_value(py, &e))?;
                Ok((columns, items.len()))
            };
            let (columns, pulled) = self.inside(pull).map_err(|e| explain(e, name, &[]))?;
            if pulled > 0 {
                emit(columns, pulled)?;
            }
            if pulled < rows {
                return Ok(());
            }
            seen += pulled;
        }
    }
}

impl Drop for PyFunctions {
    fn drop(&mut self) {
        // Objects are let go under the GIL, or leaked when the interpreter is gone.
        let loaded = std::mem::take(&mut *lock(&self.loaded));
        if !loaded.is_empty() {
            let mut loaded = Some(loaded);
            if Python::try_attach(|_| drop(loaded.take())).is_none() {
                std::mem::forget(loaded);
            }
        }
    }
}

fn generators(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import(intern!(py, "forebay._src.randomness"))?.getattr(intern!(py, "Generators"))?.call0()
}

fn truth(value: &Bound<'_, PyAny>, row: usize) -> PyResult<bool> {
    if value.is_none() || value.is_instance_of::<PyDict>() {
        let message = format!("returned {} instead of a truth value", crate::values::describe(value));
        let error = Error::new(ErrorKind::Function, message).with("row", row).hint("return True to keep the row");
        return Err(crate::errors::raise(value.py(), &error));
    }
    value.is_truthy().map_err(|e| {
        let message = format!("returned {}, which is not one truth value: {e}", crate::values::describe(value));
        let hint = "return True or False; of an array say what is meant: .all() or .any()";
        crate::errors::raise(value.py(), &Error::new(ErrorKind::Function, message).with("row", row).hint(hint))
    })
}

fn mask(value: &Bound<'_, PyAny>, rows: usize) -> PyResult<Vec<bool>> {
    let np = crate::numpy::NumPy::get(value.py())?;
    let array = np.asarray(value).map_err(|e| {
        let message = format!("returned {}, which is no array: {e}", crate::values::describe(value));
        crate::errors::raise(value.py(), &Error::new(ErrorKind::Function, message))
    })?;
    let (dtype, shape) = (array.getattr("dtype")?.str()?.extract::<String>()?, crate::values::shape_of(&array)?);
    if dtype != "bool" || shape != [rows] {
        let message = format!("returned {dtype}{shape:?} instead of a bool array of {rows} rows");
        return Err(crate::errors::raise(value.py(), &Error::new(ErrorKind::Function, message)));
    }
    // A row of which it is not known is dropped, as an expression drops it.
    let known = if crate::masks::mask(value)?.is_some() { value.call_method1("filled", (false,))? } else { array };
    known.call_method0("tolist")?.extract()
}

/// What a function gives is part of the pipeline: no sample is to blame for it.
fn of_code(error: Error) -> Error {
    if error.kind() == ErrorKind::Function { error.with("fault", "code") } else { error }
}

/// Puts the function's name before the message, and the sample in place of the row.
fn explain(error: Error, name: &str, ids: &[RowId]) -> Error {
    if !matches!(error.kind(), ErrorKind::Function | ErrorKind::Data) {
        return error;
    }
    let start = Error::new(error.kind(), format!("{name} {}", error.message()));
    error.context().iter().fold(start, |e, (key, value)| match (key.as_str(), value.parse::<usize>()) {
        ("row", Ok(row)) => ids.get(row).map_or(e.clone(), |id| e.with("sample", id.sample)),
        _ => e.with(key, value),
    })
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the iterator was closed")
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
