//! CSV and its relatives (RFC 4180): records of fields between delimiters, some of them in quotes.
//!
//! - `record`: finds the end of a record, and splits it into fields.
//! - `inference`: infers the types of columns from the first records.
//! - `parser`: parses records into rows of columns.
//!
//! A quote opens a quoted field only where a field begins; elsewhere it is an ordinary character. A quote in a quoted
//! field is written twice. Text between a closing quote and the next delimiter belongs to the field. Invariant: where a
//! record ends does not depend on how the bytes before it were read.

mod dialect;
mod inference;
mod parser;
mod record;

use std::sync::atomic::AtomicBool;

use forebay_core::{Error, Result};

use crate::formats::lines;
use crate::limits;
use crate::store::Forward;

pub(crate) use dialect::Dialect;
pub(crate) use inference::TypeInference;
pub(crate) use parser::{Parser, check, places};
pub(crate) use record::{Fields, Scanner};

/// Bytes that are read ahead at once.
const WINDOW: usize = 64 << 10;

/// Says whether a record is an empty line. Empty lines at the end of a file are not rows. A line of blanks is not
/// empty, because a blank may be the delimiter.
pub(crate) fn is_blank(record: &[u8]) -> bool {
    record.iter().all(is_line_end)
}

fn is_line_end(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

impl Dialect {
    /// Returns the length of the record at `offset` with its end, or `None` at the end of the file. `row` is its number, if
    /// that is known.
    ///
    /// # Errors
    /// Data for a record that is too long.
    pub(crate) fn next(&self, forward: &mut Forward, offset: u64, row: Option<u64>) -> Result<Option<u64>> {
        if !self.multiline {
            return lines::next(forward, offset, row);
        }
        let (mut scanner, mut seen, mut window) = (Scanner::new(self), 0, 256);
        loop {
            let bytes = forward.at(offset, window)?;
            if let Some(end) = scanner.feed(&bytes[seen..]) {
                return Ok(Some((seen + end) as u64));
            }
            seen = bytes.len();
            if seen < window {
                return Ok((seen > 0).then_some(seen as u64));
            }
            limits::record(forward.object().uri(), offset, "a record", seen as u64)?;
            window = (window * 4).min(limits::record_bytes_max().saturating_add(1) as usize);
        }
    }

    /// Returns where the first record of rows begins: after the byte order mark and, if `names` are given, after a
    /// header that has these names.
    ///
    /// An empty file has no header and no row.
    ///
    /// # Errors
    /// Data for a file with another header.
    pub(crate) fn begin(&self, forward: &mut Forward, names: Option<&[String]>) -> Result<u64> {
        let at = lines::begin(forward)?;
        let Some(names) = names else { return Ok(at) };
        let Some((end, found)) = self.header(forward, at)? else { return Ok(at) };
        if found != names {
            let found = found.join(", ");
            return Err(Error::data(format!("the header of this file is {found:?}, that of the first file is {:?}", names.join(", ")))
                .with("fault", "file")
                .with("file", forward.object().uri())
                .hint("read files with the same columns in the same order together; say header=False if the first line is a row"));
        }
        Ok(end)
    }

    /// Reads the record at `at` as names; also returns where it ends. `None` for a file that ends there.
    pub(crate) fn header(&self, forward: &mut Forward, at: u64) -> Result<Option<(u64, Vec<String>)>> {
        let Some(len) = self.next(forward, at, None)? else { return Ok(None) };
        let record = forward.at(at, len as usize)?;
        let mut names = Vec::new();
        let mut fields = Fields::new(self, record);
        while let Some(field) = fields.next()? {
            if field.text.contains(&0) {
                return Err(Error::data("the header has a zero byte: this is no text")
                    .hint("check that these are the right files"));
            }
            if !field.is_quoted && field.text.contains(&b'\r') {
                return Err(Error::data("the lines of this file end with carriage returns alone")
                    .hint("convert its line ends, for example with `tr '\\r' '\\n'`"));
            }
            let name = std::str::from_utf8(field.text)
                .map_err(|_| Error::data("the header is not utf-8").hint("convert the file to utf-8"))?;
            names.push(name.to_owned());
            limits::columns("columns of a header", names.len())?;
        }
        Ok(Some((at + len, names)))
    }

    /// Finds where every record from `at` on begins, and where the last ends; without the blank ones at the end.
    ///
    /// # Errors
    /// As [`Dialect::next`]; Internal when `stop` is set.
    pub(crate) fn starts(&self, forward: &mut Forward, mut at: u64, stop: &AtomicBool) -> Result<Vec<u64>> {
        let object = forward.object();
        let mut starts = vec![at];
        let mut scanner = Scanner::new(self);
        // After this offset there are only line ends so far.
        let mut solid = at;
        loop {
            crate::parallel::check(stop)?;
            let bytes = forward.at(at, WINDOW)?;
            if bytes.is_empty() {
                break;
            }
            let mut seen = 0;
            while let Some(end) = scanner.feed(&bytes[seen..]) {
                seen += end;
                starts.push(at + seen as u64);
            }
            solid = bytes.iter().rposition(|b| !is_line_end(b)).map_or(solid, |i| at + i as u64 + 1);
            at += bytes.len() as u64;
            let begun = starts.last().copied().unwrap_or(0);
            limits::record(object.uri(), begun, "a record", at - begun)?;
        }
        if starts.last() != Some(&at) {
            starts.push(at);
        }
        while starts.len() > 1 && starts[starts.len() - 2] >= solid {
            starts.pop();
        }
        Ok(starts)
    }
}
