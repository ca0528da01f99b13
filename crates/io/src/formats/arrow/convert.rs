//! Converts columns of a record batch to the types of this project.
//!
//! Writers declare nearly every column nullable, so the declaration says nothing about its rows. A tensor that is
//! missing in a row, or has a missing number in it, is recorded here. Reading that row is an error; the other rows stay
//! readable.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Int32Array, ListArray, NullArray, RecordBatch, StructArray, UInt64Array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, FieldRef};
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Field, Kind, Schema, adopt};

use super::json_text;
use super::schema::{is_json, is_tensor, is_time};
use crate::columns::{with_nulls, without_nulls};
use crate::fail;

/// A column, and the rows that lack a required value, in order. The value in these rows is arbitrary.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) values: ArrayRef,
    pub(crate) lacks: Vec<Lack>,
}

/// A row without a required value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lack {
    pub(crate) row: usize,
    /// Whether a number inside a list is missing, not the whole value.
    inside: bool,
}

impl Column {
    /// Returns the missing value of a row, if there is one.
    pub(crate) fn lack(&self, row: usize) -> Option<Lack> {
        self.lacks.binary_search_by_key(&row, |lack| lack.row).ok().map(|at| self.lacks[at])
    }
}

impl Lack {
    /// Returns the same for a column that begins `rows` rows later.
    pub(crate) fn after(self, rows: usize) -> Self {
        Self { row: self.row + rows, ..self }
    }

    /// Returns the same for another place of the row.
    pub(crate) fn at(self, row: usize) -> Self {
        Self { row, ..self }
    }

    /// Returns the error for the reader of the row.
    pub(crate) fn error(self, field: &Field) -> Error {
        let name = &field.name;
        let message = match &field.kind {
            _ if self.inside => format!("column {name:?} has a missing number inside its list"),
            Kind::Tensor { .. } => format!("column {name:?} is missing in this row, and a list is never missing"),
            kind => {
                format!("column {name:?} is missing in this row, and was found (or said) to be {kind}, never missing")
            }
        };
        let skip = "leave such rows out with on_error=\"skip\" (and error_budget=)";
        let is_list = matches!(&field.kind, Kind::Tensor { shape, .. } if shape.first() == Some(&None));
        let hint = match field.kind.can_be_missing() {
            _ if is_list && !self.inside => {
                format!("nullable=[{name:?}], where the files are read, reads it as an empty list; or {skip}")
            }
            true => format!("where the files are read, say that it may be missing: nullable=[{name:?}]; or {skip}"),
            false => format!("fill it when writing the file, drop the column, or {skip}"),
        };
        Error::data(message).with("column", name).hint(hint)
    }
}

/// Returns the columns of `schema` in `batch`, in any order of the batch; a missing list is an empty one in the columns
/// that `empty_lists` names. [`super::check`] has checked a file that may
/// lack one, or have narrower numbers.
///
/// # Errors
/// Data when a column that is never missing is absent, or one is of another type.
pub(crate) fn columns(schema: &Schema, empty_lists: &[String], batch: &RecordBatch) -> Result<Vec<Column>> {
    let mut found = Vec::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        flatten(field, column, String::new(), None, &mut found)?;
    }
    let pick = |field: &Field| -> Result<Column> {
        let column = match found.iter().find(|(name, _)| *name == field.name) {
            Some((_, column)) => column,
            None if field.nullable => &(Arc::new(NullArray::new(batch.num_rows())) as ArrayRef),
            None => return Err(Error::data(format!("column {:?} is not in this file", field.name))),
        };
        let (values, inside) = match field.kind {
            Kind::Tensor { .. } => tensor(field, &plain(column)?)?,
            Kind::Texts if *column.data_type() != DataType::Null => (texts(field, &plain(column)?)?, Vec::new()),
            Kind::Utf8 if is_json(column.data_type()) => {
                (json_text::column(column).map_err(|e| e.with("column", &field.name))?, Vec::new())
            }
            _ => (column.clone(), Vec::new()),
        };
        let column = complete(field, adopt(field, &values)?, inside)?;
        if !empty_lists.contains(&field.name) {
            return Ok(column);
        }
        let lacks = column.lacks.into_iter().filter(|lack| lack.inside).collect();
        Ok(Column { values: column.values, lacks })
    };
    schema.fields().iter().map(pick).collect()
}

/// Records the rows that lack the column, or in which a number is missing (`inside`), unless they may.
fn complete(field: &Field, values: ArrayRef, inside: Vec<usize>) -> Result<Column> {
    if field.nullable {
        return Ok(Column { values, lacks: Vec::new() });
    }
    let missing = values.nulls().into_iter().flat_map(|n| (0..n.len()).filter(|&row| n.is_null(row)));
    let mut lacks: Vec<Lack> = missing.map(|row| Lack { row, inside: false }).collect();
    lacks.extend(inside.into_iter().map(|row| Lack { row, inside: true }));
    lacks.sort_unstable_by_key(|lack| lack.row);
    Ok(Column { values: without_nulls(&values)?, lacks })
}

fn flatten(
    field: &FieldRef,
    column: &ArrayRef,
    prefix: String,
    outer: Option<&NullBuffer>,
    found: &mut Vec<(String, ArrayRef)>,
) -> Result<()> {
    let name = if prefix.is_empty() { field.name().clone() } else { format!("{prefix}.{}", field.name()) };
    let nulls = NullBuffer::union(outer, column.nulls());
    if let Some(nested) = column.as_any().downcast_ref::<StructArray>()
        && !is_tensor(field)
    {
        for (child, column) in nested.fields().iter().zip(nested.columns()) {
            flatten(child, column, name.clone(), nulls.as_ref(), found)?;
        }
        return Ok(());
    }
    let column = if outer.is_some() { beneath(column, nulls)? } else { column.clone() };
    found.push((name, column));
    Ok(())
}

/// Returns the column with rows missing where `nulls` says, also where its type stores no nulls.
fn beneath(column: &ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    match column.data_type() {
        DataType::Null => Ok(column.clone()),
        DataType::Union(..) | DataType::RunEndEncoded(..) => {
            let row = |row| nulls.as_ref().is_none_or(|n| n.is_valid(row)).then_some(row as u64);
            let rows: UInt64Array = (0..column.len()).map(row).collect();
            arrow_select::take::take(column, &rows, None).map_err(fail::arrow)
        }
        _ => with_nulls(column, nulls),
    }
}

/// Returns a list without its writer's space-saving encodings, and with times as whole numbers.
fn plain(column: &ArrayRef) -> Result<ArrayRef> {
    let to = match column.data_type() {
        DataType::Dictionary(_, values) => (**values).clone(),
        DataType::RunEndEncoded(_, values) => values.data_type().clone(),
        DataType::ListView(item) => DataType::List(whole(item)),
        DataType::LargeListView(item) => DataType::LargeList(whole(item)),
        DataType::List(item) if is_time(item.data_type()) => DataType::List(whole(item)),
        DataType::LargeList(item) if is_time(item.data_type()) => DataType::LargeList(whole(item)),
        DataType::FixedSizeList(item, n) if is_time(item.data_type()) => DataType::FixedSizeList(whole(item), *n),
        _ => return Ok(column.clone()),
    };
    plain(&arrow_cast::cast(column, &to).map_err(fail::arrow)?)
}

/// Returns the items of a list, times as whole numbers.
fn whole(item: &FieldRef) -> FieldRef {
    match is_time(item.data_type()) {
        true => Arc::new(item.as_ref().clone().with_data_type(DataType::Int64)),
        false => item.clone(),
    }
}

/// Makes the storage of lists of texts.
fn texts(field: &Field, column: &ArrayRef) -> Result<ArrayRef> {
    arrow_cast::cast(column, &field.kind.arrow())
        .map_err(|_| Error::data(format!("column {:?} is {}, not {}", field.name, column.data_type(), field.kind)))
}

/// Makes the storage of tensors, and returns the rows that have a missing number.
fn tensor(field: &Field, column: &ArrayRef) -> Result<(ArrayRef, Vec<usize>)> {
    let changed = || Error::data(format!("column {:?} is {}, not {}", field.name, column.data_type(), field.kind));
    match (column.data_type(), field.kind.arrow()) {
        (DataType::FixedSizeList(..), DataType::FixedSizeList(item, n)) => {
            let list = column.as_fixed_size_list();
            let row_of = |number| Some(number / (n.max(1) as usize)).filter(|&row| !list.is_null(row));
            let (values, inside) = dense(list.values(), row_of)?;
            let made = FixedSizeListArray::try_new_with_length(item, n, values, list.nulls().cloned(), list.len());
            Ok((Arc::new(made.map_err(fail::arrow)?), inside))
        }
        (DataType::LargeList(item), to @ DataType::Struct(_)) => {
            let small = arrow_cast::cast(column, &DataType::List(item.clone())).map_err(|_| {
                Error::new(
                    ErrorKind::Exhausted,
                    format!("column {:?} has more than 2^31 numbers in one run of rows", field.name),
                )
                .hint("write smaller row groups")
            })?;
            variable(small.as_list(), &to)
        }
        (DataType::List(_), to @ DataType::Struct(_)) => variable(column.as_list(), &to),
        (DataType::Struct(_), DataType::Struct(_)) => Ok((shaped(field, column.as_struct())?, Vec::new())),
        _ => Err(changed()),
    }
}

/// Returns the lists with no numbers behind missing lists: a writer may leave some there.
fn without_hidden(list: &ListArray) -> Result<ListArray> {
    let is_hidden = |row: usize| list.is_null(row) && list.value_length(row) > 0;
    if !(0..list.len()).any(is_hidden) {
        return Ok(list.clone());
    }
    let rows: UInt64Array = (0..list.len()).map(|row| list.is_valid(row).then_some(row as u64)).collect();
    Ok(arrow_select::take::take(list, &rows, None).map_err(fail::arrow)?.as_list().clone())
}

/// Makes the variable-shape storage of a list.
fn variable(list: &ListArray, to: &DataType) -> Result<(ArrayRef, Vec<usize>)> {
    let DataType::Struct(fields) = to else { return Err(Error::internal("a variable tensor is a struct")) };
    let (DataType::List(item), DataType::FixedSizeList(dim, _)) = (fields[0].data_type(), fields[1].data_type()) else {
        return Err(Error::internal("a variable tensor is data and shape"));
    };
    let list = without_hidden(list)?;
    let offsets = list.offsets().clone();
    let row_of = |number: usize| {
        let row = offsets.partition_point(|&o| o as usize <= number).checked_sub(1)?;
        (row < list.len() && !list.is_null(row)).then_some(row)
    };
    let (values, inside) = dense(list.values(), row_of)?;
    let lens = Int32Array::from_iter_values(offsets.windows(2).map(|w| w[1] - w[0]));
    let shapes = FixedSizeListArray::try_new(dim.clone(), 1, Arc::new(lens), None).map_err(fail::arrow)?;
    let data = ListArray::try_new(item.clone(), offsets, values, None).map_err(fail::arrow)?;
    let made = StructArray::try_new(fields.clone(), vec![Arc::new(data), Arc::new(shapes)], list.nulls().cloned());
    Ok((Arc::new(made.map_err(fail::arrow)?), inside))
}

/// Checks that every row of a tensor of variable shape has as many numbers as its shape says.
fn shaped(field: &Field, column: &StructArray) -> Result<ArrayRef> {
    let broken = |row: usize| {
        Error::data(format!("column {:?} has another number of values than its shape says", field.name))
            .with("row", row)
    };
    let (Some(lists), Some(shapes)) =
        (column.column(0).as_list_opt::<i32>(), column.column(1).as_fixed_size_list_opt())
    else {
        return Err(broken(0));
    };
    let dims = shapes.values().as_primitive_opt::<Int32Type>().ok_or_else(|| broken(0))?;
    let Kind::Tensor { shape, .. } = &field.kind else { return Err(broken(0)) };
    let rank = shape.len();
    for row in (0..column.len()).filter(|&row| !column.is_null(row)) {
        let first = shapes.value_offset_at(row);
        let dims = dims.values().get(first..first + rank).ok_or_else(|| broken(row))?;
        let fits = dims.iter().zip(shape).all(|(&dim, uniform)| dim >= 0 && uniform.is_none_or(|n| n == dim as usize));
        let numbers = dims.iter().try_fold(1usize, |n, &dim| n.checked_mul(usize::try_from(dim).ok()?));
        if !fits || numbers != usize::try_from(lists.value_length(row)).ok() {
            return Err(broken(row));
        }
    }
    let (numbers, _) = dense(lists.values(), |_| None)?;
    if lists.null_count() + lists.values().null_count() + shapes.null_count() + dims.null_count() > 0
        || numbers.data_type() != lists.values().data_type()
    {
        return Err(broken(0));
    }
    Ok(Arc::new(column.clone()))
}

/// Returns numbers without nulls, and booleans as bytes; and the rows of missing numbers. `row_of` returns the row of a
/// number: `None` for a number that is in no row, or in a row that is missing itself.
fn dense(values: &ArrayRef, row_of: impl Fn(usize) -> Option<usize>) -> Result<(ArrayRef, Vec<usize>)> {
    let missing = values.nulls().filter(|n| n.null_count() > 0);
    let missing = missing.into_iter().flat_map(|n| (0..n.len()).filter(|&at| n.is_null(at)));
    let mut rows: Vec<usize> = missing.filter_map(row_of).collect();
    rows.dedup();
    let values = match values.data_type() {
        DataType::Boolean => arrow_cast::cast(values, &DataType::Int8).map_err(fail::arrow)?,
        _ => values.clone(),
    };
    Ok((without_nulls(&values)?, rows))
}
