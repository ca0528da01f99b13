//! Collects the rows that a user's function makes of rows: `flat_map`.
//!
//! Rows become columns in blocks, so that few Python objects wait. Bounds: the rows of one row, and their bytes; the
//! bytes of all rows together. Whether one row exceeds its bounds depends on that row alone, so a block of which a row
//! is counted has no rows of others.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use forebay_core::{Epoch, Error, ErrorKind, Result, SampleId};
use forebay_data::{Chunk, RowId, Schema};
use forebay_exec::MadeRows;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyMapping, PyString};

use crate::convert::rows::columns_of_rows;
use crate::convert::schema_errors::describe;
use crate::errors::from_value;
use crate::functions::results::{of_code, take_row};

/// The rows of a block.
const BLOCK_ROWS: usize = 64;

/// Returns the next item of a user's iterator.
type Next<'a, 'py> = &'a dyn Fn(&Bound<'py, PyIterator>) -> Result<Option<Bound<'py, PyAny>>>;

/// The rows so far.
pub(crate) struct Collected<'a, 'py> {
    schema: &'a Arc<Schema>,
    count: Option<u32>,
    /// The rows that are not in columns yet, and the number of the row of which each was made.
    waiting: Vec<Bound<'py, PyAny>>,
    made_of: Vec<usize>,
    blocks: Vec<Vec<ArrayRef>>,
    bytes: usize,
}

impl<'a, 'py> Collected<'a, 'py> {
    /// Starts without rows. `count` is the number that has to be made of each row.
    pub(crate) fn new(schema: &'a Arc<Schema>, count: Option<u32>) -> Self {
        Self { schema, count, waiting: Vec::new(), made_of: Vec::new(), blocks: Vec::new(), bytes: 0 }
    }

    /// Takes the rows that a function returned, or yields, for the row of this number, and returns how many they are.
    ///
    /// # Errors
    /// The exception of a generator; Function when it is no iterable of rows, or exceeds a bound.
    pub(crate) fn take(&mut self, row: usize, value: &Bound<'py, PyAny>, next: Next<'_, 'py>) -> Result<u32> {
        let (py, rows) = (value.py(), rows_of(value)?);
        let (mut made, mut own_bytes) = (0u32, 0);
        while let Some(item) = next(&rows)? {
            made += 1;
            MadeRows::check(made, false, self.count)?;
            self.waiting.push(take_row(item)?);
            self.made_of.push(row);
            if (made as usize).is_multiple_of(BLOCK_ROWS) {
                let bytes = self.convert(py)?;
                // The first of its blocks may have rows of others.
                own_bytes += if made as usize > BLOCK_ROWS { bytes } else { 0 };
                MadeRows::check_bytes(own_bytes)?;
            }
        }
        MadeRows::check(made, true, self.count)?;
        if self.waiting.len() >= BLOCK_ROWS {
            self.convert(py)?;
        }
        Ok(made)
    }

    /// Returns all rows.
    pub(crate) fn finish(mut self, py: Python<'py>, counts: Vec<u32>) -> Result<MadeRows> {
        if !self.waiting.is_empty() || self.blocks.is_empty() {
            self.convert(py)?;
        }
        let chunk = |columns: Vec<ArrayRef>| {
            let rows = columns.first().map_or(0, |column| column.len());
            Chunk::new(self.schema.clone(), columns, vec![RowId { sample: SampleId(0), epoch: Epoch(0) }; rows].into())
        };
        let blocks = std::mem::take(&mut self.blocks).into_iter().map(chunk).collect::<Result<Vec<_>>>()?;
        Ok(MadeRows { columns: Chunk::concat(&blocks)?.columns().to_vec(), counts })
    }

    /// Makes columns of the waiting rows, and returns their bytes.
    fn convert(&mut self, py: Python<'py>) -> Result<usize> {
        let (rows, made_of) = (std::mem::take(&mut self.waiting), std::mem::take(&mut self.made_of));
        let blame = |error: Error| {
            let row = error.get("row").and_then(|row| made_of.get(row.parse::<usize>().ok()?));
            of_code(row.map_or(error.clone(), |row| error.replace("row", row.to_string())))
        };
        let columns = columns_of_rows(py, self.schema, &rows).map_err(|e| blame(from_value(py, &e)))?;
        let bytes = columns.iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum::<usize>();
        self.blocks.push(columns);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MadeRows::BYTES_MAX { Err(MadeRows::too_large()) } else { Ok(bytes) }
    }
}

/// Returns an iterator over the rows that a function returned.
///
/// # Errors
/// Function when the value is no iterable of rows.
pub(crate) fn rows_of<'py>(value: &Bound<'py, PyAny>) -> Result<Bound<'py, PyIterator>> {
    let is_one = value.cast::<PyMapping>().is_ok();
    let is_text = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
    let hint = match (is_one, value.is_none()) {
        (true, _) => "return [row], or yield the row",
        (_, true) => "return [] where a row makes no row, or write yield for each row",
        _ => "return a list of dictionaries, or yield each",
    };
    let rows = if is_one || is_text { None } else { value.try_iter().ok() };
    rows.ok_or_else(|| {
        let message = format!("returned the wrong structure: {} instead of several rows", describe(value));
        of_code(Error::new(ErrorKind::Function, message).hint(hint))
    })
}
