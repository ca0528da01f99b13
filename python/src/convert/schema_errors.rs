//! Errors for values of a user's function that do not fit its schema.

use forebay_core::{Error, ErrorKind};
use forebay_data::{Field, Kind, Schema};
use pyo3::prelude::*;

use crate::convert::numpy::{NumPy, shape_of};
use crate::errors::{from_exception, raise};

const FIT: &str = "every row has to fit the schema";
const DIFFER: &str = "for shapes that differ write schema={";
/// The most columns that a hint writes out.
const COLUMNS_MAX: usize = 24;

/// Describes a value in the words of a schema.
pub(crate) fn describe(value: &Bound<'_, PyAny>) -> String {
    let text = || -> PyResult<String> {
        let np = NumPy::get(value.py())?;
        if np.is_array(value)? || np.is_scalar(value)? {
            let shape = shape_of(value)?;
            let dtype: String = value.getattr("dtype")?.str()?.extract()?;
            return Ok(if shape.is_empty() { dtype } else { format!("{dtype}{shape:?}") });
        }
        value.get_type().name()?.extract()
    };
    text().unwrap_or_else(|_| "an object".to_owned())
}

/// The context has the row as `row` until the caller, who knows the samples, replaces it.
pub(super) fn wrong(field: &Field, value: &Bound<'_, PyAny>, row: Option<usize>) -> PyErr {
    let message = format!(
        "returned the wrong structure: column {:?} should be {}, and is {}",
        field.name,
        field.kind,
        describe(value)
    );
    let error = Error::new(ErrorKind::Function, message).with("column", &field.name);
    let error = match row {
        Some(row) => error.with("row", row),
        None => error,
    };
    let is = NumPy::get(value.py()).and_then(|np| shape_of(&np.asarray(value)?)).unwrap_or_default();
    raise(value.py(), &error.hint(hint(field, &is)))
}

/// Returns the error for a masked number where none may be missing.
pub(super) fn masked(field: &Field, py: Python<'_>, row: Option<usize>) -> PyErr {
    let (name, kind) = (&field.name, &field.kind);
    let message = format!("returned the wrong structure: column {name:?} is {kind}, and has numbers that are masked");
    let error = Error::new(ErrorKind::Function, message).with("column", name);
    let error = row.map_or(error.clone(), |row| error.with("row", row));
    let fill = "fill them, as with array.filled(0)";
    raise(
        py,
        &error.hint(match kind {
            Kind::Scalar { dtype } => {
                format!("{fill}, or say that they may be missing: schema={{{name:?}: \"{dtype}?\"}}")
            }
            _ => format!("{fill}: a row of {kind} is there as a whole"),
        }),
    )
}

/// Returns the error for a batch of another structure; `shape` is the shape of the whole array.
pub(super) fn wrong_batch(field: &Field, array: &Bound<'_, PyAny>, shape: &[usize]) -> PyErr {
    let dims: Vec<_> = shape[1..].iter().map(usize::to_string).collect();
    let dtype = array.getattr("dtype").and_then(|d| d.str()?.extract::<String>()).unwrap_or_default();
    let is = if dims.is_empty() { dtype } else { format!("{dtype}[{}]", dims.join(", ")) };
    let message =
        format!("returned the wrong structure: column {:?} should be {} a row, and is {is}", field.name, field.kind);
    raise(
        array.py(),
        &Error::new(ErrorKind::Function, message).with("column", &field.name).hint(hint(field, &shape[1..])),
    )
}

/// Says what to do about a value that is not of the column's kind; `is` is its shape.
fn hint(field: &Field, is: &[usize]) -> String {
    if let (Kind::Scalar { dtype }, false) = (&field.kind, is.is_empty()) {
        let kind = Kind::Tensor { dtype: *dtype, shape: is.iter().copied().map(Some).collect() };
        let there = Field { kind, nullable: false, ..field.clone() };
        return format!("{FIT}: give schema={{{}, ...}}", in_schema(&there));
    }
    let Kind::Tensor { dtype, shape } = &field.kind else {
        return format!("{FIT}: convert the value, or give schema={{{:?}: ...}}", field.name);
    };
    if field.kind.known_shape().as_deref() == Some(is) {
        return format!("{FIT}: convert the value, as with numpy.asarray(value, {:?})", dtype.name());
    }
    let same = |(dim, is): (&Option<usize>, &usize)| dim.filter(|size| size == is);
    let shape = match is.len() == shape.len() {
        true => shape.iter().zip(is).map(same).collect(),
        false => vec![None; shape.len()],
    };
    let open = Field { kind: Kind::Tensor { dtype: *dtype, shape }, ..field.clone() };
    format!("{FIT}; {DIFFER}{}}}", in_schema(&open))
}

/// Completes the hint about a column whose shape differs: the whole schema of the function, to be pasted.
pub(crate) fn with_schema(py: Python<'_>, error: PyErr, schema: &Schema, of: &Field) -> PyErr {
    if !crate::errors::is_ours(py, &error) || schema.fields().len() > COLUMNS_MAX {
        return error;
    }
    let error = from_exception(py, &error);
    let open = error.get("hint").and_then(|hint| hint.split_once(DIFFER)?.1.strip_suffix('}').map(str::to_owned));
    let Some(open) = open else { return raise(py, &error) };
    let column = |field: &Field| if field.name == of.name { open.clone() } else { in_schema(field) };
    let columns: Vec<_> = schema.fields().iter().map(column).collect();
    let rest = error.context().iter().filter(|(key, _)| key != "hint");
    let same = rest.fold(Error::new(error.kind(), error.message()), |e, (key, value)| e.with(key, value));
    raise(py, &same.hint(format!("{FIT}; {DIFFER}{}}}", columns.join(", "))))
}

/// Returns a column as `schema=` takes it.
fn in_schema(field: &Field) -> String {
    let (name, missing) = (&field.name, if field.nullable { "?" } else { "" });
    let shape = |shape: &[Option<usize>]| {
        let dim = |dim: &Option<usize>| dim.map_or("None".to_owned(), |size| size.to_string());
        shape.iter().map(dim).collect::<Vec<_>>().join(", ")
    };
    match &field.kind {
        Kind::Tensor { dtype, shape: dims } => format!("{name:?}: (\"{dtype}{missing}\", [{}])", shape(dims)),
        Kind::Texts => format!("{name:?}: (\"string{missing}\", [None])"),
        kind => format!("{name:?}: \"{kind}{missing}\""),
    }
}
