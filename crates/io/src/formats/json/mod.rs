//! Reads JSON objects as columns: one per line, or those of the array of a document.
//!
//! Nested objects flatten to dotted names; the fields of an object that is null are missing. A list of numbers is a
//! one-dimensional tensor of any length; any other list is kept as its
//! JSON text, because no column holds it. A list that is missing in some of the first lines is also kept as text,
//! because an inferred tensor is never missing. Integers and reals combine to float64; a value that float64 does not
//! hold exactly is an error. A value that is null or absent is missing. A column of texts accepts any value: a string
//! as its decoded text, any other value as the bytes of the line.
//!
//! `serde_json` checks that a line is JSON, at any depth. Values are slices of the line, because parsed numbers and
//! maps cannot be written again byte for byte.

pub(crate) mod document;
mod inference;
mod members;
mod parser;
mod value;

pub(crate) use inference::FieldInference;
pub(crate) use members::{ITEM, LINE};
pub(crate) use parser::{Parser, check};

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_data::{DType, Field, Kind};

    fn infer(lines: &[&str]) -> Vec<String> {
        let mut seen = FieldInference::new(LINE);
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
            ["a: float64", "b.c: string?", "b.d: int64[?]", "e: float64[?]", "f: bool", "g: string?", "h: string"];
        assert_eq!(infer(&lines), want);
    }

    #[test]
    fn an_object_that_is_null_at_first_has_its_own_fields_alone() {
        let lines = [
            r#"{"a":null,"b":{"c":null},"d":null}"#,
            r#"{"a":{"x":1},"b":null,"d":null}"#,
            r#"{"a":{"x":2},"b":{"c":{"y":[1]}},"d":null}"#,
        ];
        assert_eq!(infer(&lines), ["d: string?", "a.x: int64?", "b.c.y: string?"]);
    }

    #[test]
    fn a_whole_number_that_a_real_does_not_hold_is_refused() {
        let mut parser = Parser::new(LINE, &[Field::new("n", Kind::scalar(DType::Float64))], 2);
        parser.push(br#"{"n":9007199254740992}"#).expect("2^53 is one");
        let e = parser.push(br#"{"n":9007199254740993}"#).expect_err("it is not");
        assert_eq!(e.message(), "field \"n\" is float64, which does not hold this whole number exactly");
        assert_eq!(e.get("value"), Some("9007199254740993"));
    }

    #[test]
    fn a_field_that_is_there_twice_is_an_error_however_it_is_written() {
        for line in [r#"{"a":1,"a":2}"#, r#"{"a":null,"a":2}"#, r#"{"a":2,"a":null}"#, r#"{"a":2,"\u0061":2}"#] {
            let mut parser = Parser::new(LINE, &[Field::new("a", Kind::scalar(DType::Int64))], 1);
            assert!(parser.push(line.as_bytes()).expect_err("twice").message().contains("twice"), "{line}");
        }
        for line in [r#"{"a":{"b":1},"a":{"c":1}}"#, r#"{"a":{"b":1},"a.b":2}"#, r#"{"a":{"b":1},"a":2}"#] {
            assert!(
                FieldInference::new(LINE).push(line.as_bytes()).expect_err("twice").message().contains("twice"),
                "{line}"
            );
            let mut parser = Parser::new(LINE, &[Field::new("a.b", Kind::scalar(DType::Int64))], 1);
            assert!(parser.push(line.as_bytes()).expect_err("twice").message().contains("twice"), "{line}");
        }
    }

    #[test]
    fn what_nests_deep_is_read_as_text_and_else_refused() {
        let nested = |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
        for value in [nested("[", "]", 100_000), nested("{\"x\":", "}", 100_000), nested("[{\"x\":", "}]", 5_000)] {
            let line = format!("{{\"a\":{value}}}");
            let mut parser = Parser::new(LINE, &[Field::new("a", Kind::Utf8)], 1);
            parser.push(line.as_bytes()).expect("a text");
            let column = parser.finish().expect("columns").remove(0);
            let column = column.as_any().downcast_ref::<arrow_array::LargeStringArray>().expect("texts");
            assert_eq!(column.value(0), value);
        }
        assert_eq!(infer(&[&format!("{{\"a\":{}}}", nested("[", "]", 130))]), ["a: string"]);
        let e = FieldInference::new(LINE).push(nested("{\"x\":", "}", 130).as_bytes()).expect_err("deep");
        assert_eq!(e.message(), "field \"x\" nests objects deeper than 128");
    }

    #[test]
    fn two_types_of_one_field_are_an_error() {
        let mut seen = FieldInference::new(LINE);
        seen.push(br#"{"a":1}"#).expect("valid");
        assert_eq!(seen.push(br#"{"a":"x"}"#).expect_err("two types").message(), "field \"a\" has two types");
    }
}
