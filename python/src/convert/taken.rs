//! Takes the results of a user's code, before that code runs again.
//!
//! A function may fill one buffer and return it for each row, or keep its result and change it later. So each row is
//! taken when it comes: values that may still change are copied; values that no other code can reach, or change, are
//! not.

use pyo3::buffer::PyBuffer;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyMemoryView, PyString, PyTuple,
};

use crate::convert::arrays::ragged_class;
use crate::convert::masks;
use crate::convert::memory::Memory;
use crate::convert::numpy::NumPy;

/// The deepest lists within lists; NumPy makes no array of deeper ones.
const DEPTH_MAX: usize = 64;

/// Takes one row: a dictionary of columns. Other values pass, and later code reports them.
pub(crate) fn row(value: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let is_alone = refs(&value) == 1;
    mapping(value, is_alone, 0)
}

/// As [`row`], for Python code that calls users' code itself.
#[pyfunction]
pub(crate) fn take_row(value: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    mapping(value, false, 0)
}

fn mapping<'py>(value: Bound<'py, PyAny>, is_alone: bool, depth: usize) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        let own = if is_alone { dict.clone() } else { dict.copy()? };
        let mut changed = Vec::new();
        for (key, value) in own.iter() {
            if !is_plain(&value) {
                changed.push((key, one(value, is_alone, depth)?));
            }
        }
        for (key, value) in changed {
            own.set_item(key, value)?;
        }
        return Ok(own.into_any());
    }
    if value.cast::<PyMapping>().is_err() {
        return Ok(value);
    }
    // The object may create each value on access, in memory that the next one reuses.
    let own = PyDict::new(py);
    for item in value.call_method0(intern!(py, "items"))?.try_iter()? {
        let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = item?.extract()?;
        own.set_item(key, one(value, false, depth)?)?;
    }
    Ok(own.into_any())
}

/// Takes one value. With `is_alone`, no other code holds its container.
fn one<'py>(value: Bound<'py, PyAny>, is_alone: bool, depth: usize) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    if is_plain(&value) || depth >= DEPTH_MAX {
        return Ok(value);
    }
    let np = NumPy::get(py)?;
    if np.is_array(&value)? {
        return array(np, value, is_alone);
    }
    if let Ok(list) = value.cast::<PyList>() {
        let is_alone = is_alone && refs(&value) == 2;
        let own = if is_alone { list.clone() } else { list.get_slice(0, list.len()) };
        return parts(&own, is_alone, depth);
    }
    if let Ok(tuple) = value.cast::<PyTuple>() {
        if tuple.iter_borrowed().all(|part| is_plain(&part)) {
            return Ok(value);
        }
        return parts(&tuple.to_list(), false, depth);
    }
    if value.is_instance_of::<PyDict>() {
        let is_alone = is_alone && refs(&value) == 2;
        return mapping(value, is_alone, depth + 1);
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(PyBytes::new(py, &bytes.to_vec()).into_any());
    }
    if value.is_instance_of::<PyMemoryView>() {
        // A buffer of numbers other than bytes is refused when the column is made.
        let bytes = PyBuffer::<u8>::get(&value).and_then(|view| view.to_vec(py));
        return Ok(bytes.map_or(value, |bytes| PyBytes::new(py, &bytes).into_any()));
    }
    if value.is_instance_of::<PyString>() || np.is_scalar(&value)? {
        return Ok(value);
    }
    if value.is_instance(ragged_class(py)?)? {
        return value.call_method0(intern!(py, "copy"));
    }
    // SAFETY: a live object, and the GIL is held.
    let is_buffer = unsafe { pyo3::ffi::PyObject_CheckBuffer(value.as_ptr()) } == 1;
    let has = |name| value.hasattr(name);
    let is_sequence = has(intern!(py, "__len__"))? && has(intern!(py, "__getitem__"))?;
    if is_buffer || is_sequence || has(intern!(py, "__array__"))? || has(intern!(py, "__array_interface__"))? {
        // A value that NumPy cannot convert is refused when the column is made.
        return Ok(np.array(&value).unwrap_or(value));
    }
    Ok(value)
}

fn parts<'py>(own: &Bound<'py, PyList>, is_alone: bool, depth: usize) -> PyResult<Bound<'py, PyAny>> {
    for (i, part) in own.iter().enumerate() {
        if !is_plain(&part) {
            own.set_item(i, one(part, is_alone, depth + 1)?)?;
        }
    }
    Ok(own.clone().into_any())
}

fn array<'py>(np: &NumPy, value: Bound<'py, PyAny>, is_alone: bool) -> PyResult<Bound<'py, PyAny>> {
    if is_alone && refs(&value) == 2 && (is_owned(np, &value)? || is_fixed(np, &value)?) {
        return Ok(value);
    }
    if np.is_exact_array(&value) || masks::is_masked_array(&value)? {
        return value.call_method0(intern!(value.py(), "copy"));
    }
    np.array(&value)
}

/// Returns whether an array, which has two references, is the only way to its numbers: no other object has them, or a
/// base of them.
fn is_owned(np: &NumPy, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    if !np.is_exact_array(value) || weak_refs(value)? > 0 {
        return Ok(false);
    }
    let base = value.getattr(intern!(py, "base"))?;
    if base.is_none() {
        return value.getattr(intern!(py, "flags"))?.getattr(intern!(py, "owndata"))?.is_truthy();
    }
    // The view has one of the base's references, and we have one.
    Ok(refs(&base) == 2 && is_owned(np, &base)?)
}

/// Returns whether an array lies over memory that no code can change: the engine's, or a `bytes`.
fn is_fixed(np: &NumPy, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    let mut base = value.clone();
    while np.is_exact_array(&base) {
        base = base.getattr(intern!(py, "base"))?;
    }
    while base.is_instance_of::<PyMemoryView>() {
        base = base.getattr(intern!(py, "obj"))?;
    }
    Ok(base.is_exact_instance_of::<PyBytes>() || base.cast::<Memory>().is_ok_and(|memory| !memory.get().is_writable()))
}

/// Returns whether a value never changes, at the cost of a few comparisons.
fn is_plain(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyBytes>()
        || value.is_exact_instance_of::<PyBool>()
}

fn refs(value: &Bound<'_, PyAny>) -> isize {
    // SAFETY: the GIL is held, and the object is alive.
    unsafe { pyo3::ffi::Py_REFCNT(value.as_ptr()) as isize }
}

fn weak_refs(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    static COUNT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    COUNT.import(value.py(), "weakref", "getweakrefcount")?.call1((value,))?.extract()
}
