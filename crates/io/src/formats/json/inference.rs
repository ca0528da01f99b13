//! Infers the fields from the first lines.

use std::collections::{HashMap, HashSet};

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};

use super::members::{brief, parse, twice};
use super::value::Value;
use crate::limits;

/// The shape of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Int,
    Real,
    Bool,
    Text,
    /// A list of numbers, of any length: their type, if there is any number.
    List(Option<DType>),
    /// A list of texts.
    Texts,
    /// A list of nulls alone.
    Nulls,
    /// A list that no column holds as it is.
    Json,
}

fn shape(value: Value<'_>) -> Option<Shape> {
    let is_int = |value: Value<'_>| value.is_whole() && value.text().parse::<i64>().is_ok();
    if let Some(items) = value.items() {
        let (mut count, mut real, mut numbers, mut texts) = (0, false, 0, 0);
        for item in items {
            if !item.is_number() && !item.is_string() && !item.is_null() {
                return Some(Shape::Json);
            }
            (count, real) = (count + 1, real || !is_int(item));
            (numbers, texts) = (numbers + usize::from(item.is_number()), texts + usize::from(item.is_string()));
        }
        // A text may be missing in a list, and a number may not.
        match (numbers, texts) {
            (numbers, 0) if numbers == count => {}
            (0, 0) => return Some(Shape::Nulls),
            (0, 1..) => return Some(Shape::Texts),
            _ => return Some(Shape::Json),
        }
        let dtype = if real { DType::Float64 } else { DType::Int64 };
        return Some(Shape::List((count > 0).then_some(dtype)));
    }
    match value {
        value if value.is_null() => None,
        value if value.is_string() => Some(Shape::Text),
        value if is_int(value) => Some(Shape::Int),
        value if value.is_number() => Some(Shape::Real),
        _ => Some(Shape::Bool),
    }
}

/// Returns the shape that holds both, if there is one.
fn meet(a: Shape, b: Shape) -> Option<Shape> {
    use Shape::{Int, Json, List, Nulls, Real, Texts};
    Some(match (a, b) {
        _ if a == b => a,
        (Int | Real, Int | Real) => Real,
        (List(x), List(y)) => List(if x.is_none() || y.is_none() || x == y { x.or(y) } else { Some(DType::Float64) }),
        // An empty list is one of texts too, and so is one of nulls.
        (Texts, List(None) | Nulls) | (List(None) | Nulls, Texts) => Texts,
        (Nulls, List(None)) | (List(None), Nulls) => Nulls,
        (List(..) | Texts | Nulls | Json, List(..) | Texts | Nulls | Json) => Json,
        _ => return None,
    })
}

/// The fields seen among the first lines.
#[derive(Debug)]
pub(crate) struct FieldInference {
    /// The name of a row in errors.
    what: &'static str,
    columns: Vec<(String, Option<Shape>, usize)>,
    places: HashMap<String, usize>,
    lines: usize,
}

impl FieldInference {
    /// `what`: the name of a row in errors.
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, columns: Vec::new(), places: HashMap::new(), lines: 0 }
    }

    /// Reads one line.
    pub(crate) fn push(&mut self, line: &[u8]) -> Result<()> {
        let mut met = HashSet::new();
        parse(self.what, line, &mut |name, value| {
            if name.is_empty() {
                return Err(Error::data("a field has an empty name").hint("say which fields to read: schema={...}"));
            }
            // A long name over many fields would be written out for each of them.
            if name.len() > limits::NAME_BYTES_MAX {
                let max = limits::NAME_BYTES_MAX;
                return Err(Error::data(format!("a field's name is longer than {max} bytes")));
            }
            if !met.insert(name.to_owned()) {
                return Err(twice(name));
            }
            limits::columns("fields of a line", met.len())?;
            if value.is_object() {
                return Ok(true);
            }
            self.meet(name, value)?;
            Ok(false)
        })?;
        self.lines += 1;
        Ok(())
    }

    /// Records the shape of a field in one line.
    fn meet(&mut self, name: &str, value: Value<'_>) -> Result<()> {
        let i = match self.places.get(name) {
            Some(&i) => i,
            None => {
                self.places.insert(name.to_owned(), self.columns.len());
                self.columns.push((name.to_owned(), None, 0));
                self.columns.len() - 1
            }
        };
        limits::columns("fields of the first lines", self.columns.len())?;
        let (_, had, count) = &mut self.columns[i];
        let Some(now) = shape(value) else { return Ok(()) };
        *count += 1;
        *had = Some(
            had.map_or(Some(now), |had| meet(had, now))
                .ok_or_else(|| Error::data(format!("field {name:?} has two types")).with("value", brief(value)))
                .map_err(|e| e.hint(format!("say what to read of it: schema={{{name:?}: \"string\", ...}}")))?,
        );
        Ok(())
    }

    /// Returns whether some field had only nulls and empty lists so far.
    pub(crate) fn has_field_without_type(&self) -> bool {
        self.columns.iter().any(|(_, shape, _)| matches!(shape, None | Some(Shape::Nulls | Shape::List(None))))
    }

    /// Returns the fields in the order of their first occurrence. A field that is null throughout is text, unless it is an
    /// object in another line: then its own fields are missing where it is null.
    pub(crate) fn fields(self) -> Vec<Field> {
        let mut objects = HashSet::new();
        for (name, ..) in &self.columns {
            objects.extend(name.match_indices('.').map(|(dot, _)| name[..dot].to_owned()));
        }
        let is_null_object = |name: &str, shape: &Option<Shape>| shape.is_none() && objects.contains(name);
        let field = |(name, shape, count): (String, Option<Shape>, usize)| {
            let kind = match shape {
                Some(Shape::Int) => Kind::scalar(DType::Int64),
                Some(Shape::Real) => Kind::scalar(DType::Float64),
                Some(Shape::Bool) => Kind::scalar(DType::Bool),
                Some(Shape::List(dtype)) if count == self.lines => {
                    Kind::Tensor { dtype: dtype.unwrap_or(DType::Float64), shape: vec![None] }
                }
                Some(Shape::Texts) => Kind::Texts,
                Some(Shape::List(..) | Shape::Text | Shape::Nulls | Shape::Json) | None => Kind::Utf8,
            };
            Field { nullable: count < self.lines, ..Field::new(name, kind) }
        };
        self.columns.into_iter().filter(|(name, shape, _)| !is_null_object(name, shape)).map(field).collect()
    }
}
