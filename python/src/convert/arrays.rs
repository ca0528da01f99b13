//! Chunks as NumPy arrays that share the engine's memory.
//!
//! | column | array |
//! |---|---|
//! | numbers, tensors of one shape | an array of that dtype over the engine's memory |
//! | lists of any length | a `Ragged` over the engine's memory; padded or stacked ones an array of that dtype |
//! | other tensors of different shapes | an object array of arrays over the engine's memory; one array if they have one shape |
//! | bytes, strings, lists of strings | an object array of `bytes`, `str`, lists; `None` where missing |
//! | floats with missing values | NaN where missing |
//! | other numbers that may be missing | `numpy.ma.MaskedArray` |
//!
//! An array is writable when its buffer belongs to this chunk alone, as for all columns that the engine has computed; a
//! buffer that the source or other columns share is read-only.

use arrow_array::{Array, ArrayRef, LargeBinaryArray, LargeStringArray};
use arrow_buffer::{Buffer, MutableBuffer, NullBuffer};
use forebay_data::{Chunk, DType, Field, Kind, Ragged, TextLists, tensor_shape_of_row, tensor_values};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::convert::masks::{self, Masks};
use crate::convert::memory::Memory;
use crate::convert::numpy::NumPy;
use crate::convert::objects::Strings;
use crate::errors::raise;

/// A column whose numbers are found but whose Arrow array is dropped, so that its buffer may have one owner.
enum Numbers {
    Dense { buffer: Buffer, dtype: DType, shape: Vec<usize>, missing: Option<NullBuffer> },
    Lists { buffer: Buffer, dtype: DType, shape: Vec<usize>, offsets: Vec<i32> },
    Different { buffer: Buffer, dtype: DType, shapes: Vec<Vec<usize>> },
    Objects(ArrayRef),
}

/// A chunk in Python's form.
pub(crate) struct Columns<'py> {
    names: Vec<Bound<'py, PyString>>,
    arrays: Vec<Bound<'py, PyAny>>,
    rows: usize,
    /// Whether a row may lack a value (`None` in Python).
    nullable: bool,
}

impl<'py> Columns<'py> {
    /// Converts a chunk whose columns are used as a whole.
    pub(crate) fn of(py: Python<'py>, chunk: Chunk) -> PyResult<Self> {
        Self::with(py, chunk, true)
    }

    /// Converts a chunk whose rows are used one by one: lists are arrays, which are found faster than in a `Ragged`.
    pub(crate) fn by_row(py: Python<'py>, chunk: Chunk) -> PyResult<Self> {
        Self::with(py, chunk, false)
    }

    fn with(py: Python<'py>, chunk: Chunk, ragged: bool) -> PyResult<Self> {
        let np = NumPy::get(py)?;
        let schema = chunk.schema().clone();
        let rows = chunk.num_rows();
        let found = schema.fields().iter().zip(chunk.columns()).map(|(f, c)| numbers(f, c, ragged));
        let found = found.collect::<forebay_core::Result<Vec<_>>>().map_err(|e| raise(py, &e))?;
        drop(chunk);
        let arrays = schema.fields().iter().zip(found).map(|(f, n)| array(py, np, f, n)).collect::<PyResult<_>>()?;
        let names = schema.fields().iter().map(|f| PyString::intern(py, &f.name)).collect();
        let nullable = schema.fields().iter().any(|f| f.nullable);
        Ok(Self { names, arrays, rows, nullable })
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the columns, by name.
    pub(crate) fn dict(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, array) in self.names.iter().zip(&self.arrays) {
            dict.set_item(name, array)?;
        }
        Ok(dict)
    }

    /// Returns one row, by column name: NumPy scalars, arrays, `bytes`, `str`; `None` for a missing value that is no
    /// float.
    pub(crate) fn row(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, array) in self.names.iter().zip(&self.arrays) {
            let mut value = array.get_item(row)?;
            if self.nullable && masks::is_missing(Some(Masks::get(py)?), &value)? {
                value = py.None().into_bound(py);
            }
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }
}

fn numbers(field: &Field, column: &ArrayRef, ragged: bool) -> forebay_core::Result<Numbers> {
    let Some(dtype) = field.kind.dtype() else { return Ok(Numbers::Objects(column.clone())) };
    let buffer = tensor_values(&field.kind, column)?;
    if let Some(inner) = field.kind.known_shape() {
        let shape = std::iter::once(column.len()).chain(inner).collect();
        let missing = if field.nullable { column.nulls().cloned() } else { None };
        return Ok(Numbers::Dense { buffer, dtype, shape, missing });
    }
    if let (true, false, Kind::Tensor { shape, .. }, Some(_)) =
        (ragged, field.uniform, &field.kind, Ragged::inner(&field.kind))
    {
        let lists = Ragged::of(&field.kind, column)?;
        let shape = std::iter::once(lists.steps()).chain(shape[1..].iter().flatten().copied()).collect();
        return Ok(Numbers::Lists { buffer, dtype, shape, offsets: lists.offsets() });
    }
    let shapes = (0..column.len()).map(|i| tensor_shape_of_row(&field.kind, column, i));
    let shapes = shapes.collect::<Result<Vec<_>, _>>()?;
    if let Some(inner) = shapes.first().filter(|first| field.uniform && shapes.iter().all(|shape| shape == *first)) {
        let shape = std::iter::once(column.len()).chain(inner.iter().copied()).collect();
        return Ok(Numbers::Dense { buffer, dtype, shape, missing: None });
    }
    Ok(Numbers::Different { buffer, dtype, shapes })
}

fn array<'py>(py: Python<'py>, np: &NumPy, field: &Field, numbers: Numbers) -> PyResult<Bound<'py, PyAny>> {
    match numbers {
        Numbers::Dense { buffer, dtype, shape, missing }
            if field.nullable && matches!(field.kind, Kind::Scalar { .. }) =>
        {
            with_missing(py, np, buffer, dtype, &shape, missing)
        }
        Numbers::Dense { buffer, dtype, shape, .. } => {
            let memory = Bound::new(py, Memory::of(buffer))?;
            np.view(py, memory.as_any(), dtype, &shape)
        }
        Numbers::Lists { buffer, dtype, shape, offsets } => {
            let values = np.view(py, Bound::new(py, Memory::of(buffer))?.as_any(), dtype, &shape)?;
            let rows = offsets.len();
            let offsets = Bound::new(py, Memory::of(Buffer::from_vec(offsets)))?;
            ragged_class(py)?.call1((values, np.view(py, offsets.as_any(), DType::Int32, &[rows])?))
        }
        Numbers::Different { buffer, dtype, shapes } => {
            let total = buffer.len() / dtype.size();
            let memory = Bound::new(py, Memory::of(buffer))?;
            let flat = np.view(py, memory.as_any(), dtype, &[total])?;
            let mut at = 0;
            np.objects(
                py,
                shapes.into_iter().map(|shape| {
                    let end = at + shape.iter().product::<usize>();
                    let part = flat.get_item(pyo3::types::PySlice::new(py, at as isize, end as isize, 1))?;
                    at = end;
                    part.call_method1(pyo3::intern!(py, "reshape"), (pyo3::types::PyTuple::new(py, shape)?,))
                }),
            )
        }
        Numbers::Objects(column) => objects(py, np, &column),
    }
}

/// Returns the class of columns of lists.
pub(crate) fn ragged_class(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    CLASS.import(py, "forebay._src.ragged", "Ragged")
}

fn with_missing<'py>(
    py: Python<'py>,
    np: &NumPy,
    buffer: Buffer,
    dtype: DType,
    shape: &[usize],
    missing: Option<NullBuffer>,
) -> PyResult<Bound<'py, PyAny>> {
    let copied = Bound::new(py, Memory::owned(copy(&buffer)))?;
    let values = np.view(py, copied.as_any(), dtype, shape)?;
    let mask: Vec<u8> = (0..shape[0]).map(|i| u8::from(missing.as_ref().is_some_and(|m| m.is_null(i)))).collect();
    let mask = Bound::new(py, Memory::owned(copy(&mask)))?;
    let mask = np.view(py, mask.as_any(), DType::Bool, shape)?;
    if dtype.is_float() {
        values.set_item(mask, f64::NAN)?;
        return Ok(values);
    }
    // A masked place has arbitrary bytes of the buffer. Some code looks under the mask, and must not see them.
    if missing.is_some() {
        values.set_item(&mask, 0)?;
    }
    Masks::get(py)?.cover(&values, &mask)
}

pub(crate) fn copy(bytes: &[u8]) -> MutableBuffer {
    let mut buffer = MutableBuffer::new(bytes.len());
    buffer.extend_from_slice(bytes);
    buffer
}

fn objects<'py>(py: Python<'py>, np: &NumPy, column: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    if let Some(bytes) = column.as_any().downcast_ref::<LargeBinaryArray>() {
        return np.objects(
            py,
            bytes.iter().map(|v| Ok(v.map_or_else(|| py.None().into_bound(py), |b| PyBytes::new(py, b).into_any()))),
        );
    }
    if let Some(strings) = column.as_any().downcast_ref::<LargeStringArray>() {
        let mut made = Strings::of(py, strings);
        let string = |text: Option<_>| Ok(text.map_or_else(|| py.None().into_bound(py), |text| made.get(text)));
        return np.objects(py, strings.iter().map(string));
    }
    if let Ok(lists) = TextLists::of(column) {
        let is_there = |row| lists.nulls().is_none_or(|nulls| nulls.is_valid(row));
        return np.objects(
            py,
            (0..lists.rows()).map(|row| match is_there(row) {
                true => Ok(PyList::new(py, lists.get(row))?.into_any()),
                false => Ok(py.None().into_bound(py)),
            }),
        );
    }
    let error = forebay_core::Error::internal(format!("a column of {} has no array", column.data_type()));
    Err(raise(py, &error))
}
