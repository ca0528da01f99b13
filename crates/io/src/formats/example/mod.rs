//! `tf.train.Example`, read straight from its protocol buffer bytes.
//!
//! ```text
//! Example { features: 1 }   Features { feature: 1 repeated }   entry { key: 1, value: 2 }
//! Feature { bytes_list: 1 | float_list: 2 | int64_list: 3 }    list { value: 1 repeated, packed or not }
//! ```

use std::borrow::Cow;
use std::collections::HashMap;

use arrow_array::ArrayRef;
use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};

use crate::columns::Column;
use crate::limits;

/// What one feature of one record holds; numbers are kept as little-endian bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    Bytes { first: &'a [u8], count: usize },
    Floats(Cow<'a, [u8]>),
    Ints(Vec<u8>),
}

/// One field of a message.
enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed(&'a [u8]),
}

/// Takes one field off the front of a message.
fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Wire<'a>)> {
    let tag = varint(bytes)?;
    let value = match tag & 7 {
        0 => Wire::Varint(varint(bytes)?),
        1 => Wire::Fixed(take(bytes, 8)?),
        2 => {
            let len = usize::try_from(varint(bytes)?).ok()?;
            Wire::Bytes(take(bytes, len)?)
        }
        5 => Wire::Fixed(take(bytes, 4)?),
        _ => return None,
    };
    (tag >> 3 != 0).then_some((tag >> 3, value))
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(n);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(n)?;
    *bytes = rest;
    Some(taken)
}

/// Calls `visit` with each feature's name and undecoded value.
fn features<'a>(mut example: &'a [u8], mut visit: impl FnMut(&'a [u8], &'a [u8]) -> Option<()>) -> Option<()> {
    while !example.is_empty() {
        let (1, Wire::Bytes(mut map)) = field(&mut example)? else { continue };
        while !map.is_empty() {
            let (1, Wire::Bytes(mut entry)) = field(&mut map)? else { continue };
            let (mut name, mut value): (&[u8], &[u8]) = (&[], &[]);
            while !entry.is_empty() {
                match field(&mut entry)? {
                    (1, Wire::Bytes(b)) => name = b,
                    (2, Wire::Bytes(b)) => value = b,
                    _ => {}
                }
            }
            visit(name, value)?;
        }
    }
    Some(())
}

/// Decodes one feature; `Some(None)` is a feature without any value.
fn value(mut feature: &[u8]) -> Option<Option<Value<'_>>> {
    let mut value = None;
    while !feature.is_empty() {
        let (kind, Wire::Bytes(list)) = field(&mut feature)? else { continue };
        value = match kind {
            1 => bytes_list(list)?,
            2 => Some(Value::Floats(floats(list)?)),
            3 => Some(Value::Ints(ints(list)?)),
            _ => value,
        };
    }
    Some(value)
}

fn bytes_list(mut list: &[u8]) -> Option<Option<Value<'_>>> {
    let mut found: Option<(&[u8], usize)> = None;
    while !list.is_empty() {
        if let (1, Wire::Bytes(b)) = field(&mut list)? {
            found = Some(found.map_or((b, 1), |(first, n)| (first, n + 1)));
        }
    }
    Some(found.map(|(first, count)| Value::Bytes { first, count }))
}

fn floats(mut list: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut values = Cow::Borrowed(&[][..]);
    while !list.is_empty() {
        match field(&mut list)? {
            (1, Wire::Bytes(packed)) if packed.len() % 4 == 0 && values.is_empty() => values = packed.into(),
            (1, Wire::Bytes(packed)) if packed.len() % 4 == 0 => values.to_mut().extend_from_slice(packed),
            (1, Wire::Fixed(one)) if one.len() == 4 => values.to_mut().extend_from_slice(one),
            (1, _) => return None,
            _ => {}
        }
    }
    Some(values)
}

fn ints(mut list: &[u8]) -> Option<Vec<u8>> {
    let mut values = Vec::new();
    while !list.is_empty() {
        match field(&mut list)? {
            (1, Wire::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    values.extend_from_slice(&varint(&mut packed)?.to_le_bytes());
                }
            }
            (1, Wire::Varint(one)) => values.extend_from_slice(&one.to_le_bytes()),
            (1, _) => return None,
            _ => {}
        }
    }
    Some(values)
}

fn not_an_example() -> Error {
    Error::data("a record is not a tf.train.Example").hint("read it raw: features=None gives the record's bytes")
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
    /// Invalid when a field is of a kind that no feature gives.
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
        let mut row: Vec<Option<Cow<'_, [u8]>>> = vec![None; columns.len()];
        let mut wrong = None;
        let read = features(record, |name, bytes| {
            let Some(&i) = places.get(name) else { return Some(()) };
            match value(bytes)? {
                None => row[i] = None,
                Some(found) => match fit(&columns[i].field, found) {
                    Ok(bytes) => row[i] = Some(bytes),
                    Err(e) => wrong = Some(e),
                },
            }
            Some(())
        });
        if let Some(e) = wrong {
            return Err(e);
        }
        read.ok_or_else(not_an_example)?;
        for (i, column) in columns.iter_mut().enumerate() {
            match &row[i] {
                Some(bytes) => column.push(bytes)?,
                None if column.field.nullable && !column.field.kind.can_be_missing() => column.push(&[])?,
                None if column.field.nullable => column.push_missing()?,
                None => {
                    let message = format!("a record has no feature {:?}", column.field.name);
                    return Err(Error::data(message).hint(
                        "leave the feature out of features=, or say that it may be missing: \"int64?\", or                          (\"int64?\", [None]) for a list, which is empty then",
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

/// Says whether features can fill a field. A list of any length may be missing, as TensorFlow's `VarLenFeature`: it is empty
/// then, for a record has no other way to say so.
pub(crate) fn check(field: &Field) -> Result<()> {
    if field.kind.known_shape().is_some() {
        field.check()?;
    }
    let numbers = |d: &DType| matches!(d, DType::Int64 | DType::Float32);
    match &field.kind {
        Kind::Bytes | Kind::Utf8 => Ok(()),
        Kind::Scalar { dtype } if numbers(dtype) => Ok(()),
        Kind::Tensor { dtype, shape } if numbers(dtype) && (shape.len() == 1 || field.kind.known_shape().is_some()) => Ok(()),
        kind => Err(Error::invalid(format!("feature {:?} cannot be {kind}", field.name))
            .hint("a feature is bytes, string, int64 or float32: a scalar, a tensor of known shape, or a list; cast it afterwards")),
    }
}

/// Returns the value's bytes when they are what the field says.
fn fit<'a>(field: &Field, value: Value<'a>) -> Result<Cow<'a, [u8]>> {
    let wrong = |got: String| Error::data(format!("feature {:?} should be {}, and is {got}", field.name, field.kind));
    let (dtype, bytes) = match (value, &field.kind) {
        (Value::Bytes { first, count: 1 }, Kind::Bytes) => return Ok(first.into()),
        (Value::Bytes { first, count: 1 }, Kind::Utf8) => {
            return match std::str::from_utf8(first) {
                Ok(_) => Ok(first.into()),
                Err(_) => Err(wrong("bytes that are not utf-8".to_owned())),
            };
        }
        (Value::Bytes { count, .. }, _) => return Err(wrong(format!("a list of {count} byte strings"))),
        (Value::Floats(bytes), _) => (DType::Float32, bytes),
        (Value::Ints(bytes), _) => (DType::Int64, bytes.into()),
    };
    let count = bytes.len() / dtype.size();
    let shape_is_right = field.kind.known_shape().is_none_or(|s| s.iter().product::<usize>() == count);
    if field.kind.dtype() != Some(dtype) || !shape_is_right {
        return Err(wrong(format!("a list of {count} {dtype}")));
    }
    Ok(bytes)
}

/// What was seen of a feature among the first records.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    features: Vec<(String, Option<DType>, Vec<usize>)>,
    places: HashMap<String, usize>,
    records: usize,
}

impl Seen {
    /// Looks at one record.
    pub(crate) fn push(&mut self, record: &[u8]) -> Result<()> {
        let mut wrong = None;
        let read = features(record, |name, bytes| {
            let name = std::str::from_utf8(name).ok()?;
            let (dtype, count) = match value(bytes)? {
                None => return Some(()),
                Some(Value::Bytes { count, .. }) => (None, count),
                Some(Value::Floats(b)) => (Some(DType::Float32), b.len() / 4),
                Some(Value::Ints(b)) => (Some(DType::Int64), b.len() / 8),
            };
            match self.places.get(name).map(|&i| &mut self.features[i]) {
                Some((_, had, counts)) if *had == dtype => counts.push(count),
                Some(_) => wrong = Some(Error::data(format!("feature {name:?} has two types"))),
                None => {
                    self.places.insert(name.to_owned(), self.features.len());
                    self.features.push((name.to_owned(), dtype, vec![count]));
                    limits::columns("features of the first records", self.features.len())
                        .unwrap_or_else(|e| wrong = Some(e));
                    wrong.is_none().then_some(())?;
                }
            }
            Some(())
        });
        self.records += 1;
        match wrong {
            Some(e) => Err(e),
            None => read.ok_or_else(not_an_example),
        }
    }

    /// Returns the fields, sorted by name.
    pub(crate) fn fields(mut self) -> Result<Vec<Field>> {
        self.features.sort_by(|a, b| a.0.cmp(&b.0));
        let field = |(name, dtype, counts): (String, Option<DType>, Vec<usize>)| {
            let same = counts.iter().all(|c| *c == counts[0]).then(|| counts[0]);
            let nullable = counts.len() < self.records;
            let kind = match (dtype, same) {
                (None, Some(1)) => Kind::Bytes,
                (None, _) => {
                    return Err(Error::invalid(format!(
                        "feature {name:?} is a list of byte strings, which no column holds"
                    ))
                    .hint("name the features to read, without this one"));
                }
                (Some(dtype), Some(1)) => Kind::Scalar { dtype },
                (Some(dtype), Some(n)) if n > 0 && !nullable => Kind::fixed(dtype, &[n]),
                (Some(dtype), _) => Kind::Tensor { dtype, shape: vec![None] },
            };
            Ok(Field { nullable, ..Field::new(name, kind) })
        };
        self.features.into_iter().map(field).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = Seen::default().push(&bytes);
            let mut parser = Parser::new(&[Field::new("", Kind::Bytes)], 1).expect("valid");
            let _ = parser.push(&bytes);
        }
    }
}
