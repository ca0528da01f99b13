//! Memory of the engine for Python: one Arrow buffer behind Python's buffer protocol.
//!
//! NumPy arrays over it keep the object, and so the buffer, alive. It is writable when nothing else holds the buffer.

use std::ffi::c_int;

use arrow_buffer::{Buffer, MutableBuffer};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

enum Bytes {
    Owned(MutableBuffer),
    Buffer(Buffer),
    Taken,
}

/// One buffer. See the module's documentation.
#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct Memory {
    /// The start and the length of the bytes: fixed, so that views stay valid.
    start: usize,
    len: usize,
    writable: bool,
    bytes: std::sync::Mutex<Bytes>,
}

impl Memory {
    /// Wraps a buffer; it is writable when this is its only owner, and it is the engine's own.
    pub(crate) fn of(buffer: Buffer) -> Self {
        match buffer.into_mutable() {
            Ok(owned) => Self::owned(owned),
            Err(buffer) => {
                let (start, len) = (buffer.as_ptr() as usize, buffer.len());
                // An arena's block has the one owner that it was lent to; other memory from outside must not be
                // written.
                let writable = buffer.strong_count() == 1 && forebay_data::is_in_arena(&buffer);
                Self { start, len, writable, bytes: Bytes::Buffer(buffer).into() }
            }
        }
    }

    /// Wraps a buffer that Python may write.
    pub(crate) fn owned(mut buffer: MutableBuffer) -> Self {
        let (start, len) = (buffer.as_mut_ptr() as usize, buffer.len());
        Self { start, len, writable: true, bytes: Bytes::Owned(buffer).into() }
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Takes the buffer back. The caller must hold the only reference, with no view on it.
    pub(crate) fn take(&self) -> Buffer {
        let mut bytes = self.bytes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match std::mem::replace(&mut *bytes, Bytes::Taken) {
            Bytes::Owned(buffer) => buffer.into(),
            Bytes::Buffer(buffer) => buffer,
            Bytes::Taken => Buffer::default(),
        }
    }
}

#[pymethods]
impl Memory {
    fn __len__(&self) -> usize {
        self.len
    }

    /// # Safety
    /// Called by the interpreter with a view to fill.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        // SAFETY: `start..start + len` is one allocation that lives as long as `slf`, of which the view holds a
        // reference; it is announced as writable only when no Rust code can read it.
        let status = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                this.start as *mut _,
                this.len as ffi::Py_ssize_t,
                c_int::from(!this.writable),
                flags,
            )
        };
        if status == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
