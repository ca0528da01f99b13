//! Parses lines into rows of columns whose fields are known.

use std::collections::HashMap;

use arrow_array::ArrayRef;
use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, TextLists};

use super::members::{brief, parse, twice};
use super::value::Value;
use crate::columns::Column;

/// A name that matters: the name of a column, of an object that holds one, or both.
#[derive(Debug, Default)]
struct Place {
    column: Option<usize>,
    is_outer: bool,
    /// The last line that had it, counted from 1.
    met: u64,
}

/// Parses lines into columns.
#[derive(Debug)]
pub(crate) struct Parser {
    /// The name of a row in errors.
    what: &'static str,
    columns: Vec<Column>,
    places: HashMap<String, Place>,
    lines: u64,
    /// Which columns have a value in this line.
    filled: Vec<bool>,
    scratch: Vec<u8>,
}

impl Parser {
    /// `what`: the name of a row in errors.
    pub(crate) fn new(what: &'static str, fields: &[Field], rows: usize) -> Self {
        let mut places: HashMap<String, Place> = HashMap::new();
        for (i, field) in fields.iter().enumerate() {
            places.entry(field.name.clone()).or_default().column = Some(i);
            for (dot, _) in field.name.match_indices('.') {
                places.entry(field.name[..dot].to_owned()).or_default().is_outer = true;
            }
        }
        Self {
            what,
            columns: fields.iter().map(|f| Column::new(f, rows)).collect(),
            places,
            lines: 0,
            filled: vec![false; fields.len()],
            scratch: Vec::new(),
        }
    }

    /// Appends a line.
    ///
    /// # Errors
    /// Data when it is not a JSON object, or a field is missing or of another type. The parser must then be dropped.
    pub(crate) fn push(&mut self, line: &[u8]) -> Result<()> {
        let Self { what, columns, places, lines, filled, scratch } = self;
        filled.fill(false);
        *lines += 1;
        parse(what, line, &mut |name, value| {
            let Some(place) = places.get_mut(name) else { return Ok(false) };
            if std::mem::replace(&mut place.met, *lines) == *lines {
                return Err(twice(name));
            }
            if let Some(i) = place.column.filter(|_| !value.is_null()) {
                scratch.clear();
                encode(&columns[i].field, value, scratch)?;
                columns[i].push(scratch)?;
                filled[i] = true;
            }
            Ok(place.is_outer && value.is_object())
        })?;
        for (column, _) in columns.iter_mut().zip(filled).filter(|(_, filled)| !**filled) {
            if column.field.nullable && !column.field.kind.can_be_missing() {
                column.push(&[])?;
                continue;
            }
            column.push_missing().map_err(|_| {
                let name = &column.field.name;
                let is_null = places.get(name.as_str()).is_some_and(|place| place.met == *lines);
                let message = match is_null {
                    true => format!("field {name:?} of {what} is null"),
                    false => format!("{what} has no field {name:?}"),
                };
                Error::data(message).hint(format!(
                    "without schema=, fields are those of the first 100 objects; say that it may be missing: \
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

/// Encodes a value as its column stores it.
fn encode(field: &Field, value: Value<'_>, to: &mut Vec<u8>) -> Result<()> {
    let written = match &field.kind {
        Kind::Utf8 if value.is_string() => {
            let letters = value.string().map_err(|e| e.with("field", &field.name))?;
            to.extend_from_slice(letters.as_bytes());
            Some(())
        }
        Kind::Utf8 => {
            to.extend_from_slice(value.text().as_bytes());
            Some(())
        }
        Kind::Scalar { dtype } => number(*dtype, value, to),
        Kind::Tensor { dtype, shape } => tensor(*dtype, shape, value, to),
        Kind::Texts => texts(value, to)?,
        Kind::Bytes => None,
    };
    written.ok_or_else(|| refused(field, value))
}

/// Returns the error for a value that does not fit its column.
fn refused(field: &Field, value: Value<'_>) -> Error {
    let (name, kind) = (&field.name, &field.kind);
    let real = kind.dtype().filter(|dtype| dtype.is_float());
    let lost = |value: Value<'_>| {
        value.is_number() && real.is_some_and(|dtype| number(dtype, value, &mut Vec::new()).is_none())
    };
    let culprit = value.items().and_then(|mut items| items.find(|item| lost(*item))).unwrap_or(value);
    let error = if lost(culprit) {
        let what = if culprit.is_whole() { "this whole number exactly" } else { "a number so large" };
        Error::data(format!("field {name:?} is {kind}, which does not hold {what}"))
            .hint(format!("read it as text: schema={{{name:?}: \"string\", ...}}"))
    } else {
        let better = if value.is_number() && !value.is_whole() { "float64" } else { "string" };
        Error::data(format!("field {name:?} should be {kind}")).hint(format!(
            "without schema=, fields and types are those of the first 100 objects; say what it is: \
             schema={{{name:?}: \"{better}\", ...}}"
        ))
    };
    error.with("value", brief(culprit))
}

/// Writes the texts of a list; `None` for a value that is no list of texts.
fn texts(value: Value<'_>, to: &mut Vec<u8>) -> Result<Option<()>> {
    let Some(items) = value.items() else { return Ok(None) };
    for item in items {
        match item.is_null() {
            true => TextLists::push(None, to)?,
            false if item.is_string() => TextLists::push(Some(&item.string()?), to)?,
            false => return Ok(None),
        }
    }
    Ok(Some(()))
}

/// Writes lists of lists, as deep as the shape, down to their numbers.
fn tensor(dtype: DType, shape: &[Option<usize>], value: Value<'_>, to: &mut Vec<u8>) -> Option<()> {
    let Some((outer, inner)) = shape.split_first() else { return number(dtype, value, to) };
    let mut count = 0;
    for item in value.items()? {
        tensor(dtype, inner, item, to)?;
        count += 1;
    }
    outer.is_none_or(|n| n == count).then_some(())
}

fn number(dtype: DType, value: Value<'_>, to: &mut Vec<u8>) -> Option<()> {
    macro_rules! whole {
        ($type:ty) => {
            to.extend_from_slice(&<$type>::try_from(value.whole()?).ok()?.to_le_bytes())
        };
    }
    match dtype {
        DType::Bool => to.push(u8::from(value.bool()?)),
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
            let real = value.real()?;
            let single = real as f32;
            let fits = single.is_finite() && !(value.is_whole() && f64::from(single) != real);
            to.extend_from_slice(&fits.then_some(single)?.to_le_bytes());
        }
        DType::Float64 => to.extend_from_slice(&value.real()?.to_le_bytes()),
    }
    Some(())
}

/// Says whether lines can fill a field. A list of any length may be missing: it is empty then.
pub(crate) fn check(field: &Field) -> Result<()> {
    if field.kind.known_shape().is_some() {
        field.check()?;
    }
    let ok = match &field.kind {
        Kind::Utf8 | Kind::Texts => true,
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
