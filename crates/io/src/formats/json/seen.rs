//! Which fields lines have, as the first of them show.

use std::collections::{HashMap, HashSet};

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};
use serde_json::Value;

use super::{brief, parse};
use crate::limits;

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
