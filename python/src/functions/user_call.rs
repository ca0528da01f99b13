//! Calls users' code, from threads during whose calls the interpreter may end.
//!
//! Nothing ends a call: an exception thrown into it could come between a C library that frees a handle and the code
//! that forgets the handle. Threads in a call when the interpreter ends never return from it: up to Python 3.13 the
//! interpreter unwinds such a thread when it next requests the GIL, which would abort the process at the first frame of
//! Rust. This module blocks the thread before that.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};

/// How long the end of the interpreter waits for threads that are about to leave it: not in a user's code, but around
/// it.
const AROUND_WAIT: Duration = Duration::from_secs(2);

/// A function of the interpreter that calls users' code, by its address and as one that may unwind: declared directly,
/// it would be the same symbol as pyo3's, which may not unwind, and the compiler would omit the drops that must run
/// then.
type Call = unsafe extern "C-unwind" fn(*mut PyObject, *mut PyObject, *mut PyObject) -> *mut PyObject;
type Next = unsafe extern "C-unwind" fn(*mut PyObject) -> *mut PyObject;

/// Blocks its thread for ever when a frame with it is unwound, as pyo3 does when it takes the GIL.
struct Hold;

impl Drop for Hold {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// The threads that hold a user's objects, without those in a call.
static AROUND: AtomicUsize = AtomicUsize::new(0);

/// Counts a thread that holds users' objects, until it is dropped.
pub(crate) struct Around(());

impl Around {
    pub(crate) fn enter() -> Self {
        AROUND.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Around {
    fn drop(&mut self) {
        AROUND.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits, without the GIL, until the threads left have either released users' objects or are in a call.
pub(crate) fn wait_for_around() {
    let deadline = Instant::now() + AROUND_WAIT;
    while AROUND.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Enters users' code. No frame between `Hold` and the interpreter has anything to drop.
#[inline(never)]
fn enter(code: impl FnOnce() -> *mut PyObject) -> *mut PyObject {
    AROUND.fetch_sub(1, Ordering::SeqCst);
    let hold = Hold;
    let result = code();
    std::mem::forget(hold);
    AROUND.fetch_add(1, Ordering::SeqCst);
    result
}

/// Calls a user's object. The thread is in [`Around`].
pub(crate) fn call<'py>(callable: &Bound<'py, PyAny>, arguments: Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the two types differ only in whether they may unwind.
    let object_call = black_box(unsafe { std::mem::transmute::<*const (), Call>(ffi::PyObject_Call as *const ()) });
    // SAFETY: the GIL is held, and the pointers are of live objects.
    let result = enter(|| unsafe { object_call(callable.as_ptr(), arguments.as_ptr(), std::ptr::null_mut()) });
    drop(arguments);
    // SAFETY: the call returned a new reference, or raised.
    unsafe { Bound::from_owned_ptr_or_err(callable.py(), result) }
}

/// Returns the next item of a user's iterator. The thread is in [`Around`].
pub(crate) fn next<'py>(iterator: &Bound<'py, PyIterator>) -> Option<PyResult<Bound<'py, PyAny>>> {
    // SAFETY: as in `call`.
    let iterator_next = black_box(unsafe { std::mem::transmute::<*const (), Next>(ffi::PyIter_Next as *const ()) });
    // SAFETY: as in `call`.
    let item = enter(|| unsafe { iterator_next(iterator.as_ptr()) });
    if item.is_null() {
        return PyErr::take(iterator.py()).map(Err);
    }
    // SAFETY: it is a new reference.
    Some(Ok(unsafe { Bound::from_owned_ptr(iterator.py(), item) }))
}
