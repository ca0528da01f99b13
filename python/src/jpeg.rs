//! Makes JPEG files of NumPy's pixels, as example data.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Encodes the bytes of an RGB array of shape (height, width, 3).
#[pyfunction]
pub(crate) fn encode_jpeg<'py>(
    py: Python<'py>,
    pixels: &[u8],
    height: usize,
    width: usize,
    quality: u8,
) -> PyResult<Bound<'py, PyBytes>> {
    let file = forebay_exec::image::encode_jpeg(pixels, (height, width), quality);
    file.map(|file| PyBytes::new(py, &file)).map_err(|e| crate::errors::raise(py, &e))
}
