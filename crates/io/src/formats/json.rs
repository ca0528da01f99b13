//! JSON objects, one a line, as columns.
//!
//! Nested objects flatten to dotted names. A list of numbers is a one-dimensional tensor; any other list is kept as its
//! JSON text, for no column holds it; so is one that is missing in some of the first lines, for a list never is.
//! Integers and reals meet in float64, where each keeps its value or is an error. A value that is null or not there is missing.
//! A column of texts takes any value: a text as it is, all else as its JSON text.

use std::collections::{HashMap, HashSet};
use std::fmt;

use arrow_array::ArrayRef;
use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::columns::Column;
use crate::limits;

/// The leaves of an object, in the order in which they are written, under their dotted names.
type Leaves = Vec<(String, Value)>;

/// Parses a line. An object under a name of `columns` is a leaf, too.
fn parse(line: &[u8], columns: &HashMap<String, usize>) -> Result<Leaves> {
    let mut leaves = Leaves::new();
    let mut from = serde_json::Deserializer::from_slice(line);
    let read =
        Walk { name: String::new(), leaves: &mut leaves, columns }.deserialize(&mut from).and_then(|()| from.end());
    if leaves.len() > limits::COLUMNS_MAX {
        limits::columns("fields of a line", leaves.len())?;
    }
    read.map_err(|e| Error::data(format!("a line is not json: {e}")))?;
    match leaves.as_slice() {
        [(name, _)] if name.is_empty() => Err(Error::data("a line is json, but not an object")),
        _ => Ok(leaves),
    }
}

/// Reads one value: an object's members go on under its name, anything else is a leaf.
struct Walk<'l> {
    name: String,
    leaves: &'l mut Leaves,
    columns: &'l HashMap<String, usize>,
}

impl Walk<'_> {
    fn leaf(self, value: Value) {
        self.leaves.push((self.name, value));
    }

    /// Goes on with the members of an object.
    fn members<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let name = if self.name.is_empty() { key } else { format!("{}.{key}", self.name) };
            if name.is_empty() {
                return Err(serde::de::Error::custom("a field has an empty name"));
            }
            // A long name over many fields would be written out for each of them.
            if name.len() > limits::NAME_BYTES_MAX {
                let max = limits::NAME_BYTES_MAX;
                return Err(serde::de::Error::custom(format!("a field's name is longer than {max} bytes")));
            }
            if self.leaves.len() > limits::COLUMNS_MAX {
                return Err(serde::de::Error::custom("too many fields"));
            }
            map.next_value_seed(Walk { name, leaves: self.leaves, columns: self.columns })?;
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.leaf(Value::Null);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.leaf(value.into());
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.leaf(value.into());
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.leaf(value.into());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.leaf(value.into());
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.leaf(value.into());
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        self.leaf(Value::Array(items));
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        if self.name.is_empty() || !self.columns.contains_key(&self.name) {
            return self.members(map);
        }
        let object = serde_json::Map::deserialize(MapAccessDeserializer::new(map))?;
        self.leaves.push((self.name.clone(), Value::Object(object.clone())));
        self.members(MapDeserializer::<_, serde_json::Error>::new(object.into_iter())).map_err(serde::de::Error::custom)
    }
}

/// What a value is by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Int,
    Real,
    Bool,
    Text,
    /// A list of numbers: their type, if there is any number, and how many.
    List(Option<DType>, Option<usize>),
    /// A list that no column holds as it is.
    Json,
}

fn shape(value: &Value) -> Option<Shape> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(_) => Shape::Bool,
        Value::Number(n) if n.is_i64() => Shape::Int,
        Value::Number(_) => Shape::Real,
        Value::String(_) => Shape::Text,
        Value::Array(items) if items.iter().all(Value::is_number) => {
            let real = items.iter().any(|n| !n.is_i64());
            let dtype = if real { DType::Float64 } else { DType::Int64 };
            Shape::List((!items.is_empty()).then_some(dtype), Some(items.len()))
        }
        _ => Shape::Json,
    })
}

/// Returns what holds both, if anything does.
fn meet(a: Shape, b: Shape) -> Option<Shape> {
    use Shape::{Int, Json, List, Real};
    Some(match (a, b) {
        _ if a == b => a,
        (Int | Real, Int | Real) => Real,
        (List(x, n), List(y, m)) => {
            let dtype = if x.is_none() || y.is_none() || x == y { x.or(y) } else { Some(DType::Float64) };
            List(dtype, n.filter(|_| n == m))
        }
        (List(..) | Json, List(..) | Json) => Json,
        _ => return None,
    })
}

/// What was seen among the first lines.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    columns: Vec<(String, Option<Shape>, usize)>,
    places: HashMap<String, usize>,
    lines: usize,
}

impl Seen {
    /// Looks at one line.
    pub(crate) fn push(&mut self, line: &[u8]) -> Result<()> {
        let leaves = parse(line, &HashMap::new())?;
        let mut met = HashSet::with_capacity(leaves.len());
        for (name, value) in &leaves {
            if !met.insert(name) {
                return Err(Error::data(format!("field {name:?} is there twice")));
            }
            let i = *self.places.entry(name.clone()).or_insert_with(|| {
                self.columns.push((name.clone(), None, 0));
                self.columns.len() - 1
            });
            limits::columns("fields of the first lines", self.columns.len())?;
            let (_, had, count) = &mut self.columns[i];
            let Some(now) = shape(value) else { continue };
            *count += 1;
            *had = Some(
                had.map_or(Some(now), |had| meet(had, now))
                    .ok_or_else(|| Error::data(format!("field {name:?} has two types")).with("value", brief(value)))
                    .map_err(|e| e.hint(format!("say what to read of it: schema={{{name:?}: \"string\", ...}}")))?,
            );
        }
        self.lines += 1;
        Ok(())
    }

    /// Returns the fields in the order in which they were met. A field that is null throughout is text.
    pub(crate) fn fields(self) -> Vec<Field> {
        let field = |(name, shape, count): (String, Option<Shape>, usize)| {
            let kind = match shape {
                Some(Shape::Int) => Kind::scalar(DType::Int64),
                Some(Shape::Real) => Kind::scalar(DType::Float64),
                Some(Shape::Bool) => Kind::scalar(DType::Bool),
                Some(Shape::List(dtype, len)) if count == self.lines => {
                    Kind::Tensor { dtype: dtype.unwrap_or(DType::Float64), shape: vec![len.filter(|&n| n > 0)] }
                }
                Some(Shape::List(..) | Shape::Text | Shape::Json) | None => Kind::Utf8,
            };
            Field { nullable: count < self.lines, ..Field::new(name, kind) }
        };
        self.columns.into_iter().map(field).collect()
    }
}

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

/// The beginning of a value's text.
fn brief(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn infer(lines: &[&str]) -> Vec<String> {
        let mut seen = Seen::default();
        lines.iter().for_each(|l| seen.push(l.as_bytes()).expect("valid"));
        seen.fields().iter().map(|f| format!("{}: {}{}", f.name, f.kind, if f.nullable { "?" } else { "" })).collect()
    }

    #[test]
    fn fields_meet_over_lines() {
        let lines = [
            r#"{"a":1,"b":{"c":"x","d":[1,2]},"e":[],"f":true,"g":null,"h":[[1]]}"#,
            r#"{"a":2.5,"b":{"c":null,"d":[3,4]},"e":[1,2.5],"f":false,"h":[]}"#,
        ];
        let want =
            ["a: float64", "b.c: string?", "b.d: int64[2]", "e: float64[?]", "f: bool", "g: string?", "h: string"];
        assert_eq!(infer(&lines), want);
    }

    #[test]
    fn a_whole_number_that_a_real_does_not_hold_is_refused() {
        let mut parser = Parser::new(&[Field::new("n", Kind::scalar(DType::Float64))], 2);
        parser.push(br#"{"n":9007199254740992}"#).expect("2^53 is one");
        let e = parser.push(br#"{"n":9007199254740993}"#).expect_err("it is not");
        assert_eq!(e.message(), "field \"n\" is float64, which does not hold this whole number exactly");
        assert_eq!(e.get("value"), Some("9007199254740993"));
    }

    #[test]
    fn two_types_of_one_field_are_an_error() {
        let mut seen = Seen::default();
        seen.push(br#"{"a":1}"#).expect("valid");
        assert_eq!(seen.push(br#"{"a":"x"}"#).expect_err("two types").message(), "field \"a\" has two types");
    }
}
