//! Finds functions whose result depends on more than their row: calls them again for a few rows, and compares bits.
//!
//! A hash of the row's id selects the rows, so every run checks the same ones. Checking one row in [`EVERY`] costs less
//! than a hundredth of the function's time. Each op warns once; the check changes no row.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arrow_array::{Array, ArrayRef};
use forebay_core::rng::op_key;
use forebay_core::{Error, ErrorKind, Result, Seed};
use forebay_data::{Chunk, Loss, RowId, Schema};

/// One row in this many is computed twice; for a batched function, one call.
const EVERY: u64 = 128;

/// The check of one function.
#[derive(Debug, Default)]
pub(crate) struct DeterminismCheck {
    /// Whether it has warned.
    has_warned: AtomicBool,
}

/// The result of a call.
#[derive(Clone, Copy)]
pub(crate) struct Made<'a> {
    pub(crate) columns: &'a [ArrayRef],
    /// The number of rows that the function made of each row, if it may differ from one.
    pub(crate) counts: Option<&'a [u32]>,
}

impl Made<'_> {
    /// Returns the output of `rows` input rows from `first` on.
    fn of(&self, first: usize, rows: usize) -> Vec<ArrayRef> {
        let made = |rows: &[u32]| rows.iter().map(|&count| count as usize).sum();
        let (first, rows) = match self.counts {
            Some(counts) => (made(&counts[..first]), made(&counts[first..first + rows])),
            None => (first, rows),
        };
        self.columns.iter().map(|column| column.slice(first, rows)).collect()
    }
}

impl DeterminismCheck {
    /// Calls a function again for some rows, and compares with `output`; a `batched` function sees all rows at once.
    /// Returns a warning about the first row that differs.
    pub(crate) fn check(
        &self,
        input: &Chunk,
        output: Made<'_>,
        schema: &Schema,
        batched: bool,
        call: &dyn Fn(&Chunk) -> Result<Vec<ArrayRef>>,
    ) -> Option<Loss> {
        if self.has_warned.load(Relaxed) {
            return None;
        }
        let ids = input.ids();
        let (calls, size) = if batched { (1, ids.len()) } else { (ids.len(), 1) };
        let chosen = (0..calls.min(ids.len())).filter(|&i| is_chosen(ids[i]));
        for row in chosen {
            let first = output.of(row, size);
            let what = match call(&input.slice(row, size)) {
                Ok(again) => differing(&first, &again, schema),
                // The iterator was closed, or memory ran out: this says nothing about the function.
                Err(error) if error.kind() != ErrorKind::Function => None,
                Err(error) => Some(format!("it {}", error.message())),
            };
            if let Some(what) = what {
                self.has_warned.store(true, Relaxed);
                let message = "a function gave another result when it was called again for the same sample";
                let error = Error::new(ErrorKind::Function, message)
                    .with("fault", "nondeterministic")
                    .with("sample", ids[row].sample)
                    .with("differs", what)
                    .hint(
                        "draw random numbers from the generator that a second parameter named rng gets; keep clocks, \
                           counters and the network out of it, or the stream changes when a worker is lost",
                    );
                return Some(Loss { row: ids[row], error, record: None });
            }
        }
        None
    }
}

fn is_chosen(id: RowId) -> bool {
    op_key(Seed(id.sample.0), id.epoch, 0).is_multiple_of(EVERY)
}

/// Returns the name of the first column that differs in a bit.
fn differing(first: &[ArrayRef], again: &[ArrayRef], schema: &Schema) -> Option<String> {
    let differs = first.iter().zip(again).position(|(a, b)| a.to_data() != b.to_data())?;
    Some(schema.fields().get(differs).map_or("its verdict".to_owned(), |field| format!("column {:?}", field.name)))
}
