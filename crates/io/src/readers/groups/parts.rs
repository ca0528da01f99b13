//! The parts into which threads divide the decoding of a group: one column each, where columns are read one by one; a
//! segment of the packed rows, where a shuffle is over windows; otherwise the whole group.

use std::sync::Arc;

use arrow_array::{RecordBatch, new_empty_array};
use arrow_buffer::Buffer;
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Field, Schema};

use super::Groups;
use super::group::{Decoded, Group};
use super::packed::{Filling, Layout, Packed, Segment};
use super::selection::RowMask;
use crate::fail;
use crate::formats::arrow::{self, Column, Lack};
use crate::formats::grouped::{DecodeOptions, Grouped};
use crate::store::Ahead;

/// The most rows that are decoded in one step, so that a wrong row count in a footer causes no large allocation.
pub(super) const BATCH_ROWS_MAX: usize = 1 << 20;
/// Rows of a column that are decoded before they are packed, so that the second-level cache holds the rows of a
/// segment.
const STEP_ROWS: usize = 8192;

/// A part of a group, decoded.
pub(super) enum Part {
    Columns(Vec<Column>),
    /// A segment of the packed rows, and the incomplete rows of each of its columns.
    Segment(Buffer, Vec<Vec<Lack>>),
}

/// The parts of a block of `rows` rows.
pub(super) struct Parts<'a, F> {
    pub(super) of: &'a Groups<F>,
    pub(super) group: &'a Group<Part>,
    pub(super) block: u64,
    pub(super) rows: usize,
}

impl<'a, F: Grouped> Parts<'a, F> {
    /// Returns the layout, if rows are packed as they are decoded. Memory is allocated for all of them first, so they
    /// must be few enough.
    fn streamed(&self) -> Option<&'a Layout> {
        self.of.layout.as_ref().filter(|_| F::BY_COLUMN && self.rows <= BATCH_ROWS_MAX && !self.is_selected())
    }

    /// Says whether only the rows that meet conditions are decoded.
    fn is_selected(&self) -> bool {
        !self.of.conditions.is_empty()
    }

    pub(super) fn fields(&self) -> &'a [Field] {
        self.of.schema.fields()
    }

    pub(super) fn count(&self) -> usize {
        match self.streamed() {
            Some(layout) => layout.segments.len() + layout.loose.len(),
            None if F::BY_COLUMN => self.fields().len(),
            None => 1,
        }
    }

    /// Decodes a part.
    pub(super) fn decode(&self, part: usize) -> Result<Part> {
        let field = match self.streamed() {
            None if self.is_selected() => return self.selected(part, self.group.selected(|| self.select())?),
            None if F::BY_COLUMN => part,
            None => return self.columns(self.fields()),
            Some(layout) => match layout.segments.get(part) {
                Some(segment) => return self.segment(segment),
                None => layout.loose[part - layout.segments.len()],
            },
        };
        self.columns(&self.fields()[field..=field])
    }

    /// Makes a group of its parts. The division of columns must not decide which column the error names: for a data
    /// error, it is the first column that cannot be decoded by itself.
    pub(super) fn join(&self, parts: Vec<Result<Part>>) -> Result<Decoded> {
        let depends = |e: &Error| matches!(e.kind(), ErrorKind::Data | ErrorKind::Exhausted | ErrorKind::Internal);
        let parts = match parts.into_iter().collect::<Result<Vec<_>>>() {
            Err(e) if self.streamed().is_some() && depends(&e) => {
                let column = |field| self.columns(std::slice::from_ref(field));
                self.fields().iter().map(column).collect::<Result<_>>()?
            }
            parts => parts?,
        };
        let (mut columns, mut segments) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                Part::Columns(some) => columns.extend(some),
                Part::Segment(bytes, lacks) => segments.push((bytes, lacks)),
            }
        }
        let kept = match self.is_selected() {
            true => Some(self.group.selected(|| self.select())?.kept.clone()),
            false => None,
        };
        match &self.of.layout {
            None => Ok(Decoded { columns, packed: None, kept }),
            Some(layout) if segments.is_empty() => {
                let rows = kept.as_ref().map_or(self.rows, |kept| kept.count());
                let packed = layout.pack(self.fields(), &mut columns, rows, &self.of.memory)?;
                Ok(Decoded { columns, packed: Some(packed), kept })
            }
            Some(layout) => Ok(assembled(layout, self.fields(), segments, columns)),
        }
    }

    /// Decodes columns as a whole.
    fn columns(&self, fields: &[Field]) -> Result<Part> {
        self.decoded(fields, None).map(Part::Columns)
    }

    /// Decodes columns, or the `kept` rows of them.
    pub(super) fn decoded(&self, fields: &[Field], kept: Option<&RowMask>) -> Result<Vec<Column>> {
        let (file, group) = self.of.pool.index.file_of(self.block);
        let (uri, schema) = (self.of.uri(file), Schema::new(fields.to_vec())?);
        let (rows, bits) = (kept.map_or(self.rows, RowMask::count), kept.map(RowMask::bits));
        let opened = self.of.file(file)?;
        let ahead = self.requested(&opened, group, fields);
        let rows_max = self.rows.min(BATCH_ROWS_MAX);
        let options = DecodeOptions { fields, rows: rows_max, kept: bits, ahead: ahead.as_deref() };
        let batches = opened.batches(group, options)?;
        let batches = batches.collect::<Result<Vec<_>>>()?;
        let batch = joined(&batches)?.filter(|batch| batch.num_rows() == rows);
        let batch = batch.ok_or_else(|| short::<F>(uri, group))?;
        located::<F>((&schema, &self.of.empty_lists), uri, group, &batch)
    }

    /// Requests the bytes of the columns that are decoded first.
    pub(super) fn request(&self) -> Result<Option<Arc<Ahead>>> {
        let of_conditions = self.of.conditions.first().and_then(|condition| condition.columns().first());
        let first = of_conditions.and_then(|name| self.fields().iter().position(|field| field.name == *name));
        let (file, group) = self.of.pool.index.file_of(self.block);
        Ok(self.requested(&*self.of.file(file)?, group, &self.fields()[first.unwrap_or(0)..]))
    }

    /// Returns the requested bytes of columns. The columns of conditions are requested together, and the others once some
    /// of their rows are needed.
    fn requested(&self, file: &F, group: usize, fields: &[Field]) -> Option<Arc<Ahead>> {
        let of_conditions = |field: &Field| {
            let mut conditions = self.of.conditions.iter();
            conditions.any(|condition| condition.columns().contains(&field.name))
        };
        let wanted = of_conditions(fields.first()?);
        self.group.requested(wanted, || {
            let together = self.fields().iter().filter(|field| of_conditions(field) == wanted);
            file.request(group, &together.cloned().collect::<Vec<_>>())
        })
    }

    /// Decodes the columns of a segment together, some rows at a time, and packs them.
    fn segment(&self, segment: &Segment) -> Result<Part> {
        let (file, group) = self.of.pool.index.file_of(self.block);
        let (uri, opened) = (self.of.uri(file), self.of.file(file)?);
        let open = |field: usize| -> Result<_> {
            let fields = std::slice::from_ref(&self.fields()[field]);
            let ahead = self.requested(&opened, group, fields);
            let options = DecodeOptions { fields, rows: STEP_ROWS, kept: None, ahead: ahead.as_deref() };
            Ok((Schema::new(fields.to_vec())?, opened.batches(group, options)?))
        };
        let mut readers = segment.fields().map(open).collect::<Result<Vec<_>>>()?;
        let mut filling = Filling::new(segment, self.fields(), self.rows, &self.of.memory);
        loop {
            let mut columns = Vec::with_capacity(readers.len());
            for (schema, batches) in &mut readers {
                let Some(batch) = batches.next() else { continue };
                columns.extend(located::<F>((schema, &self.of.empty_lists), uri, group, &batch?)?);
            }
            match columns.len() {
                0 => break,
                count if count == readers.len() => filling.add(&columns.iter().collect::<Vec<_>>())?,
                _ => return Err(short::<F>(uri, group)),
            }
        }
        let (bytes, lacks) = filling.finish()?;
        Ok(Part::Segment(bytes, lacks))
    }
}

/// Assembles the columns of a group. A packed column is an empty array in its place.
fn assembled(
    layout: &Layout,
    fields: &[Field],
    segments: Vec<(Buffer, Vec<Vec<Lack>>)>,
    loose: Vec<Column>,
) -> Decoded {
    let empty = |field: &Field| Column { values: new_empty_array(&field.kind.arrow()), lacks: Vec::new() };
    let mut columns: Vec<_> = fields.iter().map(empty).collect();
    for (&field, column) in layout.loose.iter().zip(loose) {
        columns[field] = column;
    }
    let mut packed = Vec::with_capacity(segments.len());
    for (segment, (bytes, lacks)) in layout.segments.iter().zip(segments) {
        segment.fields().zip(lacks).for_each(|(field, lacks)| columns[field].lacks = lacks);
        packed.push(bytes);
    }
    Decoded { columns, packed: Some(Packed(packed)), kept: None }
}

/// Makes one batch of several.
fn joined(batches: &[RecordBatch]) -> Result<Option<RecordBatch>> {
    match batches {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        [first, ..] => arrow_select::concat::concat_batches(&first.schema(), batches).map(Some).map_err(fail::arrow),
    }
}

/// Returns the columns of a schema from a batch of a group. In columns that are named nullable, missing lists are empty.
pub(super) fn located<F: Grouped>(
    (schema, empty_lists): (&Schema, &[String]),
    uri: &str,
    group: usize,
    batch: &RecordBatch,
) -> Result<Vec<Column>> {
    arrow::columns(schema, empty_lists, batch).map_err(|e| e.with("file", uri).with(F::GROUP, group))
}

pub(super) fn short<F: Grouped>(uri: &str, group: usize) -> Error {
    fail::truncated(uri, &format!("a {} has fewer rows than its head says", F::GROUP)).with(F::GROUP, group)
}
