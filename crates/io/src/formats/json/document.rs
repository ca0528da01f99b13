//! JSON documents whose rows are the objects of one array: the document itself, or a member of it.
//!
//! A frame is a value of the array with the comma behind it. Only strings, brackets and commas are told apart here: the
//! reader of a row checks that it is JSON. Behind the array of a member nothing is read; behind an array that is the
//! document there may be only whitespace. Bounds: a row has at most [`limits::record_bytes_max`] bytes, and everything
//! else is scanned in windows of [`WINDOW`] bytes.

use std::sync::atomic::AtomicBool;

use forebay_core::{Error, Result};

use crate::formats::lines;
use crate::limits;
use crate::store::Forward;

/// Bytes that are read ahead at once.
const WINDOW: usize = 64 << 10;
/// Bytes of a document that are searched for arrays, where its user named none that is there.
const SEARCH_BYTES: u64 = 64 << 20;
/// Names in an error.
const NAMES_MAX: usize = 10;
/// Rows between two looks at whether the scan should stop.
const CHECK_EVERY: usize = 1024;

/// Finds the end of a value: a comma or a closing bracket that belongs to no bracket and no string of it.
#[derive(Debug, Default)]
struct Scanner {
    depth: u64,
    is_string: bool,
    is_escaped: bool,
}

impl Scanner {
    /// Returns the offset of the end in `bytes`, which follow the bytes of the calls before.
    fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if std::mem::take(&mut self.is_escaped) {
                at += 1;
            } else if self.is_string {
                at += memchr::memchr2(b'"', b'\\', &bytes[at..])?;
                (self.is_string, self.is_escaped) = (bytes[at] != b'"', bytes[at] == b'\\');
                at += 1;
            } else {
                match byte {
                    b'"' => self.is_string = true,
                    b'[' | b'{' => self.depth += 1,
                    b',' | b']' | b'}' if self.depth == 0 => return Some(at),
                    b']' | b'}' => self.depth -= 1,
                    _ => {}
                }
                at += 1;
            }
        }
        None
    }
}

/// Returns where the first row begins, or the end of an array without rows. `field` names the member that is the array,
/// and the members around it, with dots between them. A name may have dots of its own.
///
/// # Errors
/// Data, for all of the file, when it has no such array.
pub(crate) fn begin(forward: &mut Forward, field: Option<&str>) -> Result<u64> {
    let start = lines::begin(forward)?;
    let (mut at, mut path) = (start, field);
    while let Some(wanted) = path.take() {
        let found = member(forward, at, u64::MAX, &mut |key, first| match wanted.strip_prefix(key) {
            Some("") => true,
            Some(below) if first == b'{' && below.starts_with('.') => {
                path = below.get(1..);
                true
            }
            _ => false,
        })?;
        at = match found {
            Some(found) => found,
            None => {
                let field = field.unwrap_or_default();
                return Err(without(forward, start, format!("this document has no member {field:?}")));
            }
        };
    }
    match solid(forward, at)? {
        Some((at, b'[')) => Ok(solid(forward, at + 1)?.map_or(at + 1, |(first, _)| first)),
        Some((_, b'{')) if field.is_none() => {
            Err(without(forward, start, "this document is an object, and not an array of objects".to_owned()))
        }
        Some(_) => {
            let what = field.map_or("this document".to_owned(), |field| format!("the member {field:?}"));
            Err(broken(forward, at, &format!("{what} is not an array")))
        }
        None => Err(broken(forward, at, "the file ends before the array begins")),
    }
}

/// Returns the length of the row at `offset`, with its comma, or `None` at the end of the array. `row` is its number, if
/// that is known. `is_document`: the array is the document, so that the file ends behind it.
///
/// # Errors
/// Data when the file ends within the array, or goes on behind an array that is the document; Exhausted for a row that is
/// too long.
pub(crate) fn next(forward: &mut Forward, offset: u64, row: Option<u64>, is_document: bool) -> Result<Option<u64>> {
    let numbered = |e: Error| row.into_iter().fold(e, |e, row| e.with("record", row));
    let (mut scanner, mut seen, mut window) = (Scanner::default(), 0, 256);
    loop {
        let bytes = forward.at(offset, window)?;
        if bytes.first() == Some(&b']') {
            if is_document && let Some((behind, _)) = solid(forward, offset + 1)? {
                return Err(broken(forward, behind, "the file goes on behind the array"));
            }
            return Ok(None);
        }
        let end = scanner.feed(&bytes[seen..]).map(|end| (seen + end, bytes[seen + end]));
        seen = bytes.len();
        match end {
            Some((end, b',')) => {
                let len = end as u64 + 1;
                return match solid(forward, offset + len)? {
                    Some((at, b']')) => Err(numbered(broken(forward, at, "the array ends behind a comma"))),
                    _ => Ok(Some(len)),
                };
            }
            Some((end, b']')) => return Ok(Some(end as u64)),
            Some((end, _)) => {
                return Err(numbered(broken(forward, offset + end as u64, "a bracket of the array is another one")));
            }
            None if seen < window => return Err(numbered(broken(forward, offset, "the file ends within the array"))),
            None => limits::record(forward.object().uri(), offset, "a row", seen as u64).map_err(numbered)?,
        }
        window = (window * 4).min(limits::record_bytes_max().saturating_add(1) as usize);
    }
}

/// Returns where every row from `at` on begins, and where the last ends.
///
/// # Errors
/// As [`next`]; Internal when `stop` is set.
pub(crate) fn starts(forward: &mut Forward, mut at: u64, is_document: bool, stop: &AtomicBool) -> Result<Vec<u64>> {
    let mut starts = vec![at];
    while let Some(len) = next(forward, at, Some(starts.len() as u64 - 1), is_document)? {
        at += len;
        starts.push(at);
        if starts.len() % CHECK_EVERY == 0 {
            crate::parallel::check(stop)?;
        }
    }
    Ok(starts)
}

/// Returns the value of a row.
pub(crate) fn trim(frame: &[u8]) -> &[u8] {
    frame.strip_suffix(b",").unwrap_or(frame).trim_ascii()
}

/// Returns where the first byte at or after `at` is that is no whitespace, and the byte.
fn solid(forward: &mut Forward, mut at: u64) -> Result<Option<(u64, u8)>> {
    loop {
        let bytes = forward.at(at, 256)?;
        match bytes.iter().position(|byte| !byte.is_ascii_whitespace()) {
            Some(found) => return Ok(Some((at + found as u64, bytes[found]))),
            None if bytes.is_empty() => return Ok(None),
            None => at += bytes.len() as u64,
        }
    }
}

/// Returns where the value of the first wanted member of the object at `at` begins. `is_wanted` gets the name and the first
/// byte of each value. Values that end behind `until` are an error.
fn member(
    forward: &mut Forward,
    at: u64,
    until: u64,
    is_wanted: &mut dyn FnMut(&str, u8) -> bool,
) -> Result<Option<u64>> {
    let Some((mut at, b'{')) = solid(forward, at)? else { return Ok(None) };
    loop {
        at = match solid(forward, at + 1)? {
            Some((_, b'}')) => return Ok(None),
            Some((at, b'"')) => at,
            _ => return Err(broken(forward, at, "an object has no name where one is expected")),
        };
        let (name, behind) = name(forward, at)?;
        let Some((colon, b':')) = solid(forward, behind)? else {
            return Err(broken(forward, behind, "a name has no value"));
        };
        let Some((value, first)) = solid(forward, colon + 1)? else {
            return Err(broken(forward, colon, "a name has no value"));
        };
        if is_wanted(&name, first) {
            return Ok(Some(value));
        }
        at = pass(forward, value, until)?;
        if forward.at(at, 1)? == b"}" {
            return Ok(None);
        }
    }
}

/// Reads the string at `at`; also returns where it ends.
fn name(forward: &mut Forward, at: u64) -> Result<(String, u64)> {
    let bytes = forward.at(at, WINDOW)?;
    let mut scanner = Scanner { is_string: true, ..Scanner::default() };
    let end = (1..bytes.len()).find(|&end| {
        scanner.feed(&bytes[end..=end]);
        !scanner.is_string
    });
    let name = end.and_then(|end| Some((serde_json::from_slice(&bytes[..=end]).ok()?, at + end as u64 + 1)));
    name.ok_or_else(|| broken(forward, at, "a name is no JSON"))
}

/// Returns where the value that begins at `at` ends.
fn pass(forward: &mut Forward, mut at: u64, until: u64) -> Result<u64> {
    let mut scanner = Scanner::default();
    loop {
        let bytes = forward.at(at, WINDOW)?;
        if let Some(end) = scanner.feed(bytes) {
            return Ok(at + end as u64);
        }
        if bytes.is_empty() || at > until {
            return Err(broken(forward, at, "the file ends within a value"));
        }
        at += bytes.len() as u64;
    }
}

/// Returns the error for a document without the array, with the names of arrays that it has.
fn without(forward: &Forward, start: u64, what: String) -> Error {
    let mut names = Vec::new();
    let again = crate::formats::compressed::reading(forward.object());
    // An error on the way leaves the names that were found before it.
    let _ = again.and_then(|mut forward| {
        member(&mut forward, start, SEARCH_BYTES, &mut |name, first| {
            if first == b'[' {
                names.push(format!("field={name:?}"));
            }
            names.len() == NAMES_MAX
        })
    });
    let e = Error::data(what).with("fault", "file").with("file", forward.object().uri());
    match names.is_empty() {
        false => e.hint(format!("name the array: {}", names.join(" or "))),
        true => {
            e.hint("it may be in a member of a member: field=\"data.items\"; from_jsonl reads an object in each line")
        }
    }
}

fn broken(forward: &Forward, offset: u64, what: &str) -> Error {
    Error::data(format!("not a JSON document with an array of objects: {what}"))
        .with("fault", "file")
        .with("file", forward.object().uri())
        .with("offset", offset)
        .hint("check that the file is whole; from_jsonl reads files with an object in each line")
}
