//! The rows of a group that meet conditions. The columns of a condition are decoded for the rows that met the conditions
//! before it; all other columns are decoded for the rows that met all of them.
//!
//! Invariant: whether a row stays depends on that row alone. A row for which a condition cannot be computed stays, and so
//! does a row that lacks a value of a column of a condition. Later conditions do not remove such a row, because it must fail.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{BooleanArray, new_empty_array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use forebay_core::{Epoch, Error, Result, SampleId};
use forebay_data::{Chunk, Field, RowId, Schema};

use super::parts::{Part, Parts};
use super::selection::{RowMask, Selection};
use crate::fail;
use crate::formats::arrow::Column;
use crate::formats::grouped::Grouped;
use crate::readers::condition::{ConditionBits, RowCondition};

/// Rows of which a condition is computed at once, so that the second-level cache holds their columns.
const STEP_ROWS: usize = 8192;

impl<F: Grouped> Parts<'_, F> {
    /// Decodes the columns of conditions, and finds the rows that stay.
    ///
    /// # Errors
    /// Any error of decoding.
    pub(super) fn select(&self) -> Result<Selection> {
        let fields = self.fields();
        let mut columns: Vec<Option<Column>> = vec![None; fields.len()];
        let mut kept: Option<RowMask> = None;
        // One bit for each row that stays: whether it must fail.
        let mut failed = BooleanBuffer::new_unset(self.rows);
        for condition in &self.of.conditions {
            let places = condition.columns().iter().map(|name| {
                let place = fields.iter().position(|field| field.name == *name);
                place.ok_or_else(|| Error::internal("a condition on a column that is not read"))
            });
            let places = places.collect::<Result<Vec<usize>>>()?;
            for &place in &places {
                if columns[place].is_none() {
                    columns[place] = Some(self.column(place, kept.as_ref())?);
                }
            }
            let needed: Vec<(&Field, &Column)> =
                places.iter().filter_map(|&at| Some((&fields[at], columns[at].as_ref()?))).collect();
            let found = computed(condition.as_ref(), &needed)?;
            failed = &failed | &found.failed;
            let stays = &found.met | &failed;
            if stays.count_set_bits() == stays.len() {
                continue;
            }
            failed = only(&failed, &stays);
            for column in columns.iter_mut().flatten() {
                *column = column.only(&stays)?;
            }
            kept = Some(RowMask::of(match kept {
                None => stays,
                Some(kept) => narrowed(kept.bits(), &stays),
            }));
        }
        let kept = kept.unwrap_or_else(|| RowMask::of(BooleanBuffer::new_set(self.rows)));
        Ok(Selection { kept: Arc::new(kept), columns: Mutex::new(columns) })
    }

    /// Returns a column of the rows that stay.
    ///
    /// # Errors
    /// As [`Parts::select`].
    pub(super) fn selected(&self, place: usize, selected: &Selection) -> Result<Part> {
        let known = selected.columns.lock().unwrap_or_else(PoisonError::into_inner)[place].take();
        let column = match known {
            Some(column) => column,
            None => self.column(place, Some(&selected.kept))?,
        };
        Ok(Part::Columns(vec![column]))
    }

    fn column(&self, place: usize, kept: Option<&RowMask>) -> Result<Column> {
        let field = &self.fields()[place];
        if kept.is_some_and(|kept| kept.count() == 0) {
            return Ok(Column { values: new_empty_array(&field.kind.arrow()), lacks: Vec::new() });
        }
        let kept = kept.filter(|kept| kept.count() < self.rows);
        let columns = self.decoded(std::slice::from_ref(field), kept)?;
        columns.into_iter().next().ok_or_else(|| Error::internal("a column was not decoded"))
    }
}

/// Computes a condition over columns. A row that lacks a value of one of them has failed.
fn computed(condition: &dyn RowCondition, columns: &[(&Field, &Column)]) -> Result<ConditionBits> {
    let rows = columns.first().map_or(0, |(_, column)| column.values.len());
    let schema = Arc::new(Schema::new(columns.iter().map(|(field, _)| (*field).clone()).collect())?);
    // No condition depends on the name of a row.
    let row = RowId { sample: SampleId(0), epoch: Epoch(0) };
    let ids: Arc<[RowId]> = vec![row; rows.min(STEP_ROWS)].into();
    let (mut met, mut failed) = (BooleanBufferBuilder::new(rows), BooleanBufferBuilder::new(rows));
    for first in (0..rows).step_by(STEP_ROWS) {
        let count = STEP_ROWS.min(rows - first);
        let values = columns.iter().map(|(_, column)| column.values.slice(first, count)).collect();
        let ids = if count == ids.len() { ids.clone() } else { ids[..count].into() };
        let found = condition.compute(&Chunk::new(schema.clone(), values, ids)?);
        met.append_buffer(&found.met);
        failed.append_buffer(&found.failed);
    }
    for lack in columns.iter().flat_map(|(_, column)| &column.lacks) {
        failed.set_bit(lack.row, true);
    }
    Ok(ConditionBits { met: met.finish(), failed: failed.finish() })
}

/// Returns the bits whose bit in `mask` is set.
fn only(bits: &BooleanBuffer, mask: &BooleanBuffer) -> BooleanBuffer {
    mask.set_indices().map(|row| bits.value(row)).collect()
}

/// Clears the set bits whose bit among `stays`, which has one for each of them, is not set.
fn narrowed(bits: &BooleanBuffer, stays: &BooleanBuffer) -> BooleanBuffer {
    let mut narrowed = BooleanBufferBuilder::new(bits.len());
    narrowed.append_n(bits.len(), false);
    bits.set_indices().zip(stays).filter(|(_, stays)| *stays).for_each(|(row, _)| narrowed.set_bit(row, true));
    narrowed.finish()
}

impl Column {
    /// Returns the rows whose bit is set.
    fn only(&self, rows: &BooleanBuffer) -> Result<Self> {
        let values = arrow_select::filter::filter(&self.values, &BooleanArray::new(rows.clone(), None));
        let kept = RowMask::of(rows.clone());
        let lacks = self.lacks.iter().filter_map(|lack| Some(lack.at(kept.place(lack.row)?))).collect();
        Ok(Self { values: values.map_err(fail::arrow)?, lacks })
    }
}
