//! The members of a line, under their dotted names.

use forebay_core::{Error, Result};
use serde::de::IgnoredAny;

use super::value::Value;

/// The deepest objects whose members are fields.
const DEPTH_MAX: usize = 128;

/// Receives the dotted name and the value of a member. If it returns true, it is also called for the members of that
/// value, which must be an object.
pub(super) type Visit<'v, 'l> = dyn FnMut(&str, Value<'l>) -> Result<bool> + 'v;

/// The name of a row in errors: of JSON lines, and of the array of a document.
pub(crate) const LINE: &str = "a line";
pub(crate) const ITEM: &str = "an item of the array";

/// Calls `visit` with the members of a row in the order in which they are written. `what` is the name of a row.
///
/// # Errors
/// Data when the row is not a JSON object; any error that `visit` returns.
pub(super) fn parse<'l>(what: &str, line: &'l [u8], visit: &mut Visit<'_, 'l>) -> Result<()> {
    let text = std::str::from_utf8(line).map_err(|e| {
        Error::data(format!("{what} is not json: it is not utf-8 from its byte {} on", e.valid_up_to() + 1))
            .hint("convert the file to utf-8")
    })?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|e| {
        let why = e.to_string().replace(" at line 1 column ", " at byte ");
        let error = Error::data(format!("{what} is not json: {why}"));
        let rest = line.get(e.column().saturating_sub(1)..);
        error.hint(match () {
            () if e.is_syntax() && rest.is_some_and(is_no_number) => {
                "json has no NaN and no Infinity: write null, and read it with schema={...: \"float32?\"}"
            }
            () if what == ITEM => "write it again as one json object, or leave such rows out with on_error=\"skip\"",
            () if e.is_eof() => {
                "the file is cut off, or an object goes on in the next line: write each object in a line of its own, or leave such lines out \
                 with on_error=\"skip\""
            }
            () => "each line holds one json object: write the line again, or leave such lines out with on_error=\"skip\"",
        })
    })?;
    let value = Value::of(text);
    if !value.is_object() {
        return Err(Error::data(format!("{what} is json, but not an object")));
    }
    members(value, &mut String::new(), 1, visit)
}

/// Calls `visit` with the members of an object whose dotted name is `name`.
fn members<'l>(object: Value<'l>, name: &mut String, depth: usize, visit: &mut Visit<'_, 'l>) -> Result<()> {
    let found = object.members().ok_or_else(|| Error::internal("a value of json is not an object"))?;
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

/// Says whether a text begins with `NaN` or an infinity, as Python writes them.
fn is_no_number(text: &[u8]) -> bool {
    [&b"NaN"[..], b"Infinity", b"-Infinity"].iter().any(|word| text.starts_with(word))
}

/// The beginning of a value's text.
pub(super) fn brief(value: Value<'_>) -> String {
    value.text().chars().take(80).collect()
}

pub(super) fn twice(name: &str) -> Error {
    Error::data(format!("field {name:?} is there twice"))
}
