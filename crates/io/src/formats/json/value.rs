//! Values of a line as slices of its checked text.

use std::borrow::Cow;

use forebay_core::{Error, Result};

/// Whole numbers of at most this many characters are exact in float64.
const EXACT_LEN: usize = 15;

/// The text of a value, without whitespace around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value<'l>(&'l str);

impl<'l> Value<'l> {
    /// Creates a value of a text that is one JSON value.
    pub(super) fn of(text: &'l str) -> Self {
        Self(text.trim_matches(is_blank))
    }

    /// Returns the text of the value.
    pub(super) fn text(self) -> &'l str {
        self.0
    }

    fn first(self) -> u8 {
        self.0.as_bytes().first().copied().unwrap_or(b' ')
    }

    pub(super) fn is_null(self) -> bool {
        self.first() == b'n'
    }

    pub(super) fn is_object(self) -> bool {
        self.first() == b'{'
    }

    pub(super) fn is_string(self) -> bool {
        self.first() == b'"'
    }

    pub(super) fn is_number(self) -> bool {
        matches!(self.first(), b'-' | b'0'..=b'9')
    }

    /// Says whether it is a number without a fraction and without an exponent.
    pub(super) fn is_whole(self) -> bool {
        self.is_number() && !self.0.contains(['.', 'e', 'E'])
    }

    pub(super) fn bool(self) -> Option<bool> {
        match self.first() {
            b't' => Some(true),
            b'f' => Some(false),
            _ => None,
        }
    }

    /// Returns a whole number. A number beyond 128 bits fits no column.
    pub(super) fn whole(self) -> Option<i128> {
        let short = self.0.parse::<i64>().ok().map(i128::from);
        short.or_else(|| self.0.parse().ok())
    }

    /// Returns a number as float64, or `None` for a whole number that float64 does not hold exactly: such numbers are
    /// names and hashes.
    pub(super) fn real(self) -> Option<f64> {
        let real: f64 = self.0.parse().ok().filter(|real: &f64| real.is_finite())?;
        let exact = self.0.len() <= EXACT_LEN || !self.is_whole() || format!("{real:.0}") == self.0;
        exact.then_some(real)
    }

    /// Returns the text of a string.
    ///
    /// # Errors
    /// Data when it has half of a surrogate pair, which is not valid text.
    pub(super) fn string(self) -> Result<Cow<'l, str>> {
        string(self.0)
    }

    /// Returns the items of a list, or `None` for any other value.
    pub(super) fn items(self) -> Option<impl Iterator<Item = Value<'l>>> {
        let inside = self.0.strip_prefix('[')?.strip_suffix(']')?;
        Some(Parts(inside).map(Value::of))
    }

    /// Returns the names and values of an object, or `None` for any other value.
    pub(super) fn members(self) -> Option<impl Iterator<Item = Result<(Cow<'l, str>, Value<'l>)>>> {
        let inside = self.0.strip_prefix('{')?.strip_suffix('}')?;
        Some(Parts(inside).map(|part| {
            let part = part.trim_start_matches(is_blank);
            let (name, rest) = part.split_at(string_end(part.as_bytes()));
            let value = rest.trim_start_matches(is_blank).trim_start_matches(':');
            Ok((string(name)?, Value::of(value)))
        }))
    }
}

/// Says whether a character is whitespace in JSON.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// Removes the quotes and escapes of a string.
fn string(text: &str) -> Result<Cow<'_, str>> {
    let inside = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    if !inside.contains('\\') {
        return Ok(Cow::Borrowed(inside));
    }
    serde_json::from_str::<String>(text).map(Cow::Owned).map_err(|_| {
        Error::data("a string of a line has an escape of half a letter (a lone surrogate), which no text holds")
            .with("value", text.chars().take(80).collect::<String>())
            .hint("write the file again without it; or leave such lines out with on_error=\"skip\"")
    })
}

/// Returns the end of the string that begins here, with its quotes.
fn string_end(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(next) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        match text[at + next] {
            b'"' => return at + next + 1,
            _ => at += next + 2,
        }
    }
    text.len()
}

/// The items of a list or object, separated by commas.
struct Parts<'l>(&'l str);

impl<'l> Iterator for Parts<'l> {
    type Item = &'l str;

    fn next(&mut self) -> Option<&'l str> {
        if self.0.trim_start_matches(is_blank).is_empty() {
            return None;
        }
        let bytes = self.0.as_bytes();
        let (mut at, mut depth) = (0, 0usize);
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'"' => at += string_end(&bytes[at..]) - 1,
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                b',' if depth == 0 => break,
                _ => {}
            }
            at += 1;
        }
        let part = &self.0[..at];
        self.0 = self.0.get(at + 1..).unwrap_or("");
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a value and writes it again, as `serde_json` does.
    fn again(value: Value<'_>) -> serde_json::Value {
        if let Some(items) = value.items() {
            return items.map(again).collect();
        }
        if let Some(members) = value.members() {
            return members.map(|m| m.map(|(k, v)| (k.into_owned(), again(v))).expect("letters")).collect();
        }
        if value.is_string() {
            return value.string().expect("letters").into_owned().into();
        }
        match (value.bool(), value.is_null(), value.whole().and_then(|n| i64::try_from(n).ok())) {
            (Some(bool), ..) => bool.into(),
            (_, true, _) => serde_json::Value::Null,
            (_, _, Some(whole)) => whole.into(),
            _ => value.real().into(),
        }
    }

    #[test]
    fn numbers_keep_their_value_or_are_none() {
        let of = |text| (Value::of(text).whole(), Value::of(text).real());
        assert_eq!(of(" -12 "), (Some(-12), Some(-12.0)));
        assert_eq!(of("18446744073709551616"), (Some(1 << 64), Some(18446744073709551616.0)));
        assert_eq!(of("18446744073709551617"), (Some((1 << 64) + 1), None));
        assert_eq!(of("170141183460469231731687303715884105727"), (Some(i128::MAX), None));
        assert_eq!(of("1361129467683753853853498429727072845824").1, Some(2f64.powi(130)));
        assert_eq!(of("1361129467683753853853498429727072845825").1, None);
        assert_eq!(of("1e999"), (None, None));
        assert_eq!(of("0.1000000000000000055511151231257827"), (None, Some(0.1)));
        assert_eq!(of("null"), (None, None));
    }

    fn json() -> impl proptest::strategy::Strategy<Value = serde_json::Value> {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_filter("finite", |f| f.is_finite() && f.fract() != 0.0).prop_map(Into::into),
            "[\\PC\"\\\\{}\\[\\],:\n\u{0}]{0,6}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                proptest::collection::vec(("[a\"\\\\{,:]{0,3}", inner), 0..5)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest::proptest! {
        #[test]
        fn what_is_taken_apart_is_what_was_written(value in json(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            proptest::prop_assert_eq!(again(Value::of(&text.expect("json"))), value);
        }
    }
}
