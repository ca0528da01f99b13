//! The trial of a function on the first samples.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use forebay_core::{Error, ErrorKind, Result, Seed};
use forebay_data::{Chunk, DType, Field, Kind, Ragged, tensor_shape_of_row, tensor_values};
use forebay_exec::Randomness;
use forebay_plan::Function;
use pyo3::prelude::*;

use super::{BlobSet, Pipeline, attach};
use crate::errors::{from_value, guard, interruptible, is_ours, raise};
use crate::functions::PyFunctions;

/// Samples for the trial of a function: enough to see that shapes differ.
const PROBE_ROWS: usize = 4;
/// The most samples of a second trial: with more, the user would wait long for the error of a plain mistake.
const BATCH_ROWS_MAX: usize = 1024;

impl Pipeline {
    /// Returns the columns that a function returns, found by calling it on the first samples.
    pub(super) fn try_function(
        &self,
        py: Python<'_>,
        function: &str,
        pickle: &[u8],
        makes_rows: bool,
    ) -> PyResult<String> {
        let (blobs, json) = attach(&self.blobs, function, Some(pickle));
        let function: Function =
            serde_json::from_str(&json).map_err(|e| raise(py, &Error::internal(format!("not a function: {e}"))))?;
        let function = Function { batched: function.batched || self.graph.batch().is_some(), ..function };
        let fields = |rows| self.fields_of_first(py, rows, &function, &blobs, makes_rows);
        let is_of_function = |error: &PyErr| is_ours(py, error) && from_value(py, error).kind() == ErrorKind::Function;
        let batch = self.graph.batch().map(|(rows, _)| rows);
        let found = match (fields(PROBE_ROWS), batch.filter(|rows| *rows != PROBE_ROWS && *rows <= BATCH_ROWS_MAX)) {
            // A function may rely on the number of rows of a batch.
            (Err(first), Some(rows)) if is_of_function(&first) => fields(rows).map_err(|second| {
                let is_later = is_ours(py, &second) && !is_of_function(&second);
                if is_later { first } else { second }
            })?,
            (found, _) => found?,
        };
        Ok(serde_json::to_string(&found).unwrap_or_default())
    }

    /// Returns the columns that a function returns for the first rows.
    fn fields_of_first(
        &self,
        py: Python<'_>,
        rows: usize,
        function: &Function,
        blobs: &BlobSet,
        makes_rows: bool,
    ) -> PyResult<Vec<Field>> {
        let (input, of) = interruptible(py, |poll| self.first_rows(rows, poll))?;
        guard(py, || {
            let Some(input) = input else {
                return Err(Error::invalid("the pipeline gives no sample to try the function on")
                    .hint("give schema={\"column\": \"dtype\", ...}"));
            };
            let input = match &function.reads {
                Some(columns) => input.project(columns)?,
                None => input,
            };
            let random = self.graph.nodes().iter().filter(|n| n.op.is_random()).count() as u64;
            let randomness = function.with_rng.then_some(Randomness { seed: Seed(0), random });
            let call = |input: &Chunk| PyFunctions::default().fields(function, blobs, input, randomness, makes_rows);
            let found = call(&input).map_err(|e| of.locate(e))?;
            // Columns that follow the length of a padded batch have another shape in a longer one.
            let found = match longer(&input)?.map(|longer| call(&longer)) {
                Some(Ok(longer)) => crate::functions::probe::of_any_length(found, &longer),
                _ => found,
            };
            // Only the rows of a batch have to have lists of one length.
            let in_batch = self.graph.batch().is_some();
            let found: Vec<Field> = found.into_iter().map(|f| Field { uniform: f.uniform && in_batch, ..f }).collect();
            if makes_rows && found.is_empty() {
                let message = format!("{} made no row of the first {} samples", function.name, input.num_rows());
                return Err(Error::invalid(message).hint("give schema={\"column\": \"dtype\", ...}"));
            }
            Ok(found)
        })
    }
}

/// Returns a batch whose columns that have one shape in each batch are twice as large in their unknown dimensions; `None`
/// if there is no such column.
fn longer(batch: &Chunk) -> Result<Option<Chunk>> {
    let schema = batch.schema().clone();
    let is_padded = |field: &Field| field.uniform && field.kind.known_shape().is_none() && batch.num_rows() > 0;
    if !schema.fields().iter().any(is_padded) {
        return Ok(None);
    }
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        if !is_padded(field) {
            return Ok(column.clone());
        }
        if Ragged::inner(&field.kind).is_none() {
            return larger(field, column);
        }
        let rows = Ragged::of(&field.kind, column)?;
        let twice: Vec<Vec<u8>> = (0..rows.rows()).map(|row| rows.get(row).repeat(2)).collect();
        let twice: Vec<&[u8]> = twice.iter().map(Vec::as_slice).collect();
        let longest = (0..rows.rows()).map(|row| rows.len_of(row)).max().unwrap_or(0);
        let zero = vec![0; field.kind.dtype().map_or(1, DType::size)];
        Ragged::padded(&field.kind, &twice, (longest * 2).max(1), &zero, false)
    });
    let columns = columns.collect::<Result<_>>()?;
    batch.with_columns(schema.clone(), columns).map(Some)
}

/// Returns a column of tensors of one shape that are twice as large in each unknown dimension.
fn larger(field: &Field, column: &ArrayRef) -> Result<ArrayRef> {
    let Kind::Tensor { dtype, shape } = &field.kind else { return Ok(column.clone()) };
    let given = tensor_shape_of_row(&field.kind, column, 0)?;
    let twice: Vec<usize> = given.iter().zip(shape).map(|(is, known)| known.unwrap_or((is * 2).max(1))).collect();
    let numbers = twice.iter().product::<usize>() * column.len();
    let values = tensor_values(&field.kind, column)?;
    let bytes: Vec<u8> = values.iter().copied().cycle().take(numbers * dtype.size()).collect();
    let bytes = if bytes.is_empty() { vec![0; numbers * dtype.size()] } else { bytes };
    Ragged::of_one_shape(*dtype, Buffer::from_vec(bytes), column.len(), &twice)
}
