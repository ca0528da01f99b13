//! Columns of a record batch as this project stores them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, Int32Array, ListArray, RecordBatch, StructArray, make_array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, FieldRef};
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Chunk, Field, Kind, RowId, Schema};

use super::schema::is_tensor;
use crate::columns::with_nulls;
use crate::fail;

/// Makes a chunk of the columns of `schema` in `batch`, wherever they are in it.
///
/// # Errors
/// Data when a column is not there, has missing values or numbers where it must not.
pub(crate) fn columns(schema: &Arc<Schema>, batch: &RecordBatch, ids: Arc<[RowId]>) -> Result<Chunk> {
    let mut found = Vec::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        flatten(field, column, String::new(), None, &mut found)?;
    }
    let pick = |field: &Field| -> Result<ArrayRef> {
        let (_, column) = found
            .iter()
            .find(|(name, _)| *name == field.name)
            .ok_or_else(|| Error::data(format!("column {:?} is not in this file", field.name)))?;
        if matches!(field.kind, Kind::Tensor { .. }) { tensor(field, column) } else { Ok(column.clone()) }
    };
    let columns: Vec<ArrayRef> = schema.fields().iter().map(pick).collect::<Result<_>>()?;
    Chunk::from_foreign(schema, &columns, ids)
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
    let column = if outer.is_some() { with_nulls(column, nulls)? } else { column.clone() };
    found.push((name, column));
    Ok(())
}

fn tensor(field: &Field, column: &ArrayRef) -> Result<ArrayRef> {
    let changed = || Error::data(format!("column {:?} is {}, not {}", field.name, column.data_type(), field.kind));
    match (column.data_type(), field.kind.arrow()) {
        (DataType::FixedSizeList(..), DataType::FixedSizeList(item, n)) => {
            let list = column.as_fixed_size_list();
            let values = dense(field, list.values(), |row| list.is_null(row / (n.max(1) as usize)))?;
            let made = FixedSizeListArray::try_new_with_length(item, n, values, list.nulls().cloned(), list.len());
            Ok(Arc::new(made.map_err(fail::arrow)?))
        }
        (DataType::LargeList(item), to @ DataType::Struct(_)) => {
            let small = arrow_cast::cast(column, &DataType::List(item.clone())).map_err(|_| {
                Error::new(
                    ErrorKind::Exhausted,
                    format!("column {:?} has more than 2^31 numbers in one run of rows", field.name),
                )
                .hint("write smaller row groups")
            })?;
            variable(field, small.as_list(), &to)
        }
        (DataType::List(_), to @ DataType::Struct(_)) => variable(field, column.as_list(), &to),
        (DataType::Struct(_), DataType::Struct(_)) => shaped(field, column.as_struct()),
        _ => Err(changed()),
    }
}

/// Makes the variable-shape storage of a list.
fn variable(field: &Field, list: &ListArray, to: &DataType) -> Result<ArrayRef> {
    let DataType::Struct(fields) = to else { return Err(Error::internal("a variable tensor is a struct")) };
    let (DataType::List(item), DataType::FixedSizeList(dim, _)) = (fields[0].data_type(), fields[1].data_type()) else {
        return Err(Error::internal("a variable tensor is data and shape"));
    };
    let offsets = list.offsets().clone();
    let values = if list.values().null_count() == 0 {
        dense(field, list.values(), |_| false)?
    } else {
        let row_of = |value: usize| offsets.partition_point(|&o| o as usize <= value).saturating_sub(1);
        dense(field, list.values(), |value| row_of(value) >= list.len() || list.is_null(row_of(value)))?
    };
    let lens = Int32Array::from_iter_values(offsets.windows(2).map(|w| w[1] - w[0]));
    let shapes = FixedSizeListArray::try_new(dim.clone(), 1, Arc::new(lens), None).map_err(fail::arrow)?;
    let data = ListArray::try_new(item.clone(), offsets, values, None).map_err(fail::arrow)?;
    let made = StructArray::try_new(fields.clone(), vec![Arc::new(data), Arc::new(shapes)], list.nulls().cloned());
    Ok(Arc::new(made.map_err(fail::arrow)?))
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
    for row in 0..column.len() {
        let first = shapes.value_offset_at(row);
        let dims = dims.values().get(first..first + rank).ok_or_else(|| broken(row))?;
        let fits = dims.iter().zip(shape).all(|(&dim, uniform)| dim >= 0 && uniform.is_none_or(|n| n == dim as usize));
        let numbers = dims.iter().try_fold(1usize, |n, &dim| n.checked_mul(usize::try_from(dim).ok()?));
        if !fits || numbers != usize::try_from(lists.value_length(row)).ok() {
            return Err(broken(row));
        }
    }
    let numbers = dense(field, lists.values(), |_| false)?;
    if lists.null_count() + shapes.null_count() + dims.null_count() > 0
        || numbers.data_type() != lists.values().data_type()
    {
        return Err(broken(0));
    }
    Ok(Arc::new(column.clone()))
}

/// Returns numbers without nulls and booleans as bytes; a null that `masked` does not excuse is an error.
fn dense(field: &Field, values: &ArrayRef, masked: impl Fn(usize) -> bool) -> Result<ArrayRef> {
    if values.null_count() > 0 && (0..values.len()).any(|i| values.is_null(i) && !masked(i)) {
        return Err(Error::data(format!("column {:?} has missing numbers inside a list", field.name))
            .hint("fill or drop them when writing the file, or read another column"));
    }
    let values = match values.data_type() {
        DataType::Boolean => arrow_cast::cast(values, &DataType::Int8).map_err(fail::arrow)?,
        _ => values.clone(),
    };
    if values.null_count() == 0 {
        return Ok(values);
    }
    Ok(make_array(values.to_data().into_builder().nulls(None).build().map_err(fail::arrow)?))
}
