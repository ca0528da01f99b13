//! Methods of Python's texts and dictionaries that templates call, with a bound on the text that they make.
//!
//! The engine charges a template for what a method returned. Of a few methods a short call makes a text that does not
//! fit into memory, so its size is computed before the call.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

/// The most bytes of a text that one call makes.
pub(super) const TEXT_MAX: usize = 64 << 20;
/// The most digits of a width in a format.
const WIDTH_DIGITS_MAX: usize = 4;
/// A width of so many digits is less than this.
const WIDTH_MAX: usize = 10_000;

/// Calls a method.
pub(super) fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        let mut left = TEXT_MAX;
        match (method, args) {
            ("join", [items]) => {
                for item in items.try_iter()? {
                    spend(&mut left, text.len())?;
                    measure(&item, &mut left)?;
                }
            }
            ("format", args) => {
                let fields = fields(text)?;
                let mut largest = TEXT_MAX;
                args.iter().try_for_each(|arg| measure(arg, &mut largest))?;
                spend(&mut left, fields.saturating_mul(TEXT_MAX - largest + WIDTH_MAX))?;
            }
            _ => {}
        }
    }
    unknown_method_callback(state, value, method, args)
}

/// Takes bytes from the rest of the budget.
pub(super) fn spend(left: &mut usize, bytes: usize) -> Result<(), Error> {
    *left = left.checked_sub(bytes).ok_or_else(|| Error::from(ErrorKind::OutOfFuel))?;
    Ok(())
}

/// Takes at least the bytes of a value's text from the rest of the budget.
fn measure(value: &Value, left: &mut usize) -> Result<(), Error> {
    match value.kind() {
        ValueKind::String => spend(left, value.as_str().map_or(0, str::len)),
        ValueKind::Map => value.try_iter()?.try_for_each(|key| {
            measure(&key, left)?;
            measure(&value.get_item(&key)?, left)
        }),
        ValueKind::Seq | ValueKind::Iterable => value.try_iter()?.try_for_each(|item| measure(&item, left)),
        _ => spend(left, 1),
    }
}

/// Returns the number of fields of a format, whose widths are short and written in it.
fn fields(format: &str) -> Result<usize, Error> {
    let (mut fields, mut rest) = (0, format);
    while let Some(at) = rest.find('{') {
        rest = &rest[at + 1..];
        if let Some(literal) = rest.strip_prefix('{') {
            rest = literal;
            continue;
        }
        let field = &rest[..rest.find('}').unwrap_or(rest.len())];
        let longest = field.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
        if field.contains('{') || longest > WIDTH_DIGITS_MAX {
            return Err(Error::new(ErrorKind::InvalidOperation, "format: a width is a number of at most four digits"));
        }
        (fields, rest) = (fields + 1, &rest[field.len()..]);
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_and_their_widths_are_short() {
        assert_eq!(fields("{} {{no}} {0:>12} {name}").expect("short"), 3);
        assert_eq!(fields("{{\"name\": \"{}\"}}").expect("short"), 1);
        for wide in ["{:>99999}", "{:>{}}", "{0:012345d}"] {
            assert!(fields(wide).is_err(), "{wide}");
        }
    }
}
