//! The few NumPy objects that conversions use, looked up once.

use forebay_data::DType;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::convert::objects;

pub(crate) struct NumPy {
    module: Py<PyModule>,
    frombuffer: Py<PyAny>,
    empty: Py<PyAny>,
    asarray: Py<PyAny>,
    array: Py<PyAny>,
    ndarray: Py<PyAny>,
    generic: Py<PyAny>,
    object: Py<PyAny>,
    dtypes: Vec<Py<PyAny>>,
}

impl NumPy {
    pub(crate) fn get(py: Python<'_>) -> PyResult<&Self> {
        static NUMPY: PyOnceLock<NumPy> = PyOnceLock::new();
        NUMPY.get_or_try_init(py, || {
            let module = py.import("numpy")?;
            let get = |name: &str| module.getattr(name).map(Bound::unbind);
            let dtype = module.getattr("dtype")?;
            let dtypes = DType::ALL.iter().map(|d| Ok(dtype.call1((d.name(),))?.unbind())).collect::<PyResult<_>>()?;
            Ok(NumPy {
                frombuffer: get("frombuffer")?,
                empty: get("empty")?,
                asarray: get("asarray")?,
                array: get("array")?,
                ndarray: get("ndarray")?,
                generic: get("generic")?,
                object: dtype.call1(("O",))?.unbind(),
                dtypes,
                module: module.unbind(),
            })
        })
    }

    pub(crate) fn module<'py>(&self, py: Python<'py>) -> &Bound<'py, PyModule> {
        self.module.bind(py)
    }

    pub(crate) fn dtype<'py>(&self, py: Python<'py>, dtype: DType) -> &Bound<'py, PyAny> {
        self.dtypes[dtype as usize].bind(py)
    }

    /// Returns our dtype for a NumPy dtype, if there is one.
    pub(crate) fn which(&self, py: Python<'_>, dtype: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
        // NumPy mostly makes each of them once; comparing identities is far cheaper than comparing dtypes.
        if let Some(ours) = DType::ALL.into_iter().find(|d| dtype.is(self.dtype(py, *d))) {
            return Ok(Some(ours));
        }
        for ours in DType::ALL {
            if dtype.eq(self.dtype(py, ours))? {
                return Ok(Some(ours));
            }
        }
        Ok(None)
    }

    /// Returns an array over the bytes of a memory object, without a copy.
    pub(crate) fn view<'py>(
        &self,
        py: Python<'py>,
        memory: &Bound<'py, PyAny>,
        dtype: DType,
        shape: &[usize],
    ) -> PyResult<Bound<'py, PyAny>> {
        let shape = PyTuple::new(py, shape)?;
        if memory.len()? == 0 {
            return self.empty.bind(py).call1((shape, self.dtype(py, dtype)));
        }
        let flat = self.frombuffer.bind(py).call1((memory, self.dtype(py, dtype)))?;
        if shape.len() == 1 { Ok(flat) } else { flat.call_method1(intern!(py, "reshape"), (shape,)) }
    }

    /// Returns a one-dimensional array of Python objects, which are not looked into.
    pub(crate) fn objects<'py>(
        &self,
        py: Python<'py>,
        values: impl ExactSizeIterator<Item = PyResult<Bound<'py, PyAny>>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.empty.bind(py).call1((values.len(), self.object.bind(py)))?;
        objects::fill(&array, values)?;
        Ok(array)
    }

    pub(crate) fn asarray<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.native(&self.asarray.bind(value.py()).call1((value,))?)
    }

    /// Returns an array (or a NumPy scalar) in the byte order of this machine.
    pub(crate) fn native<'py>(&self, array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = array.py();
        let dtype = array.getattr(intern!(py, "dtype"))?;
        if DType::ALL.into_iter().any(|d| dtype.is(self.dtype(py, d))) || dtype.getattr("isnative")?.is_truthy()? {
            return Ok(array.clone());
        }
        array.call_method1("astype", (dtype.call_method1("newbyteorder", ("=",))?,))
    }

    /// Returns a new array with these numbers. In two steps, because an object may answer a request for a copy with its
    /// own memory.
    pub(crate) fn array<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.array.bind(value.py()).call1((self.asarray(value)?,))
    }

    /// Returns whether a value is exactly NumPy's array type, not a subclass.
    pub(crate) fn is_exact_array(&self, value: &Bound<'_, PyAny>) -> bool {
        value.get_type().is(self.ndarray.bind(value.py()))
    }

    pub(crate) fn is_array(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        value.is_instance(self.ndarray.bind(value.py()))
    }

    /// Returns whether an array's dtype is `object`.
    pub(crate) fn is_objects(&self, array: &Bound<'_, PyAny>) -> PyResult<bool> {
        array.getattr(intern!(array.py(), "dtype"))?.eq(self.object.bind(array.py()))
    }

    pub(crate) fn is_scalar(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        value.is_instance(self.generic.bind(value.py()))
    }
}

/// Returns the shape of an array.
pub(crate) fn shape_of(array: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    array.getattr(pyo3::intern!(array.py(), "shape"))?.extract()
}
