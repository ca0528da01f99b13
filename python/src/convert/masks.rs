//! NumPy's masked arrays: converts numbers that may be missing for users' functions, and back.
//!
//! `numpy.ma` is not imported with NumPy, and its import is slow. Masked arrays exist only after it was imported, so
//! values from users are checked only then.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

pub(crate) struct Masks {
    /// NumPy's value for one missing number.
    masked: Py<PyAny>,
    array: Py<PyAny>,
    mask_of: Py<PyAny>,
}

static MASKS: PyOnceLock<Masks> = PyOnceLock::new();

impl Masks {
    /// Imports the names that make a masked array.
    pub(crate) fn get(py: Python<'_>) -> PyResult<&Self> {
        MASKS.get_or_try_init(py, || {
            let module = py.import("numpy.ma")?;
            let get = |name: &str| module.getattr(name).map(Bound::unbind);
            Ok(Masks { masked: get("masked")?, array: get("MaskedArray")?, mask_of: get("getmaskarray")? })
        })
    }

    /// Returns the names if there may be a masked array.
    pub(crate) fn loaded(py: Python<'_>) -> PyResult<Option<&Self>> {
        if let Some(masks) = MASKS.get(py) {
            return Ok(Some(masks));
        }
        let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
        if modules.contains(intern!(py, "numpy.ma"))? { Self::get(py).map(Some) } else { Ok(None) }
    }

    /// Makes a masked array of values and a mask.
    pub(crate) fn cover<'py>(
        &self,
        values: &Bound<'py, PyAny>,
        mask: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.array.bind(values.py()).call1((values, mask))
    }

    /// Returns whether a value is a number that is masked.
    fn is_masked(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = value.py();
        if value.is(self.masked.bind(py)) {
            return Ok(true);
        }
        // One number may be an array too. Comparing types costs next to nothing.
        if !value.get_type().is(self.array.bind(py)) || value.getattr(intern!(py, "ndim"))?.extract::<usize>()? > 0 {
            return Ok(false);
        }
        self.mask(value).map(|mask| mask.is_some())
    }

    /// As [`mask`].
    pub(crate) fn mask<'py>(&self, array: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = array.py();
        if !array.is_instance(self.array.bind(py))? {
            return Ok(None);
        }
        let mask = self.mask_of.bind(py).call1((array,))?;
        Ok(mask.call_method0(intern!(py, "any"))?.is_truthy()?.then_some(mask))
    }
}

/// Returns whether a value is none: `None`, or a number that is masked.
pub(crate) fn is_missing(masks: Option<&Masks>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if value.is_none() { Ok(true) } else { masks.map_or(Ok(false), |masks| masks.is_masked(value)) }
}

/// Returns the mask of an array, as truth values of its shape; `None` when no number is masked.
///
/// Code that reads an array's numbers must call this first: `numpy.asarray` returns masked numbers as if they were
/// there.
pub(crate) fn mask<'py>(array: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    Masks::loaded(array.py())?.map_or(Ok(None), |masks| masks.mask(array))
}

/// Returns whether a value is a masked array, with any mask.
pub(crate) fn is_masked_array(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Masks::loaded(value.py())?.map_or(Ok(false), |masks| value.is_instance(masks.array.bind(value.py())))
}
