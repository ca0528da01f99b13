//! JSON objects, one a line, as columns.
//!
//! Nested objects flatten to dotted names. A list of numbers is a one-dimensional tensor; any other list is kept as its
//! JSON text, for no column holds it; so is one that is missing in some of the first lines, for a list never is.
//! Integers and reals meet in float64, where each keeps its value or is an error. A value that is null or not there is missing.
//! A column of texts takes any value: a text as it is, all else as its JSON text.

mod parser;
mod seen;

use std::collections::HashMap;
use std::fmt;

use forebay_core::{Error, Result};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::limits;
pub(crate) use parser::{Parser, check};
pub(crate) use seen::Seen;

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
    read.map_err(|e| {
        let error = Error::data(format!("a line is not json: {e}"));
        match e.is_syntax() && line.get(e.column().saturating_sub(1)..).is_some_and(is_no_number) {
            true => {
                error.hint("json has no NaN and no Infinity: write null, and read it with schema={...: \"float32?\"}")
            }
            false => error,
        }
    })?;
    match leaves.as_slice() {
        [(name, _)] if name.is_empty() => Err(Error::data("a line is json, but not an object")),
        _ => Ok(leaves),
    }
}

/// Says whether a text begins with what Python writes for floats that are no numbers.
fn is_no_number(text: &[u8]) -> bool {
    [&b"NaN"[..], b"Infinity", b"-Infinity"].iter().any(|word| text.starts_with(word))
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

/// The beginning of a value's text.
fn brief(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_data::{DType, Field, Kind};

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
