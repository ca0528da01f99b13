//! Users' functions in Python processes of their own, which a segfault or an endless loop cannot take down with them.
//!
//! ```text
//! ProcessFunctions   a pool: each call takes an idle child, or starts one
//! child::Child       one process: its socket, its shared memory, its death
//! wire               requests and replies: JSON on the socket, rows as Arrow IPC in a memfd
//! host               the other end, in the child
//! ```
//!
//! Invariants: a child serves one call at a time; a child that did not answer in time, or whose stream is out of step,
//! is killed and never used again; children end when this process ends, however it ends.

mod child;
pub(crate) mod host;
mod wire;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::{ArrayRef, BooleanArray};
use forebay_core::{Error, Result};
use forebay_data::{Chunk, RowId, Schema};
use forebay_exec::{Functions, Pickle, Randomness};
use forebay_plan::Function;

use crate::functions::{closed, lock};
use child::{Child, Python, Watch};
use wire::{Body, Call};

/// How long one item of a map dataset may take, and how long a generator may take for its next one.
const ITEM_TIMEOUT: Duration = Duration::from_secs(300);

/// Runs users' functions in other processes. See the module's documentation.
pub(crate) struct ProcessFunctions {
    python: Python,
    idle: Mutex<Vec<Child>>,
    /// The process ids of all children, to be killed by [`ProcessFunctions::stop`].
    live: Arc<Mutex<Vec<u32>>>,
    stopped: AtomicBool,
}

impl ProcessFunctions {
    /// Prepares a pool; nothing is started before the first call.
    pub(crate) fn new(executable: String, path: Vec<String>) -> Self {
        let live = Arc::new(Mutex::new(Vec::new()));
        Self { python: Python { executable, path }, idle: Mutex::default(), live, stopped: AtomicBool::new(false) }
    }

    /// Kills every child; calls under way end with an error.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        for &pid in lock(&self.live).iter() {
            child::kill(pid);
        }
        lock(&self.idle).clear();
    }

    /// Hands `work` a child, which is kept for the next call unless the work failed in a way that says it is not fit.
    fn with_child<T>(&self, work: impl FnOnce(&mut Child) -> Result<T>) -> Result<T> {
        if self.stopped.load(Ordering::SeqCst) {
            return Err(closed());
        }
        let idle = lock(&self.idle).pop();
        let mut child = match idle {
            Some(child) => child,
            None => Child::start(&self.python, self.live.clone())?,
        };
        let result = work(&mut child);
        if self.stopped.load(Ordering::SeqCst) {
            return Err(closed());
        }
        if child.is_fit() {
            lock(&self.idle).push(child);
        }
        result
    }
}

impl Drop for ProcessFunctions {
    fn drop(&mut self) {
        self.stop();
    }
}

fn columns(child: &Child, body: Body, schema: &Arc<Schema>) -> Result<Option<(Vec<ArrayRef>, usize)>> {
    match body {
        Body::Columns { .. } => child.reply_rows(schema).map(|c| Some((c.columns().to_vec(), c.num_rows()))),
        Body::End => Ok(None),
        other => Err(Error::internal(format!("a function process answered {other:?}"))),
    }
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
        let watch = Watch::function("map", function, input);
        let call = Call::Map {
            function: function.clone(),
            randomness: randomness.map(Into::into),
            input: (**input.schema()).clone(),
            output: (**output).clone(),
        };
        self.with_child(|child| {
            let body = child.call(call, Some(pickle), Some(input), &watch)?;
            columns(child, body, output)?
                .map(|c| c.0)
                .ok_or_else(|| Error::internal("a function process gave no columns"))
        })
    }

    fn filter(
        &self,
        function: &Function,
        pickle: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
    ) -> Result<BooleanArray> {
        let watch = Watch::function("filter", function, input);
        let input_schema = (**input.schema()).clone();
        let call =
            Call::Filter { function: function.clone(), randomness: randomness.map(Into::into), input: input_schema };
        self.with_child(|child| match child.call(call, Some(pickle), Some(input), &watch)? {
            Body::Keep { rows } => Ok(rows.into()),
            other => Err(Error::internal(format!("a function process answered {other:?}"))),
        })
    }

    fn items(&self, dataset: &Pickle, rows: &[u64], ids: Arc<[RowId]>, schema: &Arc<Schema>) -> Result<Chunk> {
        let watch = Watch::items("from_map_dataset", &ids, ITEM_TIMEOUT);
        let wire_ids = ids.iter().map(|id| (id.sample.0, id.epoch.0)).collect();
        let call = Call::Items { rows: rows.to_vec(), ids: wire_ids, output: (**schema).clone() };
        self.with_child(|child| {
            let body = child.call(call, Some(dataset), None, &watch)?;
            let (columns, _) =
                columns(child, body, schema)?.ok_or_else(|| Error::internal("a function process gave no columns"))?;
            Chunk::new(schema.clone(), columns, ids.clone())
        })
    }

    fn generate(
        &self,
        generator: &Pickle,
        rows: usize,
        schema: &Arc<Schema>,
        emit: &mut dyn FnMut(Vec<ArrayRef>, usize) -> Result<()>,
    ) -> Result<()> {
        let watch = Watch::items("from_generator", &[], ITEM_TIMEOUT);
        let mut call = Call::Generate { rows, output: (**schema).clone() };
        let mut pickle = Some(generator);
        self.with_child(|child| {
            loop {
                let body = child.call(call, pickle.take(), None, &watch)?;
                let Some((columns, rows)) = columns(child, body, schema)? else { return Ok(()) };
                if let Err(e) = emit(columns, rows) {
                    child.retire();
                    return Err(e);
                }
                call = Call::More;
            }
        })
    }
}
