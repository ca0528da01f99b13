//! Lines as the rows of columns, whose fields are known.

use std::collections::HashMap;

use arrow_array::ArrayRef;
use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};
use serde_json::Value;

use super::{brief, parse};
use crate::columns::Column;

/// Parses lines into columns.
#[derive(Debug)]
pub(crate) struct Parser {
    columns: Vec<Column>,
    places: HashMap<String, usize>,
    seen: Vec<bool>,
    scratch: Vec<u8>,
}

impl Parser {
    pub(crate) fn new(fields: &[Field], rows: usize) -> Self {
        Self {
            columns: fields.iter().map(|f| Column::new(f, rows)).collect(),
            places: fields.iter().enumerate().map(|(i, f)| (f.name.clone(), i)).collect(),
            seen: vec![false; fields.len()],
            scratch: Vec::new(),
        }
    }

    /// Appends a line.
    ///
    /// # Errors
    /// Data when it is not a JSON object, or a field is missing or of another type. The parser must then be dropped.
    pub(crate) fn push(&mut self, line: &[u8]) -> Result<()> {
        let Self { columns, places, seen, scratch } = self;
        seen.fill(false);
        for (name, value) in &parse(line, places)? {
            let Some(&i) = places.get(name) else { continue };
            if value.is_null() {
                continue;
            }
            if std::mem::replace(&mut seen[i], true) {
                return Err(Error::data(format!("field {name:?} is there twice")));
            }
            scratch.clear();
            if encode(&columns[i].field.kind, value, scratch).is_none() {
                return Err(refused(&columns[i].field, value));
            }
            columns[i].push(scratch)?;
        }
        for (column, _) in columns.iter_mut().zip(seen).filter(|(_, seen)| !**seen) {
            if column.field.nullable && !column.field.kind.can_be_missing() {
                column.push(&[])?;
                continue;
            }
            column.push_missing().map_err(|_| {
                let name = &column.field.name;
                Error::data(format!("a line has no field {name:?}")).hint(format!(
                    "without schema=, fields are those of the first 100 lines; say that it may be missing: \
                     schema={{{name:?}: \"{}?\", ...}}",
                    column.field.kind.dtype().map_or("string", DType::name),
                ))
            })?;
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Vec<ArrayRef>> {
        self.columns.into_iter().map(Column::finish).collect()
    }
}

/// Says why a value does not go into its column.
fn refused(field: &Field, value: &Value) -> Error {
    let (name, kind) = (&field.name, &field.kind);
    let real = kind.dtype().filter(|dtype| dtype.is_float());
    let inexact = |value: &Value| {
        (value.is_i64() || value.is_u64()) && real.is_some_and(|dtype| number(dtype, value, &mut Vec::new()).is_none())
    };
    let error = match value {
        value if inexact(value) || value.as_array().is_some_and(|items| items.iter().any(inexact)) => {
            Error::data(format!("field {name:?} is {kind}, which does not hold this whole number exactly"))
                .hint(format!("read it as text: schema={{{name:?}: \"string\", ...}}"))
        }
        _ => Error::data(format!("field {name:?} should be {kind}")).hint(format!(
            "without schema=, fields and types are those of the first 100 lines; say what it is: \
             schema={{{name:?}: \"{}\", ...}}",
            if value.is_f64() { "float64" } else { "string" },
        )),
    };
    error.with("value", brief(value))
}

/// Returns a number as float64, unless it is a whole one that becomes another: names and hashes are such numbers.
fn real(value: &Value) -> Option<f64> {
    let real = value.as_f64()?;
    let whole = value.as_i64().map(i128::from).or(value.as_u64().map(i128::from));
    whole.is_none_or(|whole| real as i128 == whole).then_some(real)
}

/// Writes a value as its column stores it, or says that it is of another type.
fn encode(kind: &Kind, value: &Value, to: &mut Vec<u8>) -> Option<()> {
    match (kind, value) {
        (Kind::Utf8, Value::String(text)) => to.extend_from_slice(text.as_bytes()),
        (Kind::Utf8, value) => to.extend_from_slice(value.to_string().as_bytes()),
        (Kind::Scalar { dtype }, value) => number(*dtype, value, to)?,
        (Kind::Tensor { dtype, shape }, value) => tensor(*dtype, shape, value, to)?,
        (Kind::Bytes, _) => return None,
    }
    Some(())
}

/// Writes lists of lists, as deep as the shape, down to their numbers.
fn tensor(dtype: DType, shape: &[Option<usize>], value: &Value, to: &mut Vec<u8>) -> Option<()> {
    let Some((outer, inner)) = shape.split_first() else { return number(dtype, value, to) };
    let items = value.as_array().filter(|items| outer.is_none_or(|n| n == items.len()))?;
    items.iter().try_for_each(|item| tensor(dtype, inner, item, to))
}

fn number(dtype: DType, value: &Value, to: &mut Vec<u8>) -> Option<()> {
    let whole = || value.as_i64().map(i128::from).or(value.as_u64().map(i128::from));
    macro_rules! whole {
        ($type:ty) => {
            to.extend_from_slice(&<$type>::try_from(whole()?).ok()?.to_le_bytes())
        };
    }
    match dtype {
        DType::Bool => to.push(u8::from(value.as_bool()?)),
        DType::Int8 => whole!(i8),
        DType::Int16 => whole!(i16),
        DType::Int32 => whole!(i32),
        DType::Int64 => whole!(i64),
        DType::Uint8 => whole!(u8),
        DType::Uint16 => whole!(u16),
        DType::Uint32 => whole!(u32),
        DType::Uint64 => whole!(u64),
        DType::Float16 => return None,
        DType::Float32 => {
            let (real, is_whole) = (real(value)?, whole().is_some());
            let single = real as f32;
            let fits = single.is_finite() && !(is_whole && f64::from(single) != real);
            to.extend_from_slice(&fits.then_some(single)?.to_le_bytes());
        }
        DType::Float64 => to.extend_from_slice(&real(value)?.to_le_bytes()),
    }
    Some(())
}

/// Says whether lines can fill a field. A list of any length may be missing: it is empty then.
pub(crate) fn check(field: &Field) -> Result<()> {
    if field.kind.known_shape().is_some() {
        field.check()?;
    }
    let ok = match &field.kind {
        Kind::Utf8 => true,
        Kind::Tensor { shape, .. } if shape.len() != 1 && field.kind.known_shape().is_none() => false,
        Kind::Scalar { dtype } | Kind::Tensor { dtype, .. } => *dtype != DType::Float16,
        Kind::Bytes => false,
    };
    if ok {
        return Ok(());
    }
    Err(Error::invalid(format!("json field {:?} cannot be {}", field.name, field.kind)).hint(
        "a field is a string, a truth value, a number, a tensor of known shape, or a list of numbers; read it as one of these \
         and cast or map it afterwards",
    ))
}
