//! Finds the rows of a chunk that fail, runs the op without them, and records each with its error.
//!
//! When an op fails on a run of rows, the run is cut at the row that the error names, and both sides run again: at most
//! twice the work for any number of failed rows. If the error names no row, the run is halved.
//!
//! The rows that an op has made of one row are skipped together: the unit that fails, is recorded, and fails again is
//! the sample.
//!
//! Invariants: whether a row is skipped depends on the row and the pipeline alone, not on its neighbours or on the
//! thread; an error that is not of a row ([`Fault::Other`]) is never skipped.

use std::collections::HashSet;
use std::ops::Range;

use bytes::Bytes;
use forebay_core::{Epoch, Error, Fault, Result};
use forebay_data::{Chunk, Loss, RowId, write_ipc};
use forebay_io::Place;
use forebay_plan::OnError;

use crate::executable::row_source::RowSource;
use crate::skip::known_skips::KnownSkips;

/// The source of the records of skipped rows.
enum RecordSource<'a> {
    /// No record is kept.
    Nowhere,
    /// The rows as they were read.
    Read(Chunk),
    /// Returns a row by its id.
    By(&'a dyn Fn(RowId) -> Option<Chunk>),
}

/// The rows that one morsel has skipped so far.
pub(crate) struct Isolation<'a> {
    on_error: OnError,
    source: RecordSource<'a>,
    losses: Vec<Loss>,
    /// Every skipped row, also rows that are not reported.
    failed: HashSet<RowId>,
    /// Replaces a sample's number in an error by its name for the user.
    locate: &'a dyn Fn(Error) -> Error,
}

impl<'a> Isolation<'a> {
    pub(crate) fn new(on_error: OnError, locate: &'a dyn Fn(Error) -> Error) -> Self {
        Self { on_error, source: RecordSource::Nowhere, losses: Vec::new(), failed: HashSet::new(), locate }
    }

    /// Uses `read` from here on for the records of skipped rows; it returns a row as it was before any op.
    pub(crate) fn reading(self, read: &'a dyn Fn(RowId) -> Option<Chunk>) -> Self {
        let source = if self.on_error == OnError::Quarantine { RecordSource::By(read) } else { RecordSource::Nowhere };
        Self { source, ..self }
    }

    /// Adds losses that were found elsewhere.
    pub(crate) fn take(&mut self, losses: Vec<Loss>) {
        self.losses.extend(losses);
    }

    /// Sets the rows as they were read, before any op.
    pub(crate) fn set_source(&mut self, chunk: &Chunk) {
        let kept = self.on_error == OnError::Quarantine;
        self.source = if kept { RecordSource::Read(chunk.clone()) } else { RecordSource::Nowhere };
    }

    /// Adds the rows that a reader could not decode.
    ///
    /// # Errors
    /// The error of the first of them, where no row may be skipped.
    pub(crate) fn take_unread(&mut self, losses: &[Loss]) -> Result<()> {
        for loss in losses {
            if !self.may_skip(&loss.error) {
                return Err(loss.error.clone());
            }
            self.skip(loss.row, loss.error.clone());
        }
        Ok(())
    }

    /// Returns the rows that were skipped, and warnings.
    pub(crate) fn into_losses(self) -> Vec<Loss> {
        self.losses
    }

    /// Says whether a row is missing because it failed, not because of a filter.
    pub(crate) fn has_failed(&self, row: RowId) -> bool {
        self.failed.contains(&row)
    }

    fn may_skip(&self, error: &Error) -> bool {
        self.on_error.is_tolerant() && error.fault() != Fault::Other
    }

    /// Skips a row.
    pub(crate) fn skip(&mut self, row: RowId, error: Error) {
        let record = self.record(row);
        self.skip_recorded(row, error, record);
    }

    fn skip_recorded(&mut self, row: RowId, error: Error, record: Option<Bytes>) {
        self.failed.insert(row);
        if error.fault() == Fault::Skip {
            return;
        }
        let error = (self.locate)(error.with("sample", row.sample)).bounded();
        self.losses.push(Loss { row, error, record });
    }

    /// Moves the warnings of an op from its chunk to the losses.
    fn take_warnings(&mut self, done: Chunk) -> Chunk {
        for warning in done.losses() {
            self.losses.push(Loss { error: (self.locate)(warning.error.clone()).bounded(), ..warning.clone() });
        }
        done.with_losses(Vec::new())
    }

    fn record(&self, row: RowId) -> Option<Bytes> {
        let record = match &self.source {
            RecordSource::Nowhere => None,
            RecordSource::Read(chunk) => chunk.ids().iter().position(|id| *id == row).map(|at| chunk.slice(at, 1)),
            RecordSource::By(read) => read(row),
        };
        written(record)
    }

    /// Runs an op on rows, without the failing rows.
    ///
    /// # Errors
    /// An error that is not of a row; with [`OnError::Raise`], any error of the op.
    pub(crate) fn run(&mut self, chunk: &Chunk, op: &mut dyn FnMut(&Chunk) -> Result<Chunk>) -> Result<Chunk> {
        let error = match op(chunk) {
            Ok(done) => return Ok(self.take_warnings(done)),
            Err(error) => error,
        };
        let mut parts = Vec::new();
        self.cut(error, chunk, op, &mut parts)?;
        if parts.is_empty() {
            parts.push(op(&chunk.slice(0, 0))?);
        }
        self.whole_samples(Chunk::concat(&parts)?)
    }

    /// Removes the rows of samples of which another row has failed.
    fn whole_samples(&self, chunk: Chunk) -> Result<Chunk> {
        if !chunk.has_parts() {
            return Ok(chunk);
        }
        chunk.filter(&chunk.ids().iter().map(|id| Some(!self.failed.contains(id))).collect())
    }

    /// Cuts a run that failed, and runs the remaining rows.
    fn cut(
        &mut self,
        error: Error,
        chunk: &Chunk,
        op: &mut dyn FnMut(&Chunk) -> Result<Chunk>,
        parts: &mut Vec<Chunk>,
    ) -> Result<()> {
        if !self.may_skip(&error) || chunk.num_rows() == 0 {
            return Err(error);
        }
        let rows = chunk.num_rows();
        match named(&error, chunk) {
            Some(Range { start, end }) => {
                self.part(&chunk.slice(0, start), op, parts)?;
                // The rows of one sample are one loss.
                if !(chunk.has_parts() && self.failed.contains(&chunk.ids()[start])) {
                    self.skip(chunk.ids()[start], error);
                }
                self.part(&chunk.slice(end, rows - end), op, parts)
            }
            None => {
                self.part(&chunk.slice(0, rows / 2), op, parts)?;
                self.part(&chunk.slice(rows / 2, rows - rows / 2), op, parts)
            }
        }
    }

    fn part(
        &mut self,
        chunk: &Chunk,
        op: &mut dyn FnMut(&Chunk) -> Result<Chunk>,
        parts: &mut Vec<Chunk>,
    ) -> Result<()> {
        if chunk.num_rows() == 0 {
            return Ok(());
        }
        match op(chunk) {
            Ok(done) => parts.push(self.take_warnings(done)),
            Err(error) => self.cut(error, chunk, op, parts)?,
        }
        Ok(())
    }

    /// Reads rows, without the unreadable ones.
    ///
    /// # Errors
    /// As [`Isolation::run`].
    pub(crate) fn gather(&mut self, rows: &RowSource, places: &[Place]) -> Result<Chunk> {
        let error = match rows.gather(places) {
            Ok(chunk) => return Ok(self.take_warnings(chunk)),
            Err(error) => error,
        };
        let mut parts = Vec::new();
        self.unread(error, rows, places, &mut parts)?;
        if parts.is_empty() {
            parts.push(rows.gather(&[])?);
        }
        Chunk::concat(&parts)
    }

    fn unread(&mut self, error: Error, rows: &RowSource, places: &[Place], parts: &mut Vec<Chunk>) -> Result<()> {
        if !self.may_skip(&error) || places.is_empty() {
            return Err(error);
        }
        let is_named = |place: &Place| {
            let (number, text) = rows.name(place.row);
            error.get("sample").is_some_and(|s| s == text || s == number.to_string())
        };
        let mut found = places.iter().enumerate().filter(|(_, place)| is_named(place)).map(|(i, _)| i);
        let row = match (found.next(), found.next(), places.len()) {
            (Some(row), None, _) => Some(row),
            (_, _, 1) => Some(0),
            _ => None,
        };
        let (before, after) = match row {
            Some(row) => (&places[..row], &places[row + 1..]),
            None => places.split_at(places.len() / 2),
        };
        self.read(rows, before, parts)?;
        if let Some(row) = row {
            let place = places[row];
            // With an op in the error, a dataset of several could read this row, and one of its ops failed on it.
            let part = error.get("part").filter(|_| self.on_error == OnError::Quarantine && error.get("op").is_some());
            let record = written(part.and_then(|part| rows.as_read(place, part)));
            self.skip_recorded(RowId { sample: rows.name(place.row).0, epoch: place.epoch }, error, record);
        }
        self.read(rows, after, parts)
    }

    fn read(&mut self, rows: &RowSource, places: &[Place], parts: &mut Vec<Chunk>) -> Result<()> {
        if places.is_empty() {
            return Ok(());
        }
        match rows.gather(places) {
            Ok(chunk) => parts.push(self.take_warnings(chunk)),
            Err(error) => self.unread(error, rows, places, parts)?,
        }
        Ok(())
    }

    /// Skips the rows that are known skips.
    pub(crate) fn skip_known(&mut self, chunk: Chunk, known_skips: &KnownSkips, epoch: Epoch) -> Result<Chunk> {
        let errors: Vec<_> = chunk.ids().iter().map(|id| known_skips.get(epoch, *id)).collect();
        if errors.iter().all(Option::is_none) {
            return Ok(chunk);
        }
        for (id, error) in chunk.ids().iter().zip(&errors) {
            if let Some(error) = error {
                self.skip(*id, (*error).clone());
            }
        }
        chunk.filter(&errors.iter().map(|error| Some(error.is_none())).collect())
    }
}

/// Returns the bytes of a record; `None` without one, or if it is too large.
fn written(record: Option<Chunk>) -> Option<Bytes> {
    let mut bytes = Vec::new();
    write_ipc(&[record?], true, &mut bytes).ok()?;
    (bytes.len() <= Loss::RECORD_BYTES_MAX).then(|| bytes.into())
}

/// Returns the row that an error names; all of its rows, if an op made them of one row. `None` if several other rows
/// have that name: `repeat` yields a sample more than once.
fn named(error: &Error, chunk: &Chunk) -> Option<Range<usize>> {
    let ids = chunk.ids();
    if ids.len() == 1 {
        return Some(0..1);
    }
    let sample = error.get("sample")?;
    let mut found = ids.iter().enumerate().filter(|(_, id)| id.sample.to_string() == sample).map(|(i, _)| i);
    let first = found.next()?;
    let last = found.next_back().unwrap_or(first);
    let is_one = chunk.has_parts() && ids[first..=last].iter().all(|id| *id == ids[first]);
    (is_one || first == last).then_some(first..last + 1)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array};
    use forebay_core::SampleId;
    use forebay_data::{DType, Field, Kind, Schema};

    use super::*;

    /// Returns `of_each` rows of each of the samples 0 to 9; each row has a number of its own.
    fn rows(of_each: u32) -> Chunk {
        let schema = Arc::new(Schema::new(vec![Field::new("x", Kind::scalar(DType::Int64))]).expect("a schema"));
        let numbers = |count| Arc::new(Int64Array::from_iter_values(0..count)) as ArrayRef;
        let ids = (0..10).map(|row| RowId { sample: SampleId(row), epoch: Epoch(0) }).collect();
        let chunk = Chunk::new(schema.clone(), vec![numbers(10)], ids).expect("a chunk");
        chunk.expanded(schema, vec![numbers(10 * i64::from(of_each))], &[of_each; 10]).expect("rows")
    }

    #[test]
    fn all_rows_of_a_sample_are_left_out_when_one_fails_and_are_one_loss() {
        let (chunk, locate, calls) = (rows(4), |error| error, Cell::new(0));
        for is_named in [true, false] {
            // One row of sample 2 fails, and two rows of sample 7.
            let mut op = |chunk: &Chunk| {
                calls.set(calls.get() + 1);
                let numbers = chunk.columns()[0].as_primitive::<Int64Type>();
                let failed = numbers.values().iter().position(|number| [10, 28, 31].contains(number));
                let error = |row: usize| match is_named {
                    true => Error::data("bad").with("sample", chunk.ids()[row].sample),
                    false => Error::data("bad"),
                };
                failed.map_or(Ok(chunk.clone()), |row| Err(error(row)))
            };
            let mut isolation = Isolation::new(OnError::Skip, &locate);
            let done = isolation.run(&chunk, &mut op).expect("rows are left");
            let left: Vec<u64> = done.ids().iter().map(|id| id.sample.0).collect();
            let want: Vec<u64> = (0..40).map(|row| row / 4).filter(|sample| ![2, 7].contains(sample)).collect();
            assert_eq!(left, want);
            let lost: Vec<u64> = isolation.into_losses().iter().map(|loss| loss.row.sample.0).collect();
            assert_eq!(lost, [2, 7]);
        }
        assert!(calls.get() < 40, "a named sample is cut out at once");
    }
}
