//! Finds the columns of values: the schema of users' functions, by calling them on the first samples.

use std::collections::BTreeSet;

use forebay_core::{Error, ErrorKind};
use forebay_data::{DType, Field, Kind};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple};

use crate::convert::arrays::ragged_class;
use crate::convert::masks::{self, Masks};
use crate::convert::numpy::NumPy;
use crate::convert::numpy::shape_of;
use crate::convert::rows::{flatten, is_inside};
use crate::convert::schema_errors::describe;
use crate::convert::values::shown;
use crate::errors::raise;

/// How many rows of a column are looked at, which decides about lists of one length.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowsSeen {
    /// All rows.
    All,
    /// The first ones: lists in later rows may have other lengths.
    First,
}

/// Returns the columns of the samples that a function returned, one dictionary each. A list may have another length in
/// other samples; an array and a tuple have one shape. The columns of a dictionary that is `None` are missing.
pub(crate) fn fields_of_rows(samples: &[Bound<'_, PyAny>]) -> PyResult<Vec<Field>> {
    let known = samples.first().map(|s| Masks::loaded(s.py())).transpose()?.flatten();
    let rows = samples.iter().map(flatten).collect::<PyResult<Vec<_>>>()?;
    let mut names = Vec::new();
    for (name, value) in rows.iter().flatten() {
        let is_dictionary = || rows.iter().flatten().any(|(other, _)| is_inside(other, name));
        if !(names.contains(&name) || value.is_none() && is_dictionary()) {
            names.push(name);
        }
    }
    let mut fields: Vec<Option<Field>> = vec![None; names.len()];
    let mut lists = BTreeSet::new();
    for (sample, row) in samples.iter().zip(&rows) {
        let is_absent = |name: &str| row.iter().any(|(other, value)| value.is_none() && is_inside(name, other));
        for (name, field) in names.iter().zip(&mut fields) {
            let value = row.iter().find(|(other, _)| other == *name).map(|(_, value)| value);
            let Some(value) = value else {
                if !is_absent(name) {
                    return Err(different(sample, &rows));
                }
                field.get_or_insert_with(|| Field::new(*name, Kind::Utf8)).nullable = true;
                continue;
            };
            if value.is_instance_of::<PyList>() && !lists.contains(*name) {
                lists.insert(*name);
            }
            let kind = if masks::is_missing(known, value)? { None } else { Some(kind_of(name, value)?) };
            match field {
                Some(field) => merge(field, kind, value)?,
                // The samples that follow show the type of a value that is missing at first.
                None => {
                    let nullable = kind.is_none();
                    *field = Some(Field { nullable, ..Field::new(*name, kind.unwrap_or(Kind::Utf8)) });
                }
            }
        }
    }
    let mut fields: Vec<Field> = fields.into_iter().flatten().collect();
    for field in fields.iter_mut().filter(|field| lists.contains(&field.name)) {
        open(field);
    }
    Ok(fields)
}

/// The error for samples of which some have other columns than the first.
fn different(sample: &Bound<'_, PyAny>, rows: &[Vec<(String, Bound<'_, PyAny>)>]) -> PyErr {
    let names = |row: &Vec<(String, Bound<'_, PyAny>)>| row.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>();
    let first = rows.first().map(names).unwrap_or_default();
    let other = rows.iter().map(names).find(|row| row.len() != first.len() || row.iter().any(|n| !first.contains(n)));
    let error = Error::new(ErrorKind::Function, "returned different columns for different samples")
        .with("first", first.join(", "))
        .with("then", other.unwrap_or_default().join(", "));
    raise(sample.py(), &error)
}

/// Lets the lists of a column have any length. Returns whether they had one length so far.
fn open(field: &mut Field) -> bool {
    match &mut field.kind {
        Kind::Tensor { shape, .. } => shape.first_mut().is_some_and(|length| length.take().is_some()),
        _ => false,
    }
}

/// Returns, as JSON, the columns of samples.
#[pyfunction]
#[pyo3(name = "fields_of_rows")]
pub(crate) fn fields_of_samples(samples: Vec<Bound<'_, PyAny>>) -> PyResult<String> {
    let of_value = |e: PyErr| Python::attach(|py| raise(py, &crate::errors::from_value(py, &e)));
    let fields = fields_of_rows(&samples).map_err(of_value)?;
    Ok(serde_json::to_string(&fields).unwrap_or_default())
}

/// Returns the columns of a padded batch, of which `longer` is a longer one: a dimension that differs between them has
/// one size in each batch.
pub(crate) fn of_any_length(fields: Vec<Field>, longer: &[Field]) -> Vec<Field> {
    let merged = |field: Field| {
        let other = longer.iter().find(|other| other.name == field.name).map(|other| &other.kind);
        let (Kind::Tensor { dtype, shape }, Some(Kind::Tensor { dtype: again, shape: then })) = (&field.kind, other)
        else {
            return field;
        };
        // Rows that differ within a batch differ in any case.
        let is_open = shape.contains(&None) || then.contains(&None);
        if is_open || shape == then || dtype != again || shape.len() != then.len() {
            return field;
        }
        let shape = shape.iter().zip(then).map(|(a, b)| if a == b { *a } else { None }).collect();
        Field { kind: Kind::Tensor { dtype: *dtype, shape }, uniform: true, ..field }
    };
    fields.into_iter().map(merged).collect()
}

/// Returns the columns of a dictionary of arrays (or lists) with the rows first. A column of lists that had one length in
/// the first rows is marked as uniform.
pub(crate) fn fields_of_batch(batch: &Bound<'_, PyAny>, seen: RowsSeen) -> PyResult<Vec<Field>> {
    let np = NumPy::get(batch.py())?;
    flatten(batch)?.into_iter().map(|(name, value)| field_of_column(np, name, &value, seen)).collect()
}

fn field_of_column(np: &NumPy, name: String, value: &Bound<'_, PyAny>, seen: RowsSeen) -> PyResult<Field> {
    let py = value.py();
    if value.is_instance(ragged_class(py)?)? {
        let values = np.asarray(&value.getattr("values")?)?;
        let mut field = Field::new(name.clone(), kind_of(&name, &values)?);
        open(&mut field);
        return Ok(field);
    }
    let is_list = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    if !is_list {
        let array = np.asarray(value)?;
        let shape = shape_of(&array)?;
        // Without rows, an array of no items tells the type of lists, and not their length.
        if shape == [0, 0] {
            let kind = match np.which(py, &array.getattr("dtype")?)? {
                Some(dtype) => Kind::Tensor { dtype, shape: [None].into() },
                None => Kind::Texts,
            };
            return Ok(Field::new(name, kind));
        }
        if let (Some(dtype), [_, inner @ ..]) = (np.which(py, &array.getattr("dtype")?)?, shape.as_slice()) {
            let kind = if inner.is_empty() { Kind::scalar(dtype) } else { Kind::fixed(dtype, inner) };
            let nullable = kind.can_be_missing() && masks::is_masked_array(value)?;
            return Ok(Field { nullable, ..Field::new(name, kind) });
        }
        if shape.is_empty() {
            return Err(not_a_list(&name, value, seen));
        }
    }
    let mut field: Option<Field> = None;
    let (mut missing, mut lists) = (false, false);
    let known = Masks::loaded(py)?;
    for value in value.try_iter()? {
        let value = value?;
        lists |= seen == RowsSeen::First && value.is_instance_of::<PyList>();
        if masks::is_missing(known, &value)? {
            missing = true;
            continue;
        }
        let kind = kind_of(&name, &value)?;
        match &mut field {
            Some(field) => merge(field, Some(kind), &value)?,
            None => field = Some(Field::new(name.clone(), kind)),
        }
    }
    let mut field = field.unwrap_or_else(|| Field::new(name, Kind::Utf8));
    let uniform = lists && open(&mut field);
    Ok(Field { nullable: missing, uniform, ..field })
}

fn merge(field: &mut Field, kind: Option<Kind>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    use Kind::{Scalar, Tensor};
    let Some(kind) = kind else {
        field.nullable = true;
        return Ok(());
    };
    if field.nullable && field.kind == Kind::Utf8 {
        field.kind = kind;
        return Ok(());
    }
    let joined = match (&field.kind, &kind) {
        (a, b) if a == b => Some(kind.clone()),
        // As NumPy: whole numbers of which one is 2^63 or more are unsigned.
        (Scalar { dtype: DType::Int64 }, Scalar { dtype: DType::Uint64 })
        | (Scalar { dtype: DType::Uint64 }, Scalar { dtype: DType::Int64 })
            if !NumPy::get(value.py())?.is_scalar(value)? =>
        {
            Some(Kind::scalar(DType::Uint64))
        }
        (Scalar { dtype: DType::Int64 }, Scalar { dtype: DType::Float64 })
        | (Scalar { dtype: DType::Float64 }, Scalar { dtype: DType::Int64 }) => Some(Kind::scalar(DType::Float64)),
        (Kind::Texts, Tensor { dtype: DType::Float64, shape: empty })
        | (Tensor { dtype: DType::Float64, shape: empty }, Kind::Texts)
            if **empty == [Some(0)] =>
        {
            Some(Kind::Texts)
        }
        // An empty list has no type of its own; NumPy makes it one of float64.
        (Tensor { dtype: DType::Float64, shape: empty }, Tensor { dtype, shape })
        | (Tensor { dtype, shape }, Tensor { dtype: DType::Float64, shape: empty })
            if **empty == [Some(0)] && shape.len() == 1 =>
        {
            Some(Tensor { dtype: *dtype, shape: [None].into() })
        }
        (Tensor { dtype, shape }, Tensor { dtype: other, shape: then })
            if dtype == other && shape.len() == then.len() =>
        {
            let shape = shape.iter().zip(then).map(|(a, b)| if a == b { *a } else { None }).collect();
            Some(Tensor { dtype: *dtype, shape })
        }
        _ => None,
    };
    match joined {
        Some(kind) => {
            field.kind = kind;
            Ok(())
        }
        None => {
            let message = format!(
                "returned the wrong structure: column {:?} was {}, and is {} in another sample",
                field.name, field.kind, kind
            );
            Err(raise(value.py(), &Error::new(ErrorKind::Function, message).with("column", &field.name)))
        }
    }
}

/// Returns the kind of one value of a row.
fn kind_of(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Kind> {
    let py = value.py();
    let np = NumPy::get(py)?;
    if value.is_instance_of::<PyString>() {
        return Ok(Kind::Utf8);
    }
    let binary = value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>();
    if binary || value.is_instance_of::<PyMemoryView>() {
        return Ok(Kind::Bytes);
    }
    let made_by_numpy = np.is_array(value)? || np.is_scalar(value)?;
    if !made_by_numpy {
        let literal = match value {
            v if v.is_instance_of::<PyBool>() => Some(DType::Bool),
            v if v.is_instance_of::<PyInt>() && v.extract::<i64>().is_ok() => Some(DType::Int64),
            v if v.is_instance_of::<PyInt>() && v.extract::<u64>().is_ok() => Some(DType::Uint64),
            v if v.is_instance_of::<PyInt>() => return Err(too_large(name, v)),
            v if v.is_instance_of::<PyFloat>() => Some(DType::Float64),
            _ => None,
        };
        if let Some(dtype) = literal {
            return Ok(Kind::scalar(dtype));
        }
    }
    if is_texts(np, value)? {
        return Ok(Kind::Texts);
    }
    let Ok(array) = np.asarray(value) else { return Err(not_a_column(name, value)) };
    let Some(dtype) = np.which(py, &array.getattr("dtype")?)? else { return Err(not_a_column(name, value)) };
    let shape = shape_of(&array)?;
    Ok(if shape.is_empty() { Kind::scalar(dtype) } else { Kind::fixed(dtype, &shape) })
}

/// Says whether a value is a list, a tuple or an array of texts. An empty list is one of anything.
fn is_texts(np: &NumPy, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_list = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    if !(is_list || np.is_array(value)? && shape_of(value)?.len() == 1) {
        return Ok(false);
    }
    if value.len()? == 0 {
        return Ok(!is_list && value.getattr("dtype")?.getattr("kind")?.extract::<String>()? == "U");
    }
    // The first item tells it of nearly all lists that are none.
    for item in value.try_iter()? {
        let item = item?;
        if !item.is_none() && !item.is_instance_of::<PyString>() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether a value is a number or a short text, which an error shows as Python reads it.
fn is_literal(value: &Bound<'_, PyAny>) -> bool {
    let is_number = value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>();
    is_number || value.is_instance_of::<PyString>() && value.len().is_ok_and(|length| length < 40)
}

/// Returns whether a value is a list of numbers with `None` among them.
fn has_none(value: &Bound<'_, PyAny>) -> bool {
    let is_number = |item: &Bound<'_, PyAny>| item.is_instance_of::<PyInt>() || item.is_instance_of::<PyFloat>();
    let Ok(list) = value.cast::<PyList>() else { return false };
    list.iter().any(|item| item.is_none()) && list.iter().all(|item| item.is_none() || is_number(&item))
}

fn too_large(name: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let message = format!("column {name:?} has the whole number {}, which 64 bits do not hold", shown(value));
    let error = Error::new(ErrorKind::Function, message).with("column", name);
    raise(value.py(), &error.hint("give it as a float, or as a string"))
}

fn not_a_list(name: &str, value: &Bound<'_, PyAny>, seen: RowsSeen) -> PyErr {
    let message =
        format!("column {name:?} is {}, and not an array or a list with a value for each row", describe(value));
    let hint = match seen {
        RowsSeen::All if is_literal(value) => format!("write {{{name:?}: [{}]}} for one row", shown(value)),
        RowsSeen::All if value.try_iter().is_ok() => format!("write {{{name:?}: list(value)}}"),
        RowsSeen::All => "give a list with a value for each row".to_owned(),
        RowsSeen::First => {
            "a function of a batch returns as many values as the batch has rows: numpy.full(rows, value)".to_owned()
        }
    };
    raise(value.py(), &Error::new(ErrorKind::Function, message).with("column", name).hint(hint))
}

fn not_a_column(name: &str, value: &Bound<'_, PyAny>) -> PyErr {
    if has_none(value) {
        let message = format!("column {name:?} has a list in which a value is missing, which no column can hold");
        let error = Error::new(ErrorKind::Function, message).with("column", name);
        return raise(value.py(), &error.hint("put a number in its place, such as float(\"nan\") or 0"));
    }
    let message = format!("column {name:?} is {}, which no column can hold", describe(value));
    let error = Error::new(ErrorKind::Function, message)
        .with("column", name)
        .hint("use numbers, str, bytes, arrays or lists of numbers of one shape, and lists of str");
    raise(value.py(), &error)
}
