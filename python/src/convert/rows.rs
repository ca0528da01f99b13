//! Converts dictionaries of users' functions to columns in the schema's order.

use arrow_array::ArrayRef;
use forebay_core::{Error, ErrorKind};
use forebay_data::{Field, Schema};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString};

use crate::convert::schema_errors::{describe, with_schema};
use crate::convert::values::{batched_column, column, shown};
use crate::errors::raise;

/// Turns nested dictionaries into dotted names.
pub(crate) fn flatten<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let mut out = Vec::new();
    into(value, "", &mut out)?;
    Ok(out)
}

/// Says whether a dotted name is that of a column inside a dictionary.
pub(crate) fn is_inside(name: &str, dictionary: &str) -> bool {
    name.strip_prefix(dictionary).is_some_and(|rest| rest.starts_with('.'))
}

fn into<'py>(value: &Bound<'py, PyAny>, prefix: &str, out: &mut Vec<(String, Bound<'py, PyAny>)>) -> PyResult<()> {
    let Ok(mapping) = value.cast::<PyMapping>() else { return Err(no_dictionary(value, None)) };
    for item in mapping.items()?.iter() {
        let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = item.extract()?;
        let text = key.cast::<PyString>().ok().and_then(|key| key.to_str().ok());
        let Some(text) = text else {
            let message = format!("returned a dictionary with the key {}, which is no column name", shown(&key));
            let hint = "column names are strings of valid Unicode";
            return Err(raise(key.py(), &Error::new(ErrorKind::Function, message).hint(hint)));
        };
        let name = format!("{prefix}{text}");
        if value.cast::<PyMapping>().is_ok() && value.is_instance_of::<PyDict>() {
            into(&value, &format!("{name}."), out)?;
        } else {
            out.push((name, value));
        }
    }
    Ok(())
}

fn no_dictionary(value: &Bound<'_, PyAny>, row: Option<usize>) -> PyErr {
    let message = format!("returned the wrong structure: {} instead of a dictionary of columns", describe(value));
    let error = Error::new(ErrorKind::Function, message);
    let error = row.map_or(error.clone(), |row| error.with("row", row));
    let hint = match value.is_instance_of::<PyList>() {
        true => {
            "a map gives one sample for each: return {\"column\": value, ...}, where a value may be a list; flat_map makes several"
        }
        false => "return {\"column\": value, ...}",
    };
    raise(value.py(), &error.hint(hint))
}

/// Makes columns from one dictionary for each row.
pub(crate) fn columns_of_rows(py: Python<'_>, schema: &Schema, rows: &[Bound<'_, PyAny>]) -> PyResult<Vec<ArrayRef>> {
    let mut values: Vec<Vec<Bound<'_, PyAny>>> = vec![Vec::with_capacity(rows.len()); schema.fields().len()];
    for (i, row) in rows.iter().enumerate() {
        for (column, value) in values.iter_mut().zip(in_order(schema, row, i)?) {
            column.push(value);
        }
    }
    let made =
        |(field, values): (&Field, Vec<_>)| column(py, field, &values).map_err(|e| with_schema(py, e, schema, field));
    schema.fields().iter().zip(values).map(made).collect()
}

/// Makes columns from one dictionary of columns.
pub(crate) fn columns_of_batch(schema: &Schema, batch: &Bound<'_, PyAny>, rows: usize) -> PyResult<Vec<ArrayRef>> {
    let values = in_order(schema, batch, 0)?;
    let made = |(field, value): (&Field, _)| {
        batched_column(field, value, rows).map_err(|e| with_schema(batch.py(), e, schema, field))
    };
    schema.fields().iter().zip(&values).map(made).collect()
}

fn in_order<'py>(schema: &Schema, row: &Bound<'py, PyAny>, at: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let fields = schema.fields();
    if row.cast::<PyMapping>().is_err() {
        return Err(no_dictionary(row, Some(at)));
    }
    if let Ok(dict) = row.cast::<PyDict>()
        && dict.len() == fields.len()
    {
        let mut values = Vec::with_capacity(fields.len());
        for field in fields {
            let Some(value) = dict.get_item(&field.name)? else { break };
            values.push(value);
        }
        if values.len() == fields.len() {
            return Ok(values);
        }
    }
    let mut flat = flatten(row)?;
    let mut values = Vec::with_capacity(fields.len());
    for field in fields {
        let Some(place) = flat.iter().position(|(n, _)| *n == field.name) else {
            if flat.iter().any(|(n, value)| value.is_none() && is_inside(&field.name, n)) {
                values.push(row.py().None().into_bound(row.py()));
                continue;
            }
            return Err(other_columns(schema, row, at, &format!("column {:?} is missing", field.name)));
        };
        values.push(flat.swap_remove(place).1);
    }
    // A dictionary that is `None` has given `None` to its columns.
    flat.retain(|(n, value)| !(value.is_none() && fields.iter().any(|field| is_inside(&field.name, n))));
    match flat.first() {
        None => Ok(values),
        Some((name, _)) => Err(other_columns(schema, row, at, &format!("column {name:?} was not expected"))),
    }
}

fn other_columns(schema: &Schema, row: &Bound<'_, PyAny>, at: usize, what: &str) -> PyErr {
    let returned: Vec<_> = flatten(row).unwrap_or_default().into_iter().map(|(n, _)| n).collect();
    let error = Error::new(ErrorKind::Function, format!("returned the wrong structure: {what}"))
        .with("row", at)
        .with("expected", schema)
        .with("returned", returned.join(", "))
        .hint("every call has to return the same columns");
    raise(row.py(), &error)
}
