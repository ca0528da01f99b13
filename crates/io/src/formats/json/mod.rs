//! Reads JSON objects, one per line, as columns.
//!
//! Nested objects flatten to dotted names. A list of numbers is a one-dimensional tensor; any other list is kept as its
//! JSON text, because no column holds it. A list that is missing in some of the first lines is also kept as text,
//! because an inferred tensor is never missing. Integers and reals combine to float64; a value that float64 does not
//! hold exactly is an error. A value that is null or absent is missing. A column of texts accepts any value: a string
//! as its decoded text, any other value as the bytes of the line.
//!
//! `serde_json` checks that a line is JSON, at any depth. Values are slices of the line, because parsed numbers and
//! maps cannot be written again byte for byte.

mod inference;
mod parser;
mod value;

use forebay_core::{Error, Result};
use serde::de::IgnoredAny;

use value::Value;

pub(crate) use inference::FieldInference;
pub(crate) use parser::{Parser, check};

/// The deepest objects whose members are fields.
const DEPTH_MAX: usize = 128;

/// Called with each member of an object under its dotted name; returns whether it also wants the members of the value.
type Visit<'v, 'l> = dyn FnMut(&str, Value<'l>) -> Result<bool> + 'v;

/// Calls `visit` with the members of a line in the order in which they are written.
///
/// # Errors
/// Data when the line is no JSON object; any error that `visit` returns.
fn parse<'l>(line: &'l [u8], visit: &mut Visit<'_, 'l>) -> Result<()> {
    let text = std::str::from_utf8(line).map_err(|e| {
        Error::data(format!("a line is not json: it is not utf-8 from its byte {} on", e.valid_up_to() + 1))
            .hint("convert the file to utf-8")
    })?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|e| {
        let what = e.to_string().replace(" at line 1 column ", " at byte ");
        let error = Error::data(format!("a line is not json: {what}"));
        let rest = line.get(e.column().saturating_sub(1)..);
        error.hint(match () {
            () if e.is_syntax() && rest.is_some_and(is_no_number) => {
                "json has no NaN and no Infinity: write null, and read it with schema={...: \"float32?\"}"
            }
            () if e.is_eof() => {
                "the file is cut off, or an object goes on in the next line: write each object in a line of its own, or leave such lines out \
                 with on_error=\"skip\""
            }
            () => "each line holds one json object: write the line again, or leave such lines out with on_error=\"skip\"",
        })
    })?;
    members(Value::of(text), &mut String::new(), 1, visit)
}

/// Calls `visit` with the members of an object whose dotted name is `name`.
fn members<'l>(object: Value<'l>, name: &mut String, depth: usize, visit: &mut Visit<'_, 'l>) -> Result<()> {
    let found = object.members().ok_or_else(|| Error::data("a line is json, but not an object"))?;
    let outer = name.len();
    for member in found {
        let (key, value) = member?;
        if outer > 0 {
            name.push('.');
        }
        name.push_str(&key);
        if visit(name, value)? {
            if depth == DEPTH_MAX {
                return Err(too_deep(name));
            }
            members(value, name, depth + 1, visit)?;
        }
        name.truncate(outer);
    }
    Ok(())
}

fn too_deep(name: &str) -> Error {
    let first = name.split('.').next().unwrap_or_default();
    Error::data(format!("field {first:?} nests objects deeper than {DEPTH_MAX}"))
        .hint(format!("read it as its json text: schema={{{first:?}: \"string\", ...}}"))
}

/// Says whether a text begins with a token that Python writes for NaN or an infinity.
fn is_no_number(text: &[u8]) -> bool {
    [&b"NaN"[..], b"Infinity", b"-Infinity"].iter().any(|word| text.starts_with(word))
}

/// Returns the beginning of a value's text.
fn brief(value: Value<'_>) -> String {
    value.text().chars().take(80).collect()
}

fn twice(name: &str) -> Error {
    Error::data(format!("field {name:?} is there twice"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_data::{DType, Field, Kind};

    fn infer(lines: &[&str]) -> Vec<String> {
        let mut seen = FieldInference::default();
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
    fn a_field_that_is_there_twice_is_an_error_however_it_is_written() {
        for line in [r#"{"a":1,"a":2}"#, r#"{"a":null,"a":2}"#, r#"{"a":2,"a":null}"#, r#"{"a":2,"\u0061":2}"#] {
            let mut parser = Parser::new(&[Field::new("a", Kind::scalar(DType::Int64))], 1);
            assert!(parser.push(line.as_bytes()).expect_err("twice").message().contains("twice"), "{line}");
        }
        for line in [r#"{"a":{"b":1},"a":{"c":1}}"#, r#"{"a":{"b":1},"a.b":2}"#, r#"{"a":{"b":1},"a":2}"#] {
            assert!(
                FieldInference::default().push(line.as_bytes()).expect_err("twice").message().contains("twice"),
                "{line}"
            );
            let mut parser = Parser::new(&[Field::new("a.b", Kind::scalar(DType::Int64))], 1);
            assert!(parser.push(line.as_bytes()).expect_err("twice").message().contains("twice"), "{line}");
        }
    }

    #[test]
    fn what_nests_deep_is_read_as_text_and_else_refused() {
        let nested = |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
        for value in [nested("[", "]", 100_000), nested("{\"x\":", "}", 100_000), nested("[{\"x\":", "}]", 5_000)] {
            let line = format!("{{\"a\":{value}}}");
            let mut parser = Parser::new(&[Field::new("a", Kind::Utf8)], 1);
            parser.push(line.as_bytes()).expect("a text");
            let column = parser.finish().expect("columns").remove(0);
            let column = column.as_any().downcast_ref::<arrow_array::LargeStringArray>().expect("texts");
            assert_eq!(column.value(0), value);
        }
        assert_eq!(infer(&[&format!("{{\"a\":{}}}", nested("[", "]", 130))]), ["a: string"]);
        let e = FieldInference::default().push(nested("{\"x\":", "}", 130).as_bytes()).expect_err("deep");
        assert_eq!(e.message(), "field \"x\" nests objects deeper than 128");
    }

    #[test]
    fn two_types_of_one_field_are_an_error() {
        let mut seen = FieldInference::default();
        seen.push(br#"{"a":1}"#).expect("valid");
        assert_eq!(seen.push(br#"{"a":"x"}"#).expect_err("two types").message(), "field \"a\" has two types");
    }
}
