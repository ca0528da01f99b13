//! Finds the frames of a file one after another, without an index.

use forebay_core::Result;

use super::format::Format;
use crate::fail;
use crate::formats::json::document;
use crate::formats::{csv, lines, tfrecord};
use crate::store::Forward;

/// A place in a file where a frame begins.
pub(crate) struct Walk {
    pub(super) forward: Forward,
    pub(super) at: u64,
    /// Blank lines before this offset are rows, because other rows follow.
    pub(super) solid: u64,
    /// Whether no row is left.
    pub(super) is_over: bool,
    /// Whether a frame is known to begin here. It is not when the walk began in the middle of a file and has found no
    /// frame yet.
    pub(super) is_found: bool,
}

impl Walk {
    /// Begins at the start of a frame.
    pub(super) fn begin(forward: Forward, at: u64) -> Self {
        Self { forward, at, solid: at, is_over: false, is_found: true }
    }

    /// Returns the next frame, and where it begins; `None` after the last row. `row` is its number, if that is known.
    pub(super) fn next(&mut self, format: &Format, row: Option<u64>) -> Result<Option<(u64, &[u8])>> {
        let len = match format {
            Format::Text => lines::next(&mut self.forward, self.at, row)?,
            Format::Jsonl { .. } => {
                let len = lines::next(&mut self.forward, self.at, row)?;
                self.unless_blank(len, row, lines::is_blank)?
            }
            Format::Json { field, .. } => document::next(&mut self.forward, self.at, row, field.is_none())?,
            Format::Csv(csv) => {
                let len = csv.dialect.next(&mut self.forward, self.at, row)?;
                self.unless_blank(len, row, csv::is_blank)?
            }
            Format::Record { verify } | Format::Example { verify, .. } => {
                tfrecord::next(&mut self.forward, self.at, row, *verify)?
            }
        };
        let at = self.at;
        let Some(len) = len else {
            self.is_over = true;
            return Ok(None);
        };
        let uri = self.forward.object();
        let bytes = self.forward.at(at, len as usize)?;
        if bytes.len() as u64 != len {
            return Err(fail::truncated(uri.uri(), "the file ends within a row").with("offset", at));
        }
        self.at += len;
        Ok(Some((at, bytes)))
    }

    /// Returns the length of the next row, unless only blank lines are left.
    fn unless_blank(&mut self, len: Option<u64>, row: Option<u64>, is_blank: fn(&[u8]) -> bool) -> Result<Option<u64>> {
        if let Some(len) = len
            && self.at >= self.solid
            && is_blank(self.forward.at(self.at, len as usize)?)
        {
            match lines::skip_blank(&mut self.forward, self.at, row, is_blank)? {
                Some(next) => self.solid = next,
                None => return Ok(None),
            }
        }
        Ok(len)
    }
}
