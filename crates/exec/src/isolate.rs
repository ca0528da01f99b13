//! Leaves out the rows that fail by themselves, where the pipeline says so, and remembers which and why.
//!
//! A run of rows that fails is cut at the row that its error names and both sides are run again, so at most twice the
//! work is done however many rows fail; an error that names no row is found by halving. Invariants: whether a row is
//! left out depends on the row and the pipeline alone, never on its neighbours or on who runs it; an error that is not of
//! a row ([`Fault::Other`]) is never swallowed.

use std::collections::HashSet;

use bytes::Bytes;
use forebay_core::{Epoch, Error, Fault, Result, SampleId};
use forebay_data::{Chunk, Loss, RowId, write_ipc};
use forebay_io::Place;
use forebay_plan::OnError;

use crate::budget::Lost;
use crate::rows::Rows;

/// Where the records of rows that are left out come from.
enum Source<'a> {
    /// They are not kept.
    Nowhere,
    /// The rows as they were read.
    Read(Chunk),
    /// Gives one by its name.
    By(&'a dyn Fn(RowId) -> Option<Chunk>),
}

/// The rows that were left out on the way through one morsel.
pub(crate) struct Isolation<'a> {
    on_error: OnError,
    source: Source<'a>,
    losses: Vec<Loss>,
    /// Every row that was left out, also those that nobody is told of.
    failed: HashSet<SampleId>,
    /// Makes of an error that names a sample by number one that names it as the user knows it.
    locate: &'a dyn Fn(Error) -> Error,
}

impl<'a> Isolation<'a> {
    pub(crate) fn new(on_error: OnError, locate: &'a dyn Fn(Error) -> Error) -> Self {
        Self { on_error, source: Source::Nowhere, losses: Vec::new(), failed: HashSet::new(), locate }
    }

    /// Takes the records of rows that are left out from here on from `read`, which gives a row as it was before any op.
    pub(crate) fn reading(self, read: &'a dyn Fn(RowId) -> Option<Chunk>) -> Self {
        let source = if self.on_error == OnError::Quarantine { Source::By(read) } else { Source::Nowhere };
        Self { source, ..self }
    }

    /// Takes what was said elsewhere of rows.
    pub(crate) fn take(&mut self, losses: Vec<Loss>) {
        self.losses.extend(losses);
    }

    /// Tells it the rows as they were read, before any op.
    pub(crate) fn set_source(&mut self, chunk: &Chunk) {
        let kept = self.on_error == OnError::Quarantine;
        self.source = if kept { Source::Read(chunk.clone()) } else { Source::Nowhere };
    }

    /// Takes the rows that a reader could not decode.
    ///
    /// # Errors
    /// The first one's, where no row may be left out.
    pub(crate) fn take_unread(&mut self, losses: &[Loss]) -> Result<()> {
        for loss in losses {
            if !self.may_lose(&loss.error) {
                return Err(loss.error.clone());
            }
            self.lose(loss.row, loss.error.clone());
        }
        Ok(())
    }

    /// Returns the rows that were left out.
    pub(crate) fn into_losses(self) -> Vec<Loss> {
        self.losses
    }

    /// Says whether a row was left out because something failed, not by a filter.
    pub(crate) fn has_failed(&self, sample: SampleId) -> bool {
        self.failed.contains(&sample)
    }

    fn may_lose(&self, error: &Error) -> bool {
        self.on_error.is_tolerant() && error.fault() != Fault::Other
    }

    /// Leaves a row out.
    pub(crate) fn lose(&mut self, row: RowId, error: Error) {
        self.failed.insert(row.sample);
        if error.fault() == Fault::Nobody {
            return;
        }
        let error = (self.locate)(error.with("sample", row.sample)).bounded();
        self.losses.push(Loss { row, error, record: self.record(row) });
    }

    /// Takes what an op says of rows that are there.
    fn listen(&mut self, done: Chunk) -> Chunk {
        for warning in done.losses() {
            self.losses.push(Loss { error: (self.locate)(warning.error.clone()).bounded(), ..warning.clone() });
        }
        done.with_losses(Vec::new())
    }

    fn record(&self, row: RowId) -> Option<Bytes> {
        let record = match &self.source {
            Source::Nowhere => None,
            Source::Read(chunk) => chunk.ids().iter().position(|id| *id == row).map(|at| chunk.slice(at, 1)),
            Source::By(read) => read(row),
        };
        let mut bytes = Vec::new();
        write_ipc(&[record?], true, &mut bytes).ok()?;
        (bytes.len() <= Loss::RECORD_BYTES_MAX).then(|| bytes.into())
    }

    /// Runs an op on rows, without those that fail.
    ///
    /// # Errors
    /// What is not of a row; with [`OnError::Raise`], whatever the op gives.
    pub(crate) fn run(&mut self, chunk: &Chunk, op: &mut dyn FnMut(&Chunk) -> Result<Chunk>) -> Result<Chunk> {
        let error = match op(chunk) {
            Ok(done) => return Ok(self.listen(done)),
            Err(error) => error,
        };
        let mut parts = Vec::new();
        self.cut(error, chunk, op, &mut parts)?;
        if parts.is_empty() {
            parts.push(op(&chunk.slice(0, 0))?);
        }
        Chunk::concat(&parts)
    }

    /// Cuts a run that failed, and runs the rest of it.
    fn cut(
        &mut self,
        error: Error,
        chunk: &Chunk,
        op: &mut dyn FnMut(&Chunk) -> Result<Chunk>,
        parts: &mut Vec<Chunk>,
    ) -> Result<()> {
        if !self.may_lose(&error) || chunk.num_rows() == 0 {
            return Err(error);
        }
        let rows = chunk.num_rows();
        match named(&error, chunk.ids()) {
            Some(row) => {
                self.part(&chunk.slice(0, row), op, parts)?;
                self.lose(chunk.ids()[row], error);
                self.part(&chunk.slice(row + 1, rows - row - 1), op, parts)
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
            Ok(done) => parts.push(self.listen(done)),
            Err(error) => self.cut(error, chunk, op, parts)?,
        }
        Ok(())
    }

    /// Reads rows, without those that cannot be read.
    ///
    /// # Errors
    /// As [`Isolation::run`].
    pub(crate) fn gather(&mut self, rows: &Rows, places: &[Place]) -> Result<Chunk> {
        let error = match rows.gather(places) {
            Ok(chunk) => return Ok(chunk),
            Err(error) => error,
        };
        let mut parts = Vec::new();
        self.unread(error, rows, places, &mut parts)?;
        if parts.is_empty() {
            parts.push(rows.gather(&[])?);
        }
        Chunk::concat(&parts)
    }

    fn unread(&mut self, error: Error, rows: &Rows, places: &[Place], parts: &mut Vec<Chunk>) -> Result<()> {
        if !self.may_lose(&error) || places.is_empty() {
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
            let Place { row, epoch } = places[row];
            self.lose(RowId { sample: rows.name(row).0, epoch }, error);
        }
        self.read(rows, after, parts)
    }

    fn read(&mut self, rows: &Rows, places: &[Place], parts: &mut Vec<Chunk>) -> Result<()> {
        if places.is_empty() {
            return Ok(());
        }
        match rows.gather(places) {
            Ok(chunk) => parts.push(chunk),
            Err(error) => self.unread(error, rows, places, parts)?,
        }
        Ok(())
    }

    /// Leaves out the rows of which it was written down before that they are lost.
    pub(crate) fn leave_out(&mut self, chunk: Chunk, known: &Known, epoch: Epoch) -> Result<Chunk> {
        let lost: Vec<_> = chunk.ids().iter().map(|id| known.get(epoch, *id)).collect();
        if lost.iter().all(Option::is_none) {
            return Ok(chunk);
        }
        for (id, error) in chunk.ids().iter().zip(&lost) {
            if let Some(error) = error {
                self.lose(*id, (*error).clone());
            }
        }
        chunk.filter(&lost.iter().map(|l| Some(l.is_none())).collect())
    }
}

/// Rows that are known to be lost, by the job's epoch: what was found where it may not be found again.
#[derive(Debug, Clone, Default)]
pub struct Known(std::collections::HashMap<(u64, RowId), Error>);

impl Known {
    /// Takes what a stream has left out.
    pub fn of(lost: &[Lost]) -> Self {
        let mut known = Self::default();
        for Lost { epoch, loss, .. } in lost {
            known.add(*epoch, loss.row, loss.error.clone());
        }
        known
    }

    /// Returns the first of these that was left out by accident, so that it might not fail again, and is not known.
    pub fn first_unknown<'l>(&self, epoch: Epoch, losses: &'l [Loss]) -> Option<&'l Loss> {
        losses.iter().find(|loss| loss.error.fault() == Fault::Process && self.get(epoch, loss.row).is_none())
    }

    /// Adds a row of an epoch, and what is said of it.
    pub fn add(&mut self, epoch: Epoch, row: RowId, error: Error) {
        self.0.entry((epoch.0, row)).or_insert(error);
    }

    /// Says whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, epoch: Epoch, row: RowId) -> Option<&Error> {
        if self.is_empty() { None } else { self.0.get(&(epoch.0, row)) }
    }
}

/// Returns the row that an error names, unless several have that name (`repeat` gives a sample more than once).
fn named(error: &Error, ids: &[RowId]) -> Option<usize> {
    if ids.len() == 1 {
        return Some(0);
    }
    let sample = error.get("sample")?;
    let mut found = ids.iter().enumerate().filter(|(_, id)| id.sample.to_string() == sample).map(|(i, _)| i);
    found.next().filter(|_| found.next().is_none())
}
