//! Lists of any length padded to one length, for ops that make batches; rows of one shape stacked.
//!
//! Invariant: the size of a padded column is computed, and compared with the memory budget, before it is allocated.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int8Array};
use forebay_core::{Error, ErrorKind, Result, SampleId};
use forebay_data::{Chunk, Field, Memory, Ragged};
use forebay_plan::ops::PaddedBatch;
use forebay_plan::{Op, Step};

/// Pads or stacks the lists of each batch, and fills up a short batch if the op says so.
pub(crate) struct PadOp {
    pub(crate) step: Step,
    memory: Memory,
}

impl PadOp {
    pub(crate) fn new(step: &Step, memory: Memory) -> Self {
        Self { step: step.clone(), memory }
    }

    /// Pads or stacks the lists of one batch.
    ///
    /// # Errors
    /// Invalid when lists to be stacked have different lengths; those of padding.
    pub(crate) fn run(&self, batch: &Chunk) -> Result<Chunk> {
        let op = match &self.step.node.op {
            Op::PaddedBatch(op) => op,
            Op::Batch(_) => {
                check_lengths(batch, &[])?;
                return batch.with_columns(self.step.schema.clone(), batch.columns().to_vec());
            }
            _ => return Err(Error::internal("an op that makes no batches")),
        };
        if op.padding.is_none() {
            check_lengths(batch, &op.ragged)?;
        }
        let rows = batch.num_rows();
        let filled = filled_up(op, batch)?;
        let columns = self.step.schema.fields().iter().map(|field| -> Result<ArrayRef> {
            if op.valid.as_ref() == Some(&field.name) {
                return Ok(Arc::new((0..filled.num_rows()).map(|row| i8::from(row < rows)).collect::<Int8Array>()));
            }
            let column = filled.column(&field.name)?;
            let given = filled.schema().field(&field.name)?;
            if op.is_padded(given) { self.padded(op, given, column, &filled) } else { Ok(column.clone()) }
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(filled.with_columns(self.step.schema.clone(), columns)?.with_losses(batch.losses().to_vec()))
    }

    fn padded(&self, op: &PaddedBatch, field: &Field, column: &ArrayRef, batch: &Chunk) -> Result<ArrayRef> {
        let rows = Ragged::of(&field.kind, column)?;
        let longest = Longest::of((0..rows.rows()).map(|row| (rows.len_of(row), batch.ids()[row].sample)));
        let length = op.length_of(&field.name, longest.length);
        let fixed = op.padding.as_ref().is_some_and(|padding| padding.to_of(&field.name).is_some());
        let rows: Vec<&[u8]> = (0..rows.rows()).map(|row| rows.get(row)).collect();
        Padded { field, rows: &rows, longest, length, fixed }.column(&op.pad_of(field)?, &self.memory)
    }
}

/// Refuses lists of different lengths in columns that are not ragged.
fn check_lengths(batch: &Chunk, ragged: &[String]) -> Result<()> {
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        if Ragged::inner(&field.kind).is_none() || ragged.contains(&field.name) {
            continue;
        }
        let rows = Ragged::of(&field.kind, column)?;
        let hint = "give pad=0 to pad them to the longest, ragged=True to keep their lengths, or drop the column";
        let mut one = OneShape::new(field, hint);
        for row in 0..rows.rows() {
            one.check(vec![rows.len_of(row)], batch.ids()[row].sample)?;
        }
    }
    Ok(())
}

/// Checks that the rows of a column in one batch have one shape.
pub(crate) struct OneShape<'a> {
    field: &'a Field,
    hint: &'a str,
    first: Option<Vec<usize>>,
}

impl<'a> OneShape<'a> {
    pub(crate) fn new(field: &'a Field, hint: &'a str) -> Self {
        Self { field, hint, first: None }
    }

    /// Checks the next row; of lists, the first dimension.
    ///
    /// # Errors
    /// Invalid for another shape than that of the first row. It is a fault of the pipeline, not of a sample: another order
    /// of the samples would blame another one.
    pub(crate) fn check(&mut self, shape: Vec<usize>, sample: SampleId) -> Result<()> {
        let Some(first) = &self.first else {
            self.first = Some(shape);
            return Ok(());
        };
        if *first == shape {
            return Ok(());
        }
        let (name, kind) = (&self.field.name, &self.field.kind);
        let both = match Ragged::inner(kind) {
            Some(_) => format!("lists of {} and of {}", first[0], shape[0]),
            None => format!("rows of {first:?} and of {shape:?}"),
        };
        let message = format!("column {name:?} is {kind}, and one batch has {both}, which make no array");
        Err(Error::invalid(message).with("column", name).with("sample", sample).hint(self.hint))
    }
}

/// Returns a batch that is filled up with copies of its last row, if the op says so.
fn filled_up(op: &PaddedBatch, batch: &Chunk) -> Result<Chunk> {
    let rows = batch.num_rows();
    if op.valid.is_none() || rows == 0 || rows >= op.size {
        return Ok(batch.clone());
    }
    batch.take(&(0..op.size).map(|row| row.min(rows - 1) as u32).collect::<Vec<_>>())
}

/// The greatest length of some rows, and the first sample that has it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Longest {
    pub(crate) length: usize,
    sample: Option<SampleId>,
}

impl Longest {
    pub(crate) fn of(rows: impl Iterator<Item = (usize, SampleId)>) -> Self {
        rows.fold(Self::default(), |longest, (length, sample)| match longest.sample {
            Some(_) if longest.length >= length => longest,
            _ => Self { length, sample: Some(sample) },
        })
    }

    fn name(self, error: Error) -> Error {
        self.sample.iter().fold(error, |error, sample| error.with("sample", sample))
    }
}

/// The rows of a column, and their length after padding.
pub(crate) struct Padded<'a> {
    pub(crate) field: &'a Field,
    /// The bytes of each row.
    pub(crate) rows: &'a [&'a [u8]],
    pub(crate) longest: Longest,
    pub(crate) length: usize,
    /// Whether the column's kind has this length.
    pub(crate) fixed: bool,
}

impl Padded<'_> {
    /// Makes the padded column.
    ///
    /// # Errors
    /// Data when a row is longer; Exhausted when the column would take more than the memory budget.
    pub(crate) fn column(&self, pad: &[u8], memory: &Memory) -> Result<ArrayRef> {
        let Self { field, rows, longest, length, fixed } = *self;
        if longest.length > length {
            let hint = "pad to more, cut the rows, or leave them out with filter";
            return Err(longest.name(too_long(field, longest.length, length)).hint(hint));
        }
        let inner = Ragged::inner(&field.kind).unwrap_or(1);
        let bytes = [length, inner, pad.len()].iter().fold(rows.len(), |bytes, n| bytes.saturating_mul(*n)) as u64;
        let bound = memory.budget().bytes();
        if bytes > bound {
            let message =
                format!("{} rows of column {:?} padded to {length} take {bytes} bytes", rows.len(), field.name);
            let error = Error::new(ErrorKind::Exhausted, message).with("bound", format!("{bound} bytes of memory"));
            return Err(longest
                .name(error)
                .hint("use smaller batches, cut the longest rows or leave them out; memory= is the bound"));
        }
        Ragged::padded(&field.kind, rows, length, pad, fixed)
    }
}

/// Returns the error for a row that is longer than its column is padded to, without a hint.
pub(crate) fn too_long(field: &Field, longest: usize, length: usize) -> Error {
    let (name, kind) = (&field.name, &field.kind);
    Error::data(format!("a row of column {name:?} ({kind}) has length {longest}, and rows are padded to {length}"))
}
