//! Finds the end of a record, and splits it into fields.

use forebay_core::{Error, Result};

use super::Dialect;
use crate::formats::lines;

/// Finds the ends of records in bytes that arrive in pieces.
#[derive(Debug)]
pub(crate) struct Scanner {
    delimiter: u8,
    /// The quote, if a quoted field may have line breaks; otherwise a line is a record.
    quote: Option<u8>,
    state: State,
}

/// The state after the bytes so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A delimiter, or the beginning of a record: a quote opens a quoted field.
    FieldStart,
    /// A part of a field without quotes.
    Plain,
    /// A part of a quoted field.
    Quoted,
    /// A quote in a quoted field: its end, or the first of two.
    QuoteInQuoted,
}

impl Scanner {
    pub(crate) fn new(dialect: &Dialect) -> Self {
        let quote = dialect.quote.filter(|_| dialect.multiline);
        Self { delimiter: dialect.delimiter, quote, state: State::FieldStart }
    }

    /// Returns the offset after the first record that ends in `bytes`, which follow the bytes of the calls before.
    /// After `None`, all of them are consumed; after an offset, the caller feeds the bytes from there on next.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let Some(quote) = self.quote else { return memchr::memchr(b'\n', bytes).map(|at| at + 1) };
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                State::Quoted => {
                    at += memchr::memchr(quote, &bytes[at..])? + 1;
                    self.state = State::QuoteInQuoted;
                }
                State::QuoteInQuoted if bytes[at] == quote => {
                    at += 1;
                    self.state = State::Quoted;
                }
                State::QuoteInQuoted => self.state = State::Plain,
                State::FieldStart if bytes[at] == quote => {
                    at += 1;
                    self.state = State::Quoted;
                }
                State::FieldStart | State::Plain => {
                    let Some(found) = memchr::memchr2(b'\n', quote, &bytes[at..]) else {
                        let is_start = bytes.last() == Some(&self.delimiter);
                        self.state = if is_start { State::FieldStart } else { State::Plain };
                        return None;
                    };
                    let end = at + found;
                    if bytes[end] == b'\n' {
                        self.state = State::FieldStart;
                        return Some(end + 1);
                    }
                    let opens = if found == 0 { false } else { bytes[end - 1] == self.delimiter };
                    self.state = if opens { State::Quoted } else { State::Plain };
                    at = end + 1;
                }
            }
        }
        None
    }
}

/// A field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldText<'r> {
    pub(crate) text: &'r [u8],
    /// Whether it was in quotes: then it is never missing.
    pub(crate) is_quoted: bool,
}

/// The fields of a record, one after another.
#[derive(Debug)]
pub(crate) struct Fields<'d, 'r> {
    dialect: &'d Dialect,
    /// The rest of the record; `None` after the last field.
    rest: Option<&'r [u8]>,
    /// The last field, if it had to be written again without its quotes.
    unquoted: Vec<u8>,
}

impl<'d, 'r> Fields<'d, 'r> {
    /// Begins with a record, with or without its end.
    pub(crate) fn new(dialect: &'d Dialect, record: &'r [u8]) -> Self {
        Self { dialect, rest: Some(lines::trim(record)), unquoted: Vec::new() }
    }

    /// Returns the next field.
    ///
    /// # Errors
    /// Data for a quoted field that does not end.
    pub(crate) fn next(&mut self) -> Result<Option<FieldText<'_>>> {
        let Some(rest) = self.rest else { return Ok(None) };
        if self.dialect.quote.is_some() && rest.first().copied() == self.dialect.quote {
            return self.quoted(rest).map(Some);
        }
        let end = memchr::memchr(self.dialect.delimiter, rest);
        self.rest = end.map(|end| &rest[end + 1..]);
        Ok(Some(FieldText { text: &rest[..end.unwrap_or(rest.len())], is_quoted: false }))
    }

    fn quoted(&mut self, rest: &'r [u8]) -> Result<FieldText<'_>> {
        let quote = rest[0];
        let mut left = &rest[1..];
        self.unquoted.clear();
        loop {
            let end = memchr::memchr(quote, left).ok_or_else(|| self.not_closed())?;
            self.unquoted.extend_from_slice(&left[..end]);
            left = &left[end + 1..];
            if left.first() != Some(&quote) {
                break;
            }
            self.unquoted.push(quote);
            left = &left[1..];
        }
        let end = memchr::memchr(self.dialect.delimiter, left);
        self.unquoted.extend_from_slice(&left[..end.unwrap_or(left.len())]);
        self.rest = end.map(|end| &left[end + 1..]);
        Ok(FieldText { text: &self.unquoted, is_quoted: true })
    }

    fn not_closed(&self) -> Error {
        let error = Error::data("a quoted field is not closed");
        if self.dialect.multiline {
            return error.hint("the file is cut off, or a quote is missing; if quotes are letters, say quote=None");
        }
        // The next line may be the rest of this field, so skipping only this line could turn the rest into a row.
        error
            .with("fault", "file")
            .hint("if fields have line breaks, say newlines_in_values=True; if quotes are letters, say quote=None")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DIALECT: Dialect = Dialect { delimiter: b',', quote: Some(b'"'), multiline: true };

    fn fields(record: &str) -> Vec<String> {
        let mut fields = Fields::new(&DIALECT, record.as_bytes());
        let mut all = Vec::new();
        while let Some(field) = fields.next().expect("closed") {
            all.push(String::from_utf8_lossy(field.text).into_owned());
        }
        all
    }

    #[test]
    fn fields_are_those_of_the_standard_and_of_python_where_it_is_silent() {
        for (record, want) in [
            ("a,b,c\r\n", vec!["a", "b", "c"]),
            ("\"a\"\"b\",\"c,d\",\"e\nf\"\n", vec!["a\"b", "c,d", "e\nf"]),
            ("5\" disk,x", vec!["5\" disk", "x"]),
            ("\"a\"b,c", vec!["ab", "c"]),
            (",,", vec!["", "", ""]),
            ("\n", vec![""]),
        ] {
            assert_eq!(fields(record), want, "{record:?}");
        }
    }

    fn field() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-c \"]{0,4}".prop_map(|plain| if plain.starts_with('"') { format!("x{plain}") } else { plain }),
            "[a-c,\"\n\r]{0,6}".prop_map(|text| format!("\"{}\"", text.replace('"', "\"\""))),
        ]
    }

    proptest! {
        #[test]
        fn records_end_where_they_do_however_they_are_fed(
            records in prop::collection::vec(prop::collection::vec(field(), 1..4), 1..8), cut in 1..9usize
        ) {
            let written: Vec<String> = records.iter().map(|fields| format!("{}\n", fields.join(","))).collect();
            let text = written.concat();
            let (mut scanner, mut ends, mut seen) = (Scanner::new(&DIALECT), Vec::new(), 0);
            for piece in text.as_bytes().chunks(cut) {
                let mut at = 0;
                while let Some(end) = scanner.feed(&piece[at..]) {
                    at += end;
                    ends.push(seen + at);
                }
                seen += piece.len();
            }
            let want: Vec<usize> =
                written.iter().scan(0, |end, record| { *end += record.len(); Some(*end) }).collect();
            prop_assert_eq!(ends, want, "{:?}", text);
        }
    }
}
