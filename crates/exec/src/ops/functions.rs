//! The trait by which the engine calls users' Python: a function, an item of a map dataset, or a generator.
//!
//! The `python` crate implements it twice: in this process under the GIL, and in function processes, so that a segfault
//! or an endless loop ends only such a process.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::BooleanArray;
use bytes::Bytes;
use forebay_core::{Error, Result};
use forebay_data::{Chunk, RowId, Schema};
use forebay_plan::{BlobId, Function};

/// A user's pickled object, and its name.
#[derive(Debug, Clone)]
pub struct Pickle {
    /// Its name in the graph; implementations cache the unpickled object by it.
    pub id: BlobId,
    /// The pickle.
    pub bytes: Bytes,
}

/// The source of a call's random numbers: one Philox key and counter for each row (or for each batch).
#[derive(Debug, Clone, Copy)]
pub struct Randomness {
    /// See `forebay_core::rng::op_key`; differs from row to row only under `repeat`.
    pub seed: forebay_core::Seed,
    /// The op's number among the random ops.
    pub random: u64,
}

/// Runs users' Python.
///
/// # Contract
/// Many threads call in parallel. An implementation MUST report errors in the user's terms: kind Function, `traceback`
/// for an exception, `sample` where one row is the cause. It MUST return in bounded time (`Function::timeout_s`) and
/// MUST NOT let the user's code end this process, unless it runs inside it. A method that it does not implement returns
/// an error: this process cannot make such calls.
#[expect(unused_variables, reason = "the names document the arguments")]
pub trait Functions: Send + Sync {
    /// Calls `function` on every row of `input` (or once, when batched) and returns columns of `output`.
    ///
    /// # Errors
    /// Function, when the call raises, returns the wrong structure, dies or does not return.
    fn map(
        &self,
        function: &Function,
        pickle: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
        output: &Arc<Schema>,
    ) -> Result<Vec<ArrayRef>> {
        none()
    }

    /// Calls `function` on every row of `input` (or once, when batched) and returns which rows to keep.
    ///
    /// # Errors
    /// As [`Functions::map`].
    fn filter(
        &self,
        function: &Function,
        pickle: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
    ) -> Result<BooleanArray> {
        none()
    }

    /// Returns items `rows` of a pickled object with `__getitem__`.
    ///
    /// # Errors
    /// As [`Functions::map`].
    fn items(&self, dataset: &Pickle, rows: &[u64], ids: Arc<[RowId]>, schema: &Arc<Schema>) -> Result<Chunk> {
        none()
    }

    /// Calls a pickled function and passes the rows of its iterator to `emit`, `rows` at a time, until it ends or
    /// `emit` fails.
    ///
    /// # Errors
    /// As [`Functions::map`], and any error of `emit`.
    fn generate(
        &self,
        generator: &Pickle,
        rows: usize,
        schema: &Arc<Schema>,
        emit: &mut dyn FnMut(Vec<ArrayRef>, usize) -> Result<()>,
    ) -> Result<()> {
        none()
    }
}

fn none<T>() -> Result<T> {
    Err(Error::invalid("this pipeline calls python, and this process cannot")
        .hint("start workers with the forebay command of the python package"))
}

/// For hosts without Python: every call returns an error.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFunctions;

impl Functions for NoFunctions {}
