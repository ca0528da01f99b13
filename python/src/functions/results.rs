//! Checks the results of users' functions, and explains their errors.

use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{RowId, Schema};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::numpy::{NumPy, shape_of};
use crate::convert::schema_errors::describe;
use crate::convert::{masks, taken};
use crate::errors::{from_value, raise};

/// Returns whether a function keeps the row of this number.
pub(super) fn truth(value: &Bound<'_, PyAny>, row: usize) -> PyResult<bool> {
    if value.is_none() || value.is_instance_of::<PyDict>() {
        let message = format!("returned {} instead of a truth value", describe(value));
        let error = Error::new(ErrorKind::Function, message).with("row", row).hint("return True to keep the row");
        return Err(raise(value.py(), &error));
    }
    value.is_truthy().map_err(|e| {
        let message = format!("returned {}, which is not one truth value: {e}", describe(value));
        let hint = "return True or False; of an array say what is meant: .all() or .any()";
        raise(value.py(), &Error::new(ErrorKind::Function, message).with("row", row).hint(hint))
    })
}

/// Returns the rows that a batched function keeps.
pub(super) fn mask(value: &Bound<'_, PyAny>, rows: usize) -> PyResult<Vec<bool>> {
    let np = NumPy::get(value.py())?;
    let array = np.asarray(value).map_err(|e| {
        let message = format!("returned {}, which is no array: {e}", describe(value));
        raise(value.py(), &Error::new(ErrorKind::Function, message))
    })?;
    let (dtype, shape) = (array.getattr("dtype")?.str()?.extract::<String>()?, shape_of(&array)?);
    if dtype != "bool" || shape != [rows] {
        let message = format!("returned {dtype}{shape:?} instead of a bool array of {rows} rows");
        return Err(raise(value.py(), &Error::new(ErrorKind::Function, message)));
    }
    // A row with a missing answer is dropped, as by an expression.
    let known = if masks::mask(value)?.is_some() { value.call_method1("filled", (false,))? } else { array };
    known.call_method0("tolist")?.extract()
}

/// Takes one row that a function returned.
pub(crate) fn take_row(value: Bound<'_, PyAny>) -> Result<Bound<'_, PyAny>> {
    let py = value.py();
    taken::row(value).map_err(|e| of_code(from_value(py, &e)))
}

/// Marks an error as the code's: the function's columns are part of the pipeline, so no sample caused it.
pub(crate) fn of_code(error: Error) -> Error {
    if error.kind() == ErrorKind::Function { error.with("fault", "code") } else { error }
}

/// Puts the function's name before the message, and the sample in place of the row.
pub(super) fn explain(error: Error, name: &str, ids: &[RowId]) -> Error {
    if !matches!(error.kind(), ErrorKind::Function | ErrorKind::Data) {
        return error;
    }
    let start = Error::new(error.kind(), format!("{name} {}", error.message()));
    error.context().iter().fold(start, |e, (key, value)| match (key.as_str(), value.parse::<usize>()) {
        ("row", Ok(row)) => ids.get(row).map_or(e.clone(), |id| e.with("sample", id.sample)),
        _ => e.with(key, value),
    })
}

/// Adds the near column to the error of a function that read a column which is not there.
pub(super) fn without_column(py: Python<'_>, error: Error, raised: &PyErr, schema: &Schema) -> Error {
    /// Columns that a hint names.
    const NAMED_MAX: usize = 3;
    if !raised.is_instance_of::<PyKeyError>(py) || error.get("hint").is_some() {
        return error;
    }
    let key = raised.value(py).getattr("args").and_then(|args| args.get_item(0)?.extract::<String>());
    let Ok(key) = key else { return error };
    let inside: Vec<String> = schema
        .fields()
        .iter()
        .filter(|field| field.name.strip_prefix(&key).is_some_and(|rest| rest.starts_with('.')))
        .map(|field| format!("row[{:?}]", field.name))
        .take(NAMED_MAX)
        .collect();
    if !inside.is_empty() {
        return error.hint(format!("nested columns have dotted names: write {}", inside.join(", ")));
    }
    match schema.field(&key).err().and_then(|e| e.get("hint").map(str::to_owned)) {
        Some(near) => error.hint(near),
        None => error,
    }
}

/// Returns whether an exception means that modules of this process have the names of the pickle's modules.
pub(super) fn is_other_modules(py: Python<'_>, exception: &PyErr) -> bool {
    let class = py.import("forebay._src.functions.shipping").and_then(|m| m.getattr("OtherModulesError"));
    class.is_ok_and(|class| exception.is_instance(py, &class))
}
