//! Parses `tf.train.Example` and `tf.train.SequenceExample` into rows of columns.
//!
//! A feature list has one feature for each step of a sequence. It is a list where each step has one value, and a list
//! of lists where all steps have the same number of values, as TensorFlow's `parse_sequence_example` returns a
//! `FixedLenSequenceFeature`. Byte strings that are UTF-8 are a list of texts; no column holds other lists of byte strings.

mod inference;
mod proto;
mod writer;

use std::borrow::Cow;
use std::collections::HashMap;

use arrow_array::ArrayRef;
use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, TextLists};

use crate::columns::Column;
pub(crate) use inference::FeatureInference;
use proto::{Encoded, Steps, Strings, Value, What, features, steps, value};
pub(crate) use writer::Writer;

fn not_an_example() -> Error {
    Error::data("a record is not a tf.train.Example or SequenceExample")
        .hint("read it raw: features=None gives the record's bytes")
}

const NO_TEXT: &str = "bytes that are not utf-8";

/// The value of a column in one record: its bytes, and its shape where the bytes do not determine it.
#[derive(Debug, Clone)]
struct Cell<'a> {
    bytes: Cow<'a, [u8]>,
    shape: Option<Vec<usize>>,
}

/// Parses records into columns.
#[derive(Debug)]
pub(crate) struct Parser {
    columns: Vec<Column>,
    places: HashMap<Vec<u8>, usize>,
}

impl Parser {
    /// Starts columns for `fields`.
    ///
    /// # Errors
    /// Invalid when a field is of a kind that no feature has.
    pub(crate) fn new(fields: &[Field], rows: usize) -> Result<Self> {
        for field in fields {
            check(field)?;
        }
        let places = fields.iter().enumerate().map(|(i, f)| (f.name.clone().into_bytes(), i)).collect();
        let columns = fields.iter().map(|f| Column::new(f, rows)).collect();
        Ok(Self { columns, places })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// Data when it is not an Example, lacks a feature, or a feature is of another type or shape. The parser must then
    /// be dropped.
    pub(crate) fn push(&mut self, record: &[u8]) -> Result<()> {
        let Self { columns, places } = self;
        let mut row: Vec<Option<Cell<'_>>> = vec![None; columns.len()];
        let mut wrong = None;
        let read = features(record, |name, encoded| {
            let Some(&i) = places.get(name) else { return Some(()) };
            let field = &columns[i].field;
            let cell = match encoded {
                Encoded::Feature(bytes) => value(bytes)?.map_or(Ok(None), |found| fit(field, found)),
                Encoded::List(bytes) => fit_steps(field, steps(bytes)?).map(Some),
            };
            match cell {
                Ok(cell) => row[i] = cell,
                Err(e) => wrong = Some(e),
            }
            Some(())
        });
        if let Some(e) = wrong {
            return Err(e);
        }
        read.ok_or_else(not_an_example)?;
        for (i, column) in columns.iter_mut().enumerate() {
            match &row[i] {
                Some(Cell { bytes, shape: None }) => column.push(bytes)?,
                Some(Cell { bytes, shape: Some(shape) }) => column.push_shaped(shape, bytes)?,
                None if column.field.nullable && !column.field.kind.can_be_missing() => column.push(&[])?,
                None if column.field.nullable => column.push_missing()?,
                None => {
                    let message = format!("a record has no feature {:?}", column.field.name);
                    return Err(Error::data(message).hint(
                        "leave the feature out of features=, or say that it may be missing: \"int64?\", or \
                         (\"int64?\", [None]) for a list of numbers, which is empty then",
                    ));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Vec<ArrayRef>> {
        self.columns.into_iter().map(Column::finish).collect()
    }
}

/// Says whether features can fill a field. A list of numbers may be missing, as TensorFlow's `VarLenFeature`: it is empty
/// then, because an array cannot express "missing".
pub(crate) fn check(field: &Field) -> Result<()> {
    if field.kind.known_shape().is_some() {
        field.check()?;
    }
    let numbers = |d: &DType| matches!(d, DType::Int64 | DType::Float32);
    match &field.kind {
        Kind::Bytes | Kind::Utf8 | Kind::Texts => Ok(()),
        Kind::Scalar { dtype } if numbers(dtype) => Ok(()),
        Kind::Tensor { dtype, shape } if numbers(dtype) && can_be_filled(shape) => Ok(()),
        kind => Err(Error::invalid(format!("feature {:?} cannot be {kind}", field.name)).hint(
            "a feature is bytes, string, int64 or float32: a scalar, a tensor of known shape, a list, or a list of tensors; \
             cast it afterwards; a list of texts is (\"string\", [None])",
        )),
    }
}

/// Says whether only the first dimension is unknown, or the second of just two.
fn can_be_filled(shape: &[Option<usize>]) -> bool {
    matches!(shape, [_] | [None, None]) || shape.iter().skip(1).all(Option::is_some)
}

/// Returns the value's bytes when they match the field; none for an empty list of byte strings, except for texts.
fn fit<'a>(field: &Field, value: Value<'a>) -> Result<Option<Cell<'a>>> {
    let flat = |bytes| Ok(Some(Cell { bytes, shape: None }));
    let (dtype, bytes) = match value {
        Value::Bytes(strings) => return fit_strings(field, strings),
        Value::Floats(bytes) => (DType::Float32, bytes),
        Value::Ints(bytes) => (DType::Int64, bytes.into()),
    };
    let count = bytes.len() / dtype.size();
    let shape_is_right = match &field.kind {
        Kind::Tensor { shape, .. } => match shape.as_slice() {
            [None] => true,
            [None, rest @ ..] => {
                rest.iter().try_fold(1, |n, dim| Some(n * (*dim)?)).is_some_and(|n| n > 0 && count % n == 0)
            }
            _ => shape.iter().try_fold(1, |n, dim| Some(n * (*dim)?)) == Some(count),
        },
        _ => count == 1,
    };
    if field.kind.dtype() != Some(dtype) || !shape_is_right {
        let e = wrong(field, &format!("a list of {count} {dtype}"));
        return Err(match field.kind {
            Kind::Scalar { dtype: own } if own == dtype => {
                e.hint(format!("features={{{:?}: ({:?}, [None])}} reads lists", field.name, own.name()))
            }
            _ => e,
        });
    }
    flat(bytes)
}

/// Returns the byte strings of a feature when they match the field.
fn fit_strings<'a>(field: &Field, strings: Strings<'a>) -> Result<Option<Cell<'a>>> {
    let bytes = match (&field.kind, strings.count, strings.iter().next()) {
        (Kind::Texts, ..) => texts(field, strings.iter())?.into(),
        (_, 0, _) => return Ok(None),
        (Kind::Bytes, 1, Some(only)) => only.into(),
        (Kind::Utf8, 1, Some(only)) if std::str::from_utf8(only).is_ok() => only.into(),
        (Kind::Utf8, 1, _) => return Err(wrong(field, NO_TEXT)),
        (kind, count, _) => {
            let e = wrong(field, &format!("a list of {count} byte strings"));
            let is_one = matches!(kind, Kind::Bytes | Kind::Utf8);
            return Err(if is_one {
                e.hint(format!("features={{{:?}: (\"string\", [None])}} reads texts", field.name))
            } else {
                e
            });
        }
    };
    Ok(Some(Cell { bytes, shape: None }))
}

/// Returns byte strings in the form of a row of texts.
fn texts<'a>(field: &Field, strings: impl Iterator<Item = &'a [u8]>) -> Result<Vec<u8>> {
    let mut row = Vec::new();
    for string in strings {
        let text = std::str::from_utf8(string).map_err(|_| wrong(field, NO_TEXT))?;
        TextLists::push(Some(text), &mut row)?;
    }
    Ok(row)
}

fn wrong(field: &Field, got: &str) -> Error {
    Error::data(format!("feature {:?} should be {}, and is {got}", field.name, field.kind))
}

/// Returns the numbers of a feature list when they match the field: a step is one item of the list.
fn fit_steps<'a>(field: &Field, steps: Steps<'a>) -> Result<Cell<'a>> {
    let (count, each) = (steps.count, steps.most);
    if field.kind == Kind::Texts && (count == 0 || (steps.what == What::Bytes && (steps.least, each) == (1, 1))) {
        return Ok(Cell { bytes: texts(field, steps.strings.iter().copied())?.into(), shape: None });
    }
    let got = match steps.what {
        What::Bytes => "a feature list of byte strings".to_owned(),
        What::Mixed => "a feature list of two types".to_owned(),
        What::Nothing => format!("a feature list of {count} steps without values"),
        What::Numbers(_) if steps.least != each => {
            format!("a feature list with steps of {} to {each} values", steps.least)
        }
        What::Numbers(dtype) => format!("a feature list of {count} steps of {each} {dtype}"),
    };
    let Kind::Tensor { dtype, shape } = &field.kind else {
        return Err(wrong(field, &got));
    };
    let is_right = match steps.what {
        What::Nothing => true,
        what => what == What::Numbers(*dtype) && steps.least == each,
    };
    let (first, inner) = shape.split_first().ok_or_else(|| wrong(field, &got))?;
    let inner: Option<Vec<usize>> = match inner {
        _ if count == 0 => Some(inner.iter().map(|dim| dim.unwrap_or(0)).collect()),
        [None] => Some(vec![each]),
        known => {
            known.iter().copied().collect::<Option<Vec<_>>>().filter(|dims| dims.iter().product::<usize>() == each)
        }
    };
    match inner.filter(|_| is_right && first.is_none_or(|n| n == count)) {
        Some(inner) => Ok(Cell { bytes: steps.bytes.into(), shape: Some([vec![count], inner].concat()) }),
        None => Err(wrong(field, &got)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = FeatureInference::default().push(&bytes);
            let mut parser = Parser::new(&[Field::new("", Kind::Bytes)], 1).expect("valid");
            let _ = parser.push(&bytes);
        }
    }
}
