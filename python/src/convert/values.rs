//! Converts results of users' functions to columns: checks them against the schema, and copies them once.
//!
//! The rule for numbers: a NumPy value must have exactly the dtype; a Python number (or a list of them) is converted to
//! the column's, as long as no kind is lost (an int may become a float, a float never an int). `None` and masked
//! numbers are missing, if the schema allows that; the value under a mask is never used as a number.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{ArrayRef, LargeBinaryArray, LargeStringArray, make_array};
use arrow_buffer::{Buffer, MutableBuffer, NullBuffer};
use arrow_data::ArrayData;
use forebay_core::{Error, ErrorKind};
use forebay_data::{DType, Field, Kind, Ragged, TextLists, VariableTensorBuilder, tensor_shape_of_row, tensor_values};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyEllipsis, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple};

use crate::convert::arrays::ragged_class;
use crate::convert::masks::{self, Masks};
use crate::convert::memory::Memory;
use crate::convert::numpy::{NumPy, shape_of};
use crate::convert::schema_errors::{describe, masked, wrong, wrong_batch};
use crate::errors::raise;

/// Rows of this size together are stacked by NumPy in one call, which costs a copy and saves a call for each row.
const STACKED_BYTES_MAX: usize = 1 << 16;

/// Makes a column from one value for each row.
pub(crate) fn column<'py>(py: Python<'py>, field: &Field, values: &[Bound<'py, PyAny>]) -> PyResult<ArrayRef> {
    let np = NumPy::get(py)?;
    let values = &*missing_as_none(py, values)?;
    if !field.nullable
        && let Some(row) = values.iter().position(|v| v.is_none())
    {
        return Err(wrong(field, &values[row], Some(row)));
    }
    match &field.kind {
        Kind::Bytes => {
            let rows = values.iter().enumerate().map(|(i, v)| optional(v, |v| bytes(field, v, i)));
            Ok(Arc::new(LargeBinaryArray::from_iter(rows.collect::<PyResult<Vec<_>>>()?)))
        }
        Kind::Utf8 => {
            let rows = values.iter().enumerate().map(|(i, v)| optional(v, |v| string(field, v, i)));
            Ok(Arc::new(LargeStringArray::from_iter(rows.collect::<PyResult<Vec<_>>>()?)))
        }
        Kind::Texts => {
            let rows = values.iter().enumerate().map(|(i, v)| optional(v, |v| texts(np, field, v, i)));
            let rows = rows.collect::<PyResult<Vec<_>>>()?;
            TextLists::collect(rows).map_err(|e| raise(py, &e))
        }
        Kind::Scalar { dtype } => scalars(py, np, field, *dtype, values),
        Kind::Tensor { dtype, shape } => {
            if let Some(masks) = Masks::loaded(py)? {
                for (row, value) in values.iter().enumerate() {
                    if masks.mask(value)?.is_some() {
                        return Err(masked(field, py, Some(row)));
                    }
                }
            }
            match field.kind.known_shape() {
                Some(shape) => tensors(py, np, field, *dtype, &shape, values),
                None => ragged(np, field, *dtype, shape.len(), values),
            }
        }
    }
}

/// Returns the values with `None` for all missing ones.
fn missing_as_none<'v, 'py>(
    py: Python<'py>,
    values: &'v [Bound<'py, PyAny>],
) -> PyResult<Cow<'v, [Bound<'py, PyAny>]>> {
    let mut known = Cow::Borrowed(values);
    let Some(masks) = Masks::loaded(py)? else { return Ok(known) };
    for (row, value) in values.iter().enumerate() {
        if !value.is_none() && masks::is_missing(Some(masks), value)? {
            known.to_mut()[row] = py.None().into_bound(py);
        }
    }
    Ok(known)
}

/// Makes a column from a batched function's result for it: an array with the rows first, or a list.
pub(crate) fn batched_column<'py>(field: &Field, value: &Bound<'py, PyAny>, rows: usize) -> PyResult<ArrayRef> {
    let py = value.py();
    let np = NumPy::get(py)?;
    let lists = if value.is_instance(ragged_class(py)?)? { Some(np.asarray(value)?) } else { None };
    let value = lists.as_ref().unwrap_or(value);
    let too_few = |n: usize| {
        let message = format!("returned {n} rows for column {:?} of a batch of {rows}", field.name);
        raise(
            py,
            &Error::new(ErrorKind::Function, message).hint(
                "a map gives one row for each row; drop rows with filter, make several of one with flat_map, and \
                       another number of n with window(n).flat_map",
            ),
        )
    };
    let dense = field.kind.dtype().zip(field.kind.known_shape());
    let is_list = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    if let (true, Kind::Tensor { dtype, shape }, false) = (field.uniform, &field.kind, is_list)
        && let array = np.asarray(value)?
        && np.which(py, &array.getattr("dtype")?)? == Some(*dtype)
        && let [whole, inner @ ..] = shape_of(&array)?.as_slice()
        && inner.len() == shape.len()
        && shape.iter().zip(inner).all(|(want, is)| want.is_none_or(|want| want == *is))
    {
        if *whole != rows {
            return Err(too_few(*whole));
        }
        if let Some(mask) = masks::mask(value)?
            && mask.call_method0("any")?.is_truthy()?
        {
            return Err(masked(field, py, None));
        }
        let kind = Kind::fixed(*dtype, inner);
        let bytes = MutableBuffer::from_len_zeroed(rows * inner.iter().product::<usize>() * dtype.size());
        let all: Vec<usize> = std::iter::once(rows).chain(inner.iter().copied()).collect();
        let dense = filled(py, np, &kind, bytes, &all, None, |all| all.set_item(PyEllipsis::get(py), &array))?;
        let values = tensor_values(&kind, &dense).map_err(|e| raise(py, &e))?;
        return Ragged::of_one_shape(*dtype, values, rows, inner).map_err(|e| raise(py, &e));
    }
    // An array of objects may have `None` among them.
    let is_numbers = |array: &Bound<'py, PyAny>| Ok::<_, PyErr>(!field.nullable || !np.is_objects(array)?);
    if let (Some((dtype, shape)), false) = (dense, is_list)
        && let array = np.asarray(value)?
        && is_numbers(&array)?
    {
        let whole = shape_of(&array)?;
        if whole.first() != Some(&rows) {
            return Err(whole.first().map_or_else(|| wrong(field, value, None), |n| too_few(*n)));
        }
        if whole[1..] != shape || np.which(py, &array.getattr("dtype")?)? != Some(dtype) {
            return Err(wrong_batch(field, &array, &whole));
        }
        let mask = masks::mask(value)?;
        if let (Some(mask), false) = (&mask, field.nullable) {
            let row = mask.call_method1("reshape", ((rows, -1),))?.call_method1("any", (1,))?.call_method0("argmax")?;
            return Err(masked(field, py, Some(row.extract()?)));
        }
        let is_there = |mask: &Bound<'py, PyAny>| mask.call_method0("__invert__")?.call_method0("tolist")?.extract();
        let nulls = mask.as_ref().map(is_there).transpose()?.map(|there: Vec<bool>| NullBuffer::from(there));
        let bytes = MutableBuffer::from_len_zeroed(whole.iter().product::<usize>() * dtype.size());
        return filled(py, np, &field.kind, bytes, &whole, nulls, |all| {
            all.set_item(PyEllipsis::get(py), &array)?;
            mask.map_or(Ok(()), |mask| all.set_item(mask, 0))
        });
    }
    if !is_list && !np.is_array(value)? {
        return Err(wrong(field, value, None));
    }
    if value.len()? != rows {
        return Err(too_few(value.len()?));
    }
    let values: Vec<_> = value.try_iter()?.collect::<PyResult<_>>()?;
    let made = column(py, field, &values)?;
    check_one_shape(py, field, &made)?;
    Ok(made)
}

/// Refuses rows of different shapes where all rows of a batch have one.
fn check_one_shape(py: Python<'_>, field: &Field, column: &ArrayRef) -> PyResult<()> {
    if !field.uniform || field.kind.known_shape().is_some() {
        return Ok(());
    }
    let shape = |row| tensor_shape_of_row(&field.kind, column, row).map_err(|e| raise(py, &e));
    for row in 1..column.len() {
        let (first, this) = (shape(0)?, shape(row)?);
        if first != this {
            let message = format!(
                "returned the wrong structure: column {:?} has rows of shapes {first:?} and {this:?} in one batch",
                field.name
            );
            let hint = "behind batch a column of lists is one array: pad its rows to one length; or put the function before \
                        batch, and give batch(..., pad=0)";
            return Err(raise(
                py,
                &Error::new(ErrorKind::Function, message).with("column", &field.name).with("row", row).hint(hint),
            ));
        }
    }
    Ok(())
}

fn optional<'py, T>(
    value: &Bound<'py, PyAny>,
    read: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<Option<T>> {
    if value.is_none() { Ok(None) } else { read(value).map(Some) }
}

fn bytes(field: &Field, value: &Bound<'_, PyAny>, row: usize) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    if value.is_instance_of::<PyByteArray>() || value.is_instance_of::<PyMemoryView>() {
        return PyBuffer::<u8>::get(value)?.to_vec(value.py());
    }
    Err(wrong(field, value, Some(row)))
}

fn string(field: &Field, value: &Bound<'_, PyAny>, row: usize) -> PyResult<String> {
    let Ok(text) = value.cast::<PyString>() else { return Err(wrong(field, value, Some(row))) };
    text.to_str().map(str::to_owned).map_err(|_| {
        let message = format!("returned a text in column {:?} that is not valid Unicode: {}", field.name, shown(value));
        // The content of a text belongs to the sample, unlike the type of a value.
        let error = Error::data(message).with("column", &field.name).with("row", row);
        raise(value.py(), &error.hint(SURROGATE))
    })
}

/// Returns the texts of a list, a tuple or an array; `None` is missing.
fn texts(np: &NumPy, field: &Field, value: &Bound<'_, PyAny>, row: usize) -> PyResult<Vec<Option<String>>> {
    let is_list = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    if !(is_list || np.is_array(value)? && shape_of(value)?.len() == 1) {
        return Err(wrong(field, value, Some(row)));
    }
    let mut texts = Vec::with_capacity(value.len()?);
    for item in value.try_iter()? {
        texts.push(optional(&item?, |item| string(field, item, row))?);
    }
    Ok(texts)
}

/// The hint for a text that no encoding can express.
pub(crate) const SURROGATE: &str = "a surrogate by itself is no character, as JSON with \"\\ud800\" gives: replace it, \
     text.encode(\"utf-8\", \"replace\").decode(), or keep the text as bytes";

/// Returns the beginning of a value's `repr`.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> String {
    let written = value.repr().and_then(|text| text.extract::<String>()).unwrap_or_else(|_| describe(value));
    match written.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &written[..at]),
        None => written,
    }
}

/// Fills zeroed memory through a NumPy view of `shape`, and makes a column of it.
fn filled<'py>(
    py: Python<'py>,
    np: &NumPy,
    kind: &Kind,
    bytes: MutableBuffer,
    shape: &[usize],
    nulls: Option<NullBuffer>,
    fill: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<()>,
) -> PyResult<ArrayRef> {
    let memory = Bound::new(py, Memory::owned(bytes))?;
    let view = np.view(py, memory.as_any(), kind.dtype().unwrap_or(DType::Uint8), shape)?;
    fill(&view)?;
    drop(view);
    numbers(kind, memory.get().take(), shape, nulls).map_err(|e| raise(py, &e))
}

fn numbers(kind: &Kind, buffer: Buffer, shape: &[usize], nulls: Option<NullBuffer>) -> forebay_core::Result<ArrayRef> {
    let refused = |e: arrow_schema::ArrowError| Error::internal(format!("arrow: {e}"));
    let dtype = kind.dtype().unwrap_or(DType::Uint8);
    let data = ArrayData::builder(dtype.arrow()).len(shape.iter().product()).add_buffer(buffer);
    if let Kind::Scalar { .. } = kind {
        return Ok(make_array(data.nulls(nulls).build().map_err(refused)?));
    }
    let data = data.build().map_err(refused)?;
    let list = ArrayData::builder(kind.arrow()).len(shape[0]).nulls(nulls).add_child_data(data).build();
    Ok(make_array(list.map_err(refused)?))
}

fn scalars<'py>(
    py: Python<'py>,
    np: &NumPy,
    field: &Field,
    dtype: DType,
    values: &[Bound<'py, PyAny>],
) -> PyResult<ArrayRef> {
    let nulls = field.nullable.then(|| NullBuffer::from_iter(values.iter().map(|v| !v.is_none())));
    let memory = MutableBuffer::from_len_zeroed(values.len() * dtype.size());
    filled(py, np, &field.kind, memory, &[values.len()], nulls, |all| {
        if !field.nullable
            && let Ok(array) = np.asarray(PyList::new(py, values)?.as_any())
            && shape_of(&array)?.len() == 1
            && np.which(py, &array.getattr("dtype")?)? == Some(dtype)
        {
            return all.set_item(PyEllipsis::get(py), array);
        }
        for (i, value) in values.iter().enumerate().filter(|(_, v)| !v.is_none()) {
            if !fits(np, value, dtype)? || all.set_item(i, value).is_err() {
                return Err(wrong(field, value, Some(i)));
            }
        }
        Ok(())
    })
}

/// Returns whether one number fits a column of `dtype`.
fn fits(np: &NumPy, value: &Bound<'_, PyAny>, dtype: DType) -> PyResult<bool> {
    let py = value.py();
    // NumPy's float64 is a Python float too: a NumPy value keeps its dtype.
    if np.is_scalar(value)? || np.is_array(value)? {
        let dtype_of = np.native(value)?.getattr("dtype")?;
        return Ok(np.which(py, &dtype_of)? == Some(dtype) && shape_of(value)?.is_empty());
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(dtype == DType::Bool);
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(dtype != DType::Bool);
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(dtype.is_float());
    }
    if value.hasattr("__array__")? {
        return fits(np, &np.asarray(value)?, dtype);
    }
    Ok(false)
}

fn tensors<'py>(
    py: Python<'py>,
    np: &NumPy,
    field: &Field,
    dtype: DType,
    shape: &[usize],
    values: &[Bound<'py, PyAny>],
) -> PyResult<ArrayRef> {
    let nulls = field.nullable.then(|| NullBuffer::from_iter(values.iter().map(|v| !v.is_none())));
    let whole: Vec<usize> = std::iter::once(values.len()).chain(shape.iter().copied()).collect();
    let memory = MutableBuffer::from_len_zeroed(whole.iter().product::<usize>() * dtype.size());
    filled(py, np, &field.kind, memory, &whole, nulls, |all| {
        if !field.nullable
            && whole.iter().product::<usize>() * dtype.size() <= STACKED_BYTES_MAX
            && let Ok(array) = np.asarray(PyList::new(py, values)?.as_any())
            && shape_of(&array)? == whole
            && np.which(py, &array.getattr("dtype")?)? == Some(dtype)
        {
            return all.set_item(PyEllipsis::get(py), array);
        }
        for (i, value) in values.iter().enumerate().filter(|(_, v)| !v.is_none()) {
            match tensor(np, value, dtype)? {
                Some(array) if shape_of(&array)? == shape => all.set_item(i, array)?,
                _ => return Err(wrong(field, value, Some(i))),
            }
        }
        Ok(())
    })
}

fn ragged(np: &NumPy, field: &Field, dtype: DType, ndim: usize, values: &[Bound<'_, PyAny>]) -> PyResult<ArrayRef> {
    let mut builder = VariableTensorBuilder::new(dtype, ndim);
    let Kind::Tensor { shape: want, .. } = &field.kind else { return Err(wrong(field, &values[0], None)) };
    for (i, value) in values.iter().enumerate() {
        let py = value.py();
        let array = tensor(np, value, dtype)?.ok_or_else(|| wrong(field, value, Some(i)))?;
        let shape = shape_of(&array)?;
        if shape.len() != ndim || want.iter().zip(&shape).any(|(w, s)| w.is_some_and(|w| w != *s)) {
            return Err(wrong(field, value, Some(i)));
        }
        let flat = np.module(py).call_method1("ascontiguousarray", (array,))?.call_method1("reshape", (-1,))?;
        let bytes = PyBuffer::<u8>::get(&flat.call_method1("view", ("uint8",))?)?.to_vec(py)?;
        builder.push(&shape, &bytes).map_err(|e| raise(py, &e))?;
    }
    builder.finish().map_err(|e| Python::attach(|py| raise(py, &e)))
}

/// Returns a value as an array of exactly `dtype`, if the rule allows that.
fn tensor<'py>(np: &NumPy, value: &Bound<'py, PyAny>, dtype: DType) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = value.py();
    let literal = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    if !literal && !np.is_array(value)? && !value.hasattr("__array__")? && !value.hasattr("__array_interface__")? {
        return Ok(None);
    }
    let Ok(array) = np.asarray(value) else { return Ok(None) };
    let is = np.which(py, &array.getattr("dtype")?)?;
    if is == Some(dtype) {
        return Ok(Some(array));
    }
    // An empty list has no dtype of its own.
    let bends = match is {
        Some(DType::Int64) => dtype != DType::Bool,
        Some(DType::Float64) => dtype.is_float() || array.len().is_ok_and(|n| n == 0),
        _ => false,
    };
    if !(literal && bends) {
        return Ok(None);
    }
    Ok(Some(array.call_method1("astype", (np.dtype(py, dtype),))?))
}
