//! Calls of a user's function for a few rows at a time, between which other jobs have their turn.
//!
//! Only a function that sees one row at a time is called so, and only on threads with [`Preemption`]. A slice has as many
//! rows as take about [`SLICE`], by the time of the rows before.
//!
//! Invariant: the result is that of one call for all rows. Where a call checks its rows as a whole (their bytes, their
//! columns once all were made), one call decides.
//!
//! [`Preemption`]: crate::threads::preemption::Preemption

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_select::concat::concat;
use forebay_core::{Error, ErrorKind, Fault, Result};
use forebay_data::Chunk;

use crate::ops::functions::MadeRows;
use crate::threads::preemption::preemption;

/// How long a slice should take, in nanoseconds.
const SLICE: u64 = 10_000_000;
/// Results of more bytes are made by one call, which knows its own bounds.
const BYTES_MAX: usize = 256 << 20;

/// The result of a call.
pub(crate) trait Joined: Sized {
    /// Returns the bytes in memory.
    fn bytes(&self) -> usize;

    /// Joins the results of slices, of which there is at least one.
    fn join(parts: Vec<Self>) -> Result<Self>;
}

/// The slices of one function.
#[derive(Default)]
pub(crate) struct Slices {
    /// The nanoseconds of a row in the last slice; 0 before the first.
    row_nanos: AtomicU64,
    /// The results are so large that one call makes them.
    is_whole: AtomicBool,
}

impl Slices {
    /// Calls `call` for all rows, in slices where other jobs may wait for this thread.
    pub(crate) fn call<T: Joined>(&self, rows: usize, call: &dyn Fn(Range<usize>) -> Result<T>) -> Result<T> {
        let Some(preemption) = preemption().filter(|_| rows > 1 && !self.is_whole.load(Relaxed)) else {
            return call(0..rows);
        };
        let (mut parts, mut at, mut bytes) = (Vec::new(), 0, 0);
        while at < rows {
            preemption.between_rows();
            let began = preemption.nanos();
            let count = match self.row_nanos.load(Relaxed) {
                0 => 1,
                nanos => (SLICE / nanos).clamp(1, (rows - at) as u64) as usize,
            };
            let part = match call(at..at + count) {
                Err(error) if is_of_all(&error) && count < rows => return call(0..rows),
                part => part?,
            };
            self.row_nanos.store((preemption.nanos().saturating_sub(began) / count as u64).max(1), Relaxed);
            bytes += part.bytes();
            if bytes > BYTES_MAX && count < rows {
                self.is_whole.store(true, Relaxed);
                return call(0..rows);
            }
            parts.push(part);
            at += count;
        }
        T::join(parts)
    }
}

/// Returns whether an error may be one of a check of all rows, before which a later row could have failed.
fn is_of_all(error: &Error) -> bool {
    error.fault() == Fault::Other && error.kind() != ErrorKind::Closed
}

impl Joined for Vec<ArrayRef> {
    fn bytes(&self) -> usize {
        self.iter().map(|column| column.get_buffer_memory_size()).sum()
    }

    fn join(mut parts: Vec<Self>) -> Result<Self> {
        if parts.len() == 1 {
            return Ok(parts.remove(0));
        }
        let columns = parts.first().map_or(0, Vec::len);
        let column = |at: usize| {
            let arrays: Vec<&dyn Array> = parts.iter().filter_map(|part| part.get(at)).map(AsRef::as_ref).collect();
            concat(&arrays).map_err(|e| Error::internal(format!("the columns of slices do not fit: {e}")))
        };
        (0..columns).map(column).collect()
    }
}

impl Joined for Chunk {
    fn bytes(&self) -> usize {
        self.num_bytes()
    }

    fn join(parts: Vec<Self>) -> Result<Self> {
        Self::concat(&parts)
    }
}

impl Joined for BooleanArray {
    fn bytes(&self) -> usize {
        self.get_buffer_memory_size()
    }

    fn join(parts: Vec<Self>) -> Result<Self> {
        Ok(parts.iter().flat_map(BooleanArray::iter).collect())
    }
}

impl Joined for MadeRows {
    fn bytes(&self) -> usize {
        self.columns.bytes()
    }

    fn join(parts: Vec<Self>) -> Result<Self> {
        let (columns, counts): (Vec<_>, Vec<_>) = parts.into_iter().map(|part| (part.columns, part.counts)).unzip();
        Ok(Self { columns: Vec::join(columns)?, counts: counts.concat() })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use arrow_array::Int64Array;

    use super::*;
    use crate::threads::preemption::{Preemption, set_preemption};

    /// A clock that calls move on, and the number of turns that others could have had.
    #[derive(Default)]
    struct Turned {
        nanos: Cell<u64>,
        turns: Cell<usize>,
    }

    impl Preemption for Turned {
        fn nanos(&self) -> u64 {
            self.nanos.get()
        }

        fn between_rows(&self) {
            self.turns.set(self.turns.get() + 1);
        }
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn a_slice_has_as_many_rows_as_take_10_ms_and_the_rows_are_those_of_one_call() {
        let (slices, calls) = (Slices::default(), RefCell::new(Vec::new()));
        let turned = Rc::new(Turned::default());
        let call = |rows: Range<usize>| -> Result<Vec<ArrayRef>> {
            let nanos = rows.clone().map(|row| if row < 8 { 4 * MS } else { MS / 100 }).sum::<u64>();
            turned.nanos.set(turned.nanos.get() + nanos);
            calls.borrow_mut().push(rows.clone());
            Ok(vec![std::sync::Arc::new(Int64Array::from_iter_values(rows.map(|row| row as i64)))])
        };
        let whole = slices.call(100, &call).expect("no row fails");
        assert_eq!(calls.take(), std::iter::once(0..100).collect::<Vec<_>>(), "a thread without turns calls once");
        set_preemption(turned.clone());
        assert_eq!(slices.call(100, &call).expect("no row fails"), whole);
        assert_eq!(calls.take(), [0..1, 1..3, 3..5, 5..7, 7..9, 9..13, 13..100]);
        assert_eq!(turned.turns.get(), 7);
    }

    #[test]
    fn where_a_call_checks_all_rows_one_call_decides() {
        set_preemption(Rc::new(Turned::default()));
        let code = || Error::new(ErrorKind::Function, "other columns").with("fault", "code");
        let call = |rows: Range<usize>| -> Result<Vec<ArrayRef>> {
            match rows.len() {
                10 => Err(Error::new(ErrorKind::Function, "row 5 fails")),
                _ if rows.contains(&2) => Err(code()),
                _ => Ok(Vec::new()),
            }
        };
        let error = Slices::default().call(10, &call).expect_err("row 5 fails before the columns are compared");
        assert_eq!(error.message(), "row 5 fails");
        // The bytes of a slice say nothing about the bytes of all.
        let calls = Cell::new(0);
        let large = |rows: Range<usize>| -> Result<Chunks> {
            calls.set(calls.get() + 1);
            Ok(Chunks(rows.len()))
        };
        let slices = Slices::default();
        assert_eq!(slices.call(10, &large).expect("a result").0, 10);
        assert!(calls.get() < 5, "slices end where the result is large");
        calls.set(0);
        assert_eq!(slices.call(10, &large).expect("a result").0, 10);
        assert_eq!(calls.get(), 1, "the next result is made by one call");
    }

    /// Rows of 128 MiB, which cannot be joined.
    #[derive(Debug)]
    struct Chunks(usize);

    impl Joined for Chunks {
        fn bytes(&self) -> usize {
            self.0 << 27
        }

        fn join(_: Vec<Self>) -> Result<Self> {
            Err(Error::internal("it is too large"))
        }
    }
}
