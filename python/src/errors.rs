//! Converts errors to Python exceptions and back: one class for each kind, without loss, and without panic texts.

use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_core::{Error, ErrorKind, Result};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// Returns the name of a kind, as `forebay.errors` knows it.
fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "invalid",
        ErrorKind::NotFound => "not_found",
        ErrorKind::PermissionDenied => "permission_denied",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Data => "data",
        ErrorKind::Function => "function",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Exhausted => "exhausted",
        ErrorKind::Version => "version",
        ErrorKind::Closed => "closed",
        ErrorKind::Internal => "internal",
    }
}

fn kind(name: &str) -> ErrorKind {
    use ErrorKind::*;
    [Invalid, NotFound, PermissionDenied, Conflict, Data, Function, Unavailable, Exhausted, Version, Closed]
        .into_iter()
        .find(|k| self::name(*k) == name)
        .unwrap_or(Internal)
}

/// Makes the exception of this error.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let make = || -> PyResult<Bound<'_, PyAny>> {
        let module = py.import(intern!(py, "forebay.errors"))?;
        let context: Vec<(&str, &str)> = error.context().iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        module.call_method1(intern!(py, "_make"), (name(error.kind()), error.message(), context))
    };
    match make() {
        Ok(exception) => PyErr::from_value(exception),
        Err(e) => e,
    }
}

/// Returns the error for arguments whose types were not checked before.
pub(crate) fn not_arguments(error: serde_json::Error) -> Error {
    // The position in our own JSON is of no use to a user.
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    match what.split_once("\n  hint: ") {
        // An error of our own, which serde has turned into text.
        Some((message, hint)) => Error::invalid(message).hint(hint),
        None => Error::invalid(format!("an argument is of another type than it takes: {what}"))
            .hint("see help() of the function for what it takes"),
    }
}

/// Makes an error from an exception of our own Python code: a Forebay error stays as it is, others are bugs of ours.
pub(crate) fn from_exception(py: Python<'_>, exception: &PyErr) -> Error {
    let value = exception.value(py);
    let read = || -> PyResult<Error> {
        let base = base_class(py)?;
        if !value.is_instance(base)? {
            return Ok(Error::internal(exception.to_string()).hint("please report this as a bug"));
        }
        let kind = kind(&value.getattr("kind")?.extract::<String>()?);
        let error = Error::new(kind, value.getattr("message")?.extract::<String>()?);
        let context: Vec<(String, String)> = value
            .getattr("context")?
            .call_method0("items")?
            .try_iter()?
            .map(|p| p?.extract())
            .collect::<PyResult<_>>()?;
        Ok(context.into_iter().fold(error, |e, (k, v)| e.with(&k, v)))
    };
    read().unwrap_or_else(|e| Error::internal(e.to_string()))
}

/// Makes an error from an exception that was raised while reading a user's value: a Forebay error stays as it is;
/// others come from methods of the value, or from NumPy, which makes arrays of it.
pub(crate) fn from_value(py: Python<'_>, exception: &PyErr) -> Error {
    if is_ours(py, exception) {
        return from_exception(py, exception);
    }
    let error = from_user(py, exception);
    let told = Error::new(error.kind(), format!("returned a value that {}", error.message()));
    error.context().iter().fold(told, |told, (key, value)| told.with(key, value))
}

/// Returns whether an exception is one of Forebay's.
pub(crate) fn is_ours(py: Python<'_>, exception: &PyErr) -> bool {
    base_class(py).is_ok_and(|base| exception.is_instance(py, base))
}

fn base_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static BASE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    BASE.import(py, "forebay.errors", "ForebayError")
}

/// The hint for arrays that others made.
const READ_ONLY: &str = "the values that a function gets are read-only, because others may use the same memory: compute a new value, \
                         x = row[\"x\"] + 1, or copy it first, x = row[\"x\"].copy()";

/// Makes an error from an exception that a user's function raised, with the user's own frames.
///
/// Ctrl-C that arrived in the function interrupts the main thread again, because the error takes its place.
pub(crate) fn from_user(py: Python<'_>, exception: &PyErr) -> Error {
    if exception.is_instance_of::<PyKeyboardInterrupt>(py) {
        // SAFETY: the GIL is held.
        unsafe { pyo3::ffi::PyErr_SetInterrupt() }
        return Error::new(ErrorKind::Closed, "interrupted");
    }
    let text = || -> PyResult<(String, String, Option<String>)> {
        let module = py.import(intern!(py, "forebay._src.functions.user_errors"))?;
        module.call_method1(intern!(py, "describe"), (exception.value(py), exception.traceback(py)))?.extract()
    };
    match text() {
        Ok((message, _, Some(fault))) if fault == "data" => Error::data(message),
        Ok((message, traceback, fault)) => {
            let is_of_input = message.contains("array is read-only") || message.contains("destination is read-only");
            let error = Error::new(ErrorKind::Function, message).with("traceback", traceback);
            let error = if is_of_input { error.hint(READ_ONLY) } else { error };
            match fault.as_deref() {
                Some("skip") => error
                    .with("fault", "skip")
                    .hint("give on_error=\"skip\" (or \"quarantine\") where the pipeline is iterated"),
                Some(fault) => error.with("fault", fault),
                None => error,
            }
        }
        Err(_) => Error::new(ErrorKind::Function, exception.to_string()),
    }
}

/// Runs `work` and turns its errors, and panics, into exceptions.
pub(crate) fn guard<T>(py: Python<'_>, work: impl FnOnce() -> Result<T>) -> PyResult<T> {
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(forebay_exec::panicked(&*panic)));
    outcome.map_err(|e| raise(py, &e))
}

/// As [`guard`], with the interpreter free for other threads.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let outcome =
        py.detach(|| catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(forebay_exec::panicked(&*panic))));
    outcome.map_err(|e| raise(py, &e))
}

/// As [`detached`], for long work: it gets a `poll` that fails when the user presses Ctrl-C.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut dyn FnMut() -> Result<()>) -> Result<T> + Send,
) -> PyResult<T> {
    let mut interrupt: Option<PyErr> = None;
    let slot = &mut interrupt;
    let outcome = py.detach(move || {
        let mut poll = || {
            Python::attach(|py| py.check_signals()).map_err(|e| {
                *slot = Some(e);
                Error::new(ErrorKind::Closed, "interrupted")
            })
        };
        catch_unwind(AssertUnwindSafe(|| work(&mut poll))).unwrap_or_else(|panic| Err(forebay_exec::panicked(&*panic)))
    });
    match (interrupt, outcome) {
        (Some(e), _) => Err(e),
        (None, outcome) => outcome.map_err(|e| raise(py, &e)),
    }
}
