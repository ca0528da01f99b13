//! The trait by which the engine calls users' Python: a function, an item of a map dataset, or a generator.
//!
//! The `python` crate implements it twice: in this process under the GIL, and in function processes, so that a segfault
//! or an endless loop ends only such a process.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::BooleanArray;
use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Chunk, RowId, Schema};
use forebay_plan::ops::FlatMap;
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

/// The rows that a function has made of its input rows.
#[derive(Debug, Clone, PartialEq)]
pub struct MadeRows {
    /// The columns of all these rows, in order.
    pub columns: Vec<ArrayRef>,
    /// The number of rows that the function made of each input row.
    pub counts: Vec<u32>,
}

impl MadeRows {
    /// The most bytes of the rows that one call makes: rows of neighbouring samples are computed together.
    pub const BYTES_MAX: usize = 1 << 30;

    /// Checks the number of rows that a function made of one row: so far, or in all. `count` is the required number.
    ///
    /// # Errors
    /// Function when there are too many, or in all too few.
    pub fn check(made: u32, in_all: bool, count: Option<u32>) -> Result<()> {
        let most = FlatMap::ROWS_MAX;
        let (message, hint) = match count {
            Some(count) if made > count => {
                (format!("made more than the {count} rows that count= says"), "make exactly count= rows of each row")
            }
            Some(count) if in_all && made < count => {
                (format!("made {made} rows of a row, and count= says {count}"), "make exactly count= rows of each row")
            }
            None if made > most => (
                format!("made more than {most} rows of one row"),
                "make fewer: cut the row into parts before, or write the rows to files once and read these",
            ),
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::Function, message).hint(hint))
    }

    /// Checks the bytes of the rows that a function made of one row.
    ///
    /// # Errors
    /// Function when there are more than [`FlatMap::BYTES_MAX`].
    pub fn check_bytes(bytes: usize) -> Result<()> {
        if bytes <= FlatMap::BYTES_MAX {
            return Ok(());
        }
        let message = format!("made more than {} MiB of rows of one row", FlatMap::BYTES_MAX >> 20);
        Err(Error::new(ErrorKind::Function, message).hint(SMALLER))
    }

    /// Returns the error for a call whose rows exceed [`MadeRows::BYTES_MAX`].
    pub fn too_large() -> Error {
        let most = Self::BYTES_MAX >> 20;
        Error::new(ErrorKind::Exhausted, format!("made more than {most} MiB of rows that are computed together"))
            .hint(SMALLER)
    }
}

/// The hint for rows of too many bytes.
const SMALLER: &str = "make smaller rows, as names or encoded bytes that a later op decodes, or fewer of them";

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

    /// Calls `function` on every row of `input` and returns the rows of `output` that it returns or yields; `count` of
    /// each, if that is set.
    ///
    /// # Errors
    /// As [`Functions::map`]; errors of [`MadeRows`].
    fn flat_map(
        &self,
        function: &Function,
        pickle: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
        output: &Arc<Schema>,
        count: Option<u32>,
    ) -> Result<MadeRows> {
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
