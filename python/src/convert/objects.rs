//! Arrays of Python objects, and strings that repeat in a column as one Python object.

use arrow_array::{Array, LargeStringArray};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// The most strings of a column that are remembered.
const KNOWN_MAX: usize = 4096;
/// The longest string that is remembered, in bytes: a longer one seldom repeats.
const KNOWN_BYTES_MAX: usize = 32;
/// After so many strings, the others are remembered only if one in [`REPEATS_MIN`] of these was a repetition.
const TRIED: usize = 1024;
const REPEATS_MIN: usize = 16;

/// Fills NumPy's array of objects. No other code may hold the array.
///
/// # Errors
/// The first error of a value; the error of an array that gives no access to its places.
pub(super) fn fill<'py>(
    array: &Bound<'py, PyAny>,
    values: impl ExactSizeIterator<Item = PyResult<Bound<'py, PyAny>>>,
) -> PyResult<()> {
    let py = array.py();
    let mut view = ffi::Py_buffer::new();
    // SAFETY: the GIL is held, both pointers are valid, and the view is released below exactly if this succeeds.
    if unsafe { ffi::PyObject_GetBuffer(array.as_ptr(), &raw mut view, ffi::PyBUF_WRITABLE) } != 0 {
        return Err(PyErr::fetch(py));
    }
    let places = view.buf.cast::<*mut ffi::PyObject>();
    let count = view.len as usize / size_of::<*mut ffi::PyObject>();
    let filled = (0..count).zip(values).try_for_each(|(at, value)| {
        let value = value?;
        // SAFETY: the array has `count` places, each of which owns a reference or is null; no other code has the array.
        unsafe {
            let place = places.add(at);
            let old = place.replace(value.into_ptr());
            ffi::Py_XDECREF(old);
        }
        Ok(())
    });
    // SAFETY: the view is that of above.
    unsafe { ffi::PyBuffer_Release(&raw mut view) };
    filled
}

/// Makes Python's strings. A string that has come before in the column is mostly the same object.
pub(super) struct Strings<'py, 'a> {
    py: Python<'py>,
    /// A string is in the place that its hash names, until another one takes it.
    known: Vec<Option<(&'a str, Bound<'py, PyAny>)>>,
    made: usize,
    repeated: usize,
}

impl<'py, 'a> Strings<'py, 'a> {
    pub(super) fn of(py: Python<'py>, column: &LargeStringArray) -> Self {
        let places = if column.len() < 2 { 0 } else { column.len().next_power_of_two().min(KNOWN_MAX) };
        Self { py, known: vec![None; places], made: 0, repeated: 0 }
    }

    pub(super) fn get(&mut self, text: &'a str) -> Bound<'py, PyAny> {
        let new = |py| PyString::new(py, text).into_any();
        if text.len() > KNOWN_BYTES_MAX || self.known.is_empty() {
            return new(self.py);
        }
        let at = hash(text.as_bytes()) & (self.known.len() - 1);
        self.made += 1;
        if let Some((_, string)) = self.known[at].as_ref().filter(|(known, _)| *known == text) {
            self.repeated += 1;
            return string.clone();
        }
        let string = new(self.py);
        self.known[at] = Some((text, string.clone()));
        if self.made == TRIED && self.repeated < TRIED / REPEATS_MIN {
            self.known = Vec::new();
        }
        string
    }
}

/// Mixes the length, and the first and the last eight bytes.
fn hash(text: &[u8]) -> usize {
    let word = |bytes: &[u8]| bytes.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    let first = text.first_chunk::<8>().map_or_else(|| word(text), |first| u64::from_le_bytes(*first));
    let last = text.last_chunk::<8>().map_or(0, |last| u64::from_le_bytes(*last));
    let mixed = (first ^ last.rotate_left(23) ^ text.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize
}
