//! Users' functions in this interpreter, under the GIL.
//!
//! Why here: it is the simplest of the two executors, and the processes of the other one run it. Functions get
//! read-only arrays over the engine's memory, and copy arrays that they want to change. The result for a row is taken
//! before the function is called again ([`crate::convert::taken`]). Nothing ends a call; after [`PyFunctions::stop`] no
//! other begins.
//!
//! `collected`: rows that a function makes of rows; `probe`: the schema of its results; `process/`: functions in
//! separate processes; `results`: checks and errors of results; `runner`: which of both executors an iterator uses;
//! `user_call`: calls of users' code.

mod collected;
pub(super) mod probe;
pub(super) mod process;
mod results;
pub(super) mod runner;
pub(super) mod user_call;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{ArrayRef, BooleanArray};
use forebay_core::{Error, ErrorKind, Fault, Result, rng::op_key};
use forebay_data::{Chunk, RowId, Schema};
use forebay_exec::{Functions, MadeRows, Pickle, Randomness};
use forebay_plan::{BlobId, Function};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyTuple};

use crate::convert::arrays::Columns;
use crate::convert::rows::{columns_of_batch, columns_of_rows};
use crate::convert::taken;
use crate::errors::{from_exception, from_user, from_value};
use collected::Collected;
use probe::RowsSeen;
use results::{explain, is_other_modules, mask, of_code, take_row, truth, without_column};
use user_call::Around;

/// Called before each row that a user's code sees; returns whether to go on.
type Progress = Box<dyn Fn(u64) -> bool + Send + Sync>;

/// The rows that a function makes of one row, and by which its columns are found.
const PROBED_ROWS: usize = 16;

/// Converts the result of a user's code for the row of this number, before that code runs again.
type Take<'a, 'py, T> = &'a dyn Fn(usize, Bound<'py, PyAny>) -> Result<T>;

/// Runs users' functions here. See the module's documentation.
#[derive(Default)]
pub(crate) struct PyFunctions {
    loaded: Mutex<HashMap<BlobId, Py<PyAny>>>,
    /// The names of the functions that threads are in now.
    inside: Mutex<Vec<String>>,
    stopped: AtomicBool,
    progress: Option<Progress>,
    /// The only process that these functions belong to.
    process: Option<u32>,
}

impl PyFunctions {
    /// Makes the executor of a function process.
    pub(crate) fn with_progress(progress: Progress) -> Self {
        let mut functions = Self::default();
        (functions.progress, functions.process) = (Some(progress), Some(std::process::id()));
        functions
    }

    /// Ends a process that a user's function forked and that returned from it: it must not answer in our place.
    fn end_fork(&self) {
        if self.process.is_some_and(|process| process != std::process::id()) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }

    /// Prevents further calls, and further rows of running ones.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns the names of the functions that threads are in.
    pub(crate) fn running(&self) -> Vec<String> {
        lock(&self.inside).clone()
    }

    fn step(&self, row: usize) -> Result<()> {
        let goes_on = self.progress.as_ref().is_none_or(|progress| progress(row as u64));
        if goes_on && !self.stopped.load(Ordering::Relaxed) { Ok(()) } else { Err(closed()) }
    }

    /// Runs work that calls users' code, if the interpreter still exists.
    fn inside<T>(&self, name: &str, work: impl FnOnce(Python<'_>) -> Result<T>) -> Result<T> {
        let run = |py: Python<'_>| {
            let _around = Around::enter();
            if self.stopped.load(Ordering::Relaxed) {
                return Err(closed());
            }
            lock(&self.inside).push(name.to_owned());
            let result = work(py);
            let mut inside = lock(&self.inside);
            if let Some(place) = inside.iter().position(|n| n == name) {
                inside.swap_remove(place);
            }
            result
        };
        Python::try_attach(run).unwrap_or_else(|| Err(closed()))
    }

    /// Calls a user's object, and checks that the call returned in this process.
    fn enter<'py>(&self, callable: &Bound<'py, PyAny>, arguments: Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let result = user_call::call(callable, arguments);
        self.end_fork();
        result
    }

    fn load<'py>(&self, py: Python<'py>, pickle: &Pickle) -> Result<Bound<'py, PyAny>> {
        if let Some(object) = lock(&self.loaded).get(&pickle.id) {
            return Ok(object.bind(py).clone());
        }
        let bytes = PyBytes::new(py, &pickle.bytes);
        let load = || user_call::call(&py.import("pickle")?.getattr("loads")?, PyTuple::new(py, [bytes])?);
        let object = load().map_err(|e| {
            let error = if e.is_instance_of::<pyo3::exceptions::PyImportError>(py) {
                let error = Error::new(ErrorKind::Function, format!("cannot be loaded: {}", e.value(py)));
                if is_other_modules(py, &e) { error.with("fault", "modules") } else { error }
            } else {
                from_user(py, &e)
            };
            of_code(error).hint("modules that the function imports have to be installed on every worker")
        })?;
        lock(&self.loaded).insert(pickle.id.clone(), object.clone().unbind());
        Ok(object)
    }

    /// Calls a function once for each row, or once for all.
    fn call<'py, T>(
        &self,
        py: Python<'py>,
        function: &Function,
        pickle: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
        take: Take<'_, 'py, T>,
    ) -> Result<Vec<T>> {
        let ids = input.ids();
        let callable = self.load(py, pickle)?;
        let of = if function.batched { Columns::of } else { Columns::by_row };
        let columns = of(py, input.clone()).map_err(|e| from_exception(py, &e))?;
        let generators =
            randomness.map(|r| Ok((generators(py)?, r))).transpose().map_err(|e: PyErr| from_exception(py, &e))?;
        let rows = if function.batched { 1 } else { columns.rows() };
        let mut made = Vec::with_capacity(rows);
        for (row, id) in ids.iter().enumerate().take(rows) {
            self.step(row)?;
            let arguments = || {
                let argument = if function.batched { columns.dict(py)? } else { columns.row(py, row)? };
                let Some((generators, r)) = &generators else { return PyTuple::new(py, [argument]) };
                let id = input.random_id(row);
                let key = op_key(r.seed, id.epoch, r.random);
                let rng = generators.call_method1(intern!(py, "at"), (key, id.sample.0))?;
                PyTuple::new(py, [argument.into_any(), rng])
            };
            let arguments = arguments().map_err(|e| from_exception(py, &e))?;
            let returned =
                self.enter(&callable, arguments).map_err(|e| without_column(py, from_user(py, &e), &e, input.schema()));
            let taken = returned.and_then(|value| take(row, value));
            let blame =
                |e: Error| if function.batched || e.get("row").is_some() { e } else { e.with("sample", id.sample) };
            made.push(taken.map_err(blame)?);
        }
        Ok(made)
    }
}

impl PyFunctions {
    /// Returns the next item of a user's iterator, for the row of this number.
    fn next<'py>(&self, row: usize, iterator: &Bound<'py, PyIterator>) -> Result<Option<Bound<'py, PyAny>>> {
        self.step(row)?;
        let item = user_call::next(iterator);
        self.end_fork();
        item.transpose().map_err(|e| from_user(iterator.py(), &e))
    }

    /// Returns what takes the rows that a function makes of each row, and returns how many they are.
    fn collecting<'py>(&self, made: &RefCell<Collected<'_, 'py>>) -> impl Fn(usize, Bound<'py, PyAny>) -> Result<u32> {
        |row, value| made.borrow_mut().take(row, &value, &|iterator| self.next(row, iterator))
    }

    /// Returns the first rows that a function makes of a row.
    fn first_made<'py>(&self, row: usize, value: &Bound<'py, PyAny>) -> Result<Vec<Bound<'py, PyAny>>> {
        let (iterator, mut made) = (collected::rows_of(value)?, Vec::new());
        while made.len() < PROBED_ROWS
            && let Some(item) = self.next(row, &iterator)?
        {
            made.push(take_row(item)?);
        }
        Ok(made)
    }

    /// Calls a function on each row by itself, and leaves out the rows that fail, unless all do. `makes_rows` says that
    /// it makes any number of rows of each.
    fn tried<'py>(
        &self,
        py: Python<'py>,
        function: &Function,
        pickle: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
        makes_rows: bool,
    ) -> Result<Vec<Bound<'py, PyAny>>> {
        if function.batched {
            return self.call(py, function, pickle, input, randomness, &|_, batch| Ok(batch));
        }
        let (mut returned, mut failed) = (Vec::new(), None);
        let take = |row, value: Bound<'py, PyAny>| match makes_rows {
            true => self.first_made(row, &value),
            false => Ok(vec![take_row(value)?]),
        };
        for row in 0..input.num_rows() {
            match self.call(py, function, pickle, &input.slice(row, 1), randomness, &take) {
                Ok(rows) => returned.extend(rows.into_iter().flatten()),
                Err(error) if error.fault() == Fault::Other => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if returned.is_empty() => Err(error),
            _ => Ok(returned),
        }
    }

    /// Returns the columns that a function returns for these rows; `makes_rows` says that it makes any number of rows of
    /// each.
    pub(crate) fn fields(
        &self,
        function: &Function,
        blobs: &dyn forebay_io::Blobs,
        input: &Chunk,
        randomness: Option<Randomness>,
        makes_rows: bool,
    ) -> Result<Vec<forebay_data::Field>> {
        let pickle = Pickle { id: function.blob.clone(), bytes: blobs.get(&function.blob)? };
        let run = |py: Python<'_>| {
            let returned = self.tried(py, function, &pickle, input, randomness, makes_rows)?;
            let fields = match returned.as_slice() {
                [batch] if function.batched => probe::fields_of_batch(batch, RowsSeen::First),
                rows => probe::fields_of_rows(rows),
            };
            fields.map_err(|e| from_value(py, &e))
        };
        self.inside(&function.name, run).map_err(|e| explain(e, &function.name, input.ids()))
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
            let columns = if function.batched {
                let take = |_, batch: Bound<'_, PyAny>| {
                    columns_of_batch(output, &batch, input.num_rows()).map_err(|e| of_code(from_value(py, &e)))
                };
                let made = self.call(py, function, pickle, input, randomness, &take)?;
                made.into_iter().next().map_or_else(|| columns_of_rows(py, output, &[]), Ok)
            } else {
                let rows = self.call(py, function, pickle, input, randomness, &|_, value| take_row(value))?;
                columns_of_rows(py, output, &rows)
            };
            columns.map_err(|e| of_code(from_value(py, &e)))
        };
        self.inside(&function.name, run).map_err(|e| explain(e, &function.name, input.ids()))
    }

    fn filter(
        &self,
        function: &Function,
        pickle: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
    ) -> Result<BooleanArray> {
        let run = |py: Python<'_>| {
            let keep: Vec<bool> = if function.batched {
                let take = |_, batch: Bound<'_, PyAny>| {
                    mask(&batch, input.num_rows()).map_err(|e| of_code(from_value(py, &e)))
                };
                self.call(py, function, pickle, input, randomness, &take)?.concat()
            } else {
                let take = |row, value: Bound<'_, PyAny>| truth(&value, row).map_err(|e| of_code(from_value(py, &e)));
                self.call(py, function, pickle, input, randomness, &take)?
            };
            Ok(BooleanArray::from(keep))
        };
        self.inside(&function.name, run).map_err(|e| explain(e, &function.name, input.ids()))
    }

    fn flat_map(
        &self,
        function: &Function,
        pickle: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
        output: &Arc<Schema>,
        count: Option<u32>,
    ) -> Result<MadeRows> {
        let run = |py: Python<'_>| {
            let made = RefCell::new(Collected::new(output, count));
            let counts = self.call(py, function, pickle, input, randomness, &self.collecting(&made))?;
            made.into_inner().finish(py, counts)
        };
        self.inside(&function.name, run).map_err(|e| explain(e, &function.name, input.ids()))
    }

    fn items(&self, dataset: &Pickle, rows: &[u64], ids: Arc<[RowId]>, schema: &Arc<Schema>) -> Result<Chunk> {
        let run = |py: Python<'_>| {
            let object = self.load(py, dataset)?;
            let get = object.getattr(intern!(py, "__getitem__")).map_err(|e| from_user(py, &e))?;
            let mut items = Vec::with_capacity(rows.len());
            for (i, row) in rows.iter().enumerate() {
                self.step(i)?;
                let item = self.enter(&get, PyTuple::new(py, [row]).map_err(|e| from_exception(py, &e))?);
                let item = item.map_err(|e| from_user(py, &e));
                let item = item.and_then(|item| taken::row(item).map_err(|e| of_code(from_value(py, &e))));
                items.push(item.map_err(|e| e.with("sample", ids[i].sample))?);
            }
            columns_of_rows(py, schema, &items).map_err(|e| of_code(from_value(py, &e)))
        };
        let columns = self.inside("the dataset", run).map_err(|e| explain(e, "the dataset", &ids))?;
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
            let function = self.load(py, generator)?;
            let iterator = self.enter(&function, PyTuple::empty(py)).and_then(|i| i.try_iter());
            iterator.map(|i| i.into_any().unbind()).map_err(|e| from_user(py, &e))
        };
        let name = "the generator";
        let iterator = self.inside(name, start).map_err(|e| explain(e, name, &[]))?;
        let mut seen = 0;
        loop {
            let pull = |py: Python<'_>| {
                let mut items = Vec::with_capacity(rows);
                let iterator = iterator.bind(py).try_iter().map_err(|e| from_value(py, &e))?;
                while items.len() < rows {
                    self.step(seen + items.len())?;
                    let item = user_call::next(&iterator);
                    self.end_fork();
                    let Some(item) = item else { break };
                    let sample = format!("0:{}", seen + items.len());
                    let item = item.map_err(|e| from_user(py, &e));
                    let item = item.and_then(|item| taken::row(item).map_err(|e| from_value(py, &e)));
                    let item = item.map_err(|e| e.with("sample", sample))?;
                    items.push(item);
                }
                let of_sample = |error: Error| match error.get("row").and_then(|row| row.parse::<usize>().ok()) {
                    Some(row) => error.with("sample", format!("0:{}", seen + row)),
                    None => error,
                };
                let columns = columns_of_rows(py, schema, &items).map_err(|e| of_sample(from_value(py, &e)))?;
                Ok((columns, items.len()))
            };
            let (columns, pulled) = self.inside(name, pull).map_err(|e| explain(e, name, &[]))?;
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
        // Objects are dropped under the GIL, or leaked when the interpreter is gone.
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
    py.import(intern!(py, "forebay._src.functions.randomness"))?.getattr(intern!(py, "Generators"))?.call0()
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the iterator was closed")
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
