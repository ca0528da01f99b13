//! Users' functions in separate Python processes, so that a segfault or an endless loop does not end this process.
//!
//! ```text
//! ProcessFunctions   a pool: each call takes an idle child, or starts one
//! kept::             children that wait for the next iterator
//! child::Child       one process: its socket, its shared memory, its death
//! wire               requests and replies: JSON on the socket, rows as Arrow IPC in a memfd
//! host               the other end, in the child
//! ```
//!
//! Invariants: a child serves one call at a time; a child that did not answer in time, or whose stream is out of step,
//! is killed and never used again; children end when this process ends, however it ends.

mod child;
pub(crate) mod host;
pub(crate) mod kept;
mod wire;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, BooleanArray};
use forebay_core::{Error, Result};
use forebay_data::{Chunk, RowId, Schema};
use forebay_exec::{CallFailure, DEATHS_MAX, Functions, MadeRows, Pickle, Randomness, blamed, retry_after_deaths};
use forebay_plan::{BlobId, Function};

use crate::functions::{closed, lock};
use child::{Child, Python, Watch};
use kept::Key;
use wire::{Body, Call};

/// How long one item of a map dataset may take, and how long a generator may take for its next one.
const ITEM_TIMEOUT: Duration = Duration::from_secs(300);
/// How many processes of a generator may die without new output, at any place in it.
const DEATHS_IN_VAIN_MAX: usize = 16;
/// How often a process that dies while it starts is started again.
const STARTS_MAX: usize = 5;

/// When the pool was stopped, if it was.
type Stopped = OnceLock<Instant>;

/// Runs users' functions in other processes. See the module's documentation.
pub(crate) struct ProcessFunctions {
    key: Key,
    /// Whether processes are kept for another pool of these functions.
    keeps: bool,
    idle: Mutex<Vec<Child>>,
    stopped: Stopped,
}

impl ProcessFunctions {
    /// Prepares a pool; starts nothing before the first call. With the objects of a pipeline it is for these alone.
    pub(crate) fn new(executable: String, path: Vec<String>, objects: Option<Vec<BlobId>>) -> Self {
        let keeps = objects.is_some();
        let mut objects = objects.unwrap_or_default();
        objects.sort_by(|a, b| a.0.cmp(&b.0));
        let key = Key { python: Python::new(executable, path), objects };
        Self { key, keeps, idle: Mutex::default(), stopped: Stopped::new() }
    }

    /// Ends running calls soon; kills processes that do not finish a row in time.
    pub(crate) fn stop(&self) {
        self.stopped.get_or_init(Instant::now);
        self.rest();
    }

    /// Releases the idle processes, if others may use them.
    pub(crate) fn rest(&self) {
        if !self.keeps && self.stopped.get().is_none() {
            return;
        }
        for child in std::mem::take(&mut *lock(&self.idle)) {
            self.let_go(child);
        }
    }

    fn let_go(&self, child: Child) {
        if self.keeps {
            kept::give(&self.key, child);
        }
    }

    /// Takes back a process that is fit.
    fn give(&self, child: Child) {
        match self.stopped.get() {
            None => lock(&self.idle).push(child),
            Some(_) => self.let_go(child),
        }
    }

    fn take_idle(&self, object: &BlobId) -> Option<Child> {
        let mut idle = lock(&self.idle);
        if let Some(place) = idle.iter().rposition(|child| !child.refuses(object)) {
            return Some(idle.remove(place));
        }
        drop(idle);
        self.keeps.then(|| kept::take(&self.key)).flatten()
    }

    /// Returns a process that may get this object.
    fn take(&self, object: &BlobId) -> Result<Child> {
        // The death of an idle process says nothing about the rows that it would have got.
        while let Some(mut child) = self.take_idle(object) {
            if child.is_alive() {
                return Ok(child);
            }
        }
        let mut tries = 1;
        loop {
            match Child::start(&self.key.python, &self.stopped) {
                Err(CallFailure::Died(..)) if tries < STARTS_MAX && self.stopped.get().is_none() => tries += 1,
                Err(CallFailure::Died(_, error) | CallFailure::Other(error)) => return Err(error),
                Ok(child) => return Ok(child),
            }
        }
    }

    /// Calls `work` with a child, which is kept for the next call unless the work failed in a way that makes it unfit.
    fn with_child<T>(
        &self,
        object: &BlobId,
        work: &mut dyn FnMut(&mut Child) -> Result<T>,
    ) -> std::result::Result<T, CallFailure> {
        loop {
            if self.stopped.get().is_some() {
                return Err(closed().into());
            }
            let mut child = self.take(object)?;
            let is_new = child.is_new();
            let result = work(&mut child);
            let death = child.death();
            let refused = matches!(&result, Err(e) if e.get("fault") == Some("modules"));
            if refused {
                child.refuse(object);
            }
            if child.is_fit() {
                self.give(child);
            }
            if self.stopped.get().is_some() {
                return Err(closed().into());
            }
            match (result, death) {
                (Err(error), Some(row)) => return Err(CallFailure::Died(row, error)),
                // The modules of another job conflict in this process alone.
                (Err(_), _) if refused && !is_new => {}
                (result, _) => return result.map_err(CallFailure::Other),
            }
        }
    }

    fn watch<'a>(&'a self, what: String, ids: &'a [RowId], by_row: bool, timeout: Duration) -> Watch<'a> {
        Watch { what, ids, by_row, timeout, stopped: &self.stopped }
    }

    fn watch_function<'a>(&'a self, op: &str, function: &Function, input: &'a Chunk) -> Watch<'a> {
        let timeout = Duration::try_from_secs_f64(function.timeout_s).unwrap_or(Duration::MAX);
        self.watch(format!("{op}({})", function.name), input.ids(), !function.batched, timeout)
    }
}

impl Drop for ProcessFunctions {
    fn drop(&mut self) {
        self.stop();
    }
}

fn rows_of(child: &Child, body: Body, schema: &Arc<Schema>) -> Result<Option<Chunk>> {
    match body {
        Body::Columns { .. } => child.reply_rows(schema).map(Some),
        Body::End => Ok(None),
        other => Err(Error::internal(format!("a function process answered {other:?}"))),
    }
}

fn no_columns() -> Error {
    Error::internal("a function process gave no columns")
}

/// Concatenates the rows of calls.
fn joined(mut parts: Vec<Chunk>) -> Result<Vec<ArrayRef>> {
    let all = if parts.len() == 1 { parts.remove(0) } else { Chunk::concat(&parts)? };
    Ok(all.columns().to_vec())
}

impl Functions for ProcessFunctions {
    fn map(
        &self,
        function: &Function,
        pickle: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
        output: &Arc<Schema>,
    ) -> Result<Vec<ArrayRef>> {
        let parts = retry_after_deaths(input.num_rows(), !function.batched, &|rows| {
            let input = input.slice(rows.start, rows.len());
            let watch = self.watch_function("map", function, &input);
            self.with_child(&pickle.id, &mut |child| {
                let call = Call::Map {
                    function: function.clone(),
                    randomness: randomness.map(Into::into),
                    input: (**input.schema()).clone(),
                    output: (**output).clone(),
                };
                let body = child.call(call, Some(pickle), Some(&input), &watch)?;
                rows_of(child, body, output)?.ok_or_else(no_columns)
            })
        })?;
        joined(parts)
    }

    fn filter(
        &self,
        function: &Function,
        pickle: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
    ) -> Result<BooleanArray> {
        let parts = retry_after_deaths(input.num_rows(), !function.batched, &|rows| {
            let input = input.slice(rows.start, rows.len());
            let watch = self.watch_function("filter", function, &input);
            self.with_child(&pickle.id, &mut |child| {
                let schema = (**input.schema()).clone();
                let randomness = randomness.map(Into::into);
                let call = Call::Filter { function: function.clone(), randomness, input: schema };
                match child.call(call, Some(pickle), Some(&input), &watch)? {
                    Body::Keep { rows } => Ok(rows),
                    other => Err(Error::internal(format!("a function process answered {other:?}"))),
                }
            })
        })?;
        Ok(parts.concat().into())
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
        let parts = retry_after_deaths(input.num_rows(), true, &|rows| {
            let input = input.slice(rows.start, rows.len());
            let watch = self.watch_function("flat_map", function, &input);
            self.with_child(&pickle.id, &mut |child| {
                let call = Call::FlatMap {
                    function: function.clone(),
                    randomness: randomness.map(Into::into),
                    input: (**input.schema()).clone(),
                    output: (**output).clone(),
                    count,
                };
                match child.call(call, Some(pickle), Some(&input), &watch)? {
                    Body::Made { counts, .. } => Ok((child.reply_rows(output)?, counts)),
                    other => Err(Error::internal(format!("a function process answered {other:?}"))),
                }
            })
        })?;
        let (parts, counts): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        Ok(MadeRows { columns: joined(parts)?, counts: counts.concat() })
    }

    fn items(&self, dataset: &Pickle, rows: &[u64], ids: Arc<[RowId]>, schema: &Arc<Schema>) -> Result<Chunk> {
        let parts = retry_after_deaths(rows.len(), true, &|part| {
            let (rows, ids) = (&rows[part.clone()], &ids[part]);
            let watch = self.watch("from_map_dataset".to_owned(), ids, true, ITEM_TIMEOUT);
            self.with_child(&dataset.id, &mut |child| {
                let wire_ids = ids.iter().map(|id| (id.sample.0, id.epoch.0)).collect();
                let call = Call::Items { rows: rows.to_vec(), ids: wire_ids, output: (**schema).clone() };
                let body = child.call(call, Some(dataset), None, &watch)?;
                rows_of(child, body, schema)?.ok_or_else(no_columns)
            })
        })?;
        Chunk::new(schema.clone(), joined(parts)?, ids)
    }

    fn generate(
        &self,
        generator: &Pickle,
        rows: usize,
        schema: &Arc<Schema>,
        emit: &mut dyn FnMut(Vec<ArrayRef>, usize) -> Result<()>,
    ) -> Result<()> {
        // A generator that lost its process begins again, and the rows that it has already yielded are left out.
        let (mut emitted, mut at, mut deaths, mut in_vain) = (0, None, 0, 0);
        loop {
            let before = emitted;
            let ran = self.with_child(&generator.id, &mut |child| {
                self.pull(child, generator, rows, schema, before, &mut |chunk| {
                    emitted += 1;
                    emit(chunk.columns().to_vec(), chunk.num_rows())
                })
            });
            match ran {
                Err(CallFailure::Died(item, error)) => {
                    deaths = if at == Some(item) { deaths + 1 } else { 1 };
                    in_vain = if emitted > before { 1 } else { in_vain + 1 };
                    at = Some(item);
                    if deaths >= DEATHS_MAX || in_vain >= DEATHS_IN_VAIN_MAX {
                        return Err(blamed(error));
                    }
                }
                Err(CallFailure::Other(error)) => return Err(error),
                Ok(()) => return Ok(()),
            }
        }
    }
}

impl ProcessFunctions {
    /// Runs a generator from its start, and hands over the chunks after the first `before` ones.
    fn pull(
        &self,
        child: &mut Child,
        generator: &Pickle,
        rows: usize,
        schema: &Arc<Schema>,
        before: usize,
        emit: &mut dyn FnMut(Chunk) -> Result<()>,
    ) -> Result<()> {
        let watch = self.watch("from_generator".to_owned(), &[], true, ITEM_TIMEOUT);
        let mut call = Call::Generate { rows, output: (**schema).clone() };
        let mut pickle = Some(generator);
        for number in 0.. {
            let body = child.call(call, pickle.take(), None, &watch)?;
            let Some(chunk) = rows_of(child, body, schema)? else { return Ok(()) };
            if number >= before
                && let Err(e) = emit(chunk)
            {
                child.retire();
                return Err(e);
            }
            call = Call::More;
        }
        Ok(())
    }
}
