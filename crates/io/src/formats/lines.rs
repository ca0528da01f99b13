//! Lines of text. A line ends with `\n`, `\r\n` or the end of the file. A byte order mark before the first line is
//! skipped.

use std::sync::atomic::AtomicBool;

use forebay_core::Result;

use crate::limits;
use crate::store::Forward;

/// Bytes that are read ahead at once.
const WINDOW: usize = 64 << 10;

/// The byte order mark that some editors put before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns where the first line begins.
pub(crate) fn begin(forward: &mut Forward) -> Result<u64> {
    let head = forward.at(0, BYTE_ORDER_MARK.len())?;
    Ok(if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() as u64 } else { 0 })
}

/// Returns where the first line at or after `offset` begins; the end of the file if there is none.
///
/// # Errors
/// As [`begin`].
pub(crate) fn find(forward: &mut Forward, offset: u64) -> Result<u64> {
    if offset == 0 {
        return begin(forward);
    }
    // The end of the previous line may be the byte before `offset`.
    let len = next(forward, offset - 1, None)?;
    Ok(len.map_or(forward.object().size(), |len| offset - 1 + len))
}

/// Returns the length of the line at `offset` with its end, or `None` at the end of the file.
pub(crate) fn next(forward: &mut Forward, offset: u64, line: Option<u64>) -> Result<Option<u64>> {
    let mut seen = 0;
    let mut window = 256;
    loop {
        let bytes = forward.at(offset, window)?;
        if let Some(i) = memchr::memchr(b'\n', &bytes[seen..]) {
            return Ok(Some((seen + i + 1) as u64));
        }
        seen = bytes.len();
        if seen < window {
            return Ok((seen > 0).then_some(seen as u64));
        }
        check(forward.object().uri(), offset, line, seen as u64)?;
        // One byte beyond the limit is enough to know.
        window = (window * 4).min(limits::record_bytes_max().saturating_add(1) as usize);
    }
}

/// `line` is its number, if that is known.
fn check(uri: &str, offset: u64, line: Option<u64>, bytes: u64) -> Result<()> {
    limits::record(uri, offset, "a line", bytes).map_err(|e| match line {
        Some(line) => e.with("file_line", line + 1),
        None => e,
    })
}

/// Removes the line's end.
pub(crate) fn trim(line: &[u8]) -> &[u8] {
    match line {
        [text @ .., b'\r', b'\n'] | [text @ .., b'\n'] => text,
        text => text,
    }
}

/// Says whether a line has only whitespace: such lines at the end of a JSON file are no rows.
pub(crate) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// Returns where the first non-blank line at or after `offset` begins, or `None` where there is none.
pub(crate) fn skip_blank(
    forward: &mut Forward,
    mut offset: u64,
    mut line: Option<u64>,
    is_blank: fn(&[u8]) -> bool,
) -> Result<Option<u64>> {
    while let Some(len) = next(forward, offset, line)? {
        if !is_blank(forward.at(offset, len as usize)?) {
            return Ok(Some(offset));
        }
        (offset, line) = (offset + len, line.map(|line| line + 1));
    }
    Ok(None)
}

/// Returns where every line begins, and where the last ends; without the blank lines at the end, unless `blank_end` is
/// set.
pub(crate) fn starts(forward: &mut Forward, blank_end: bool, stop: &AtomicBool) -> Result<Vec<u64>> {
    let object = forward.object();
    let mut at = begin(forward)?;
    let mut starts = vec![at];
    // After this offset there is only whitespace so far.
    let mut solid = at;
    loop {
        crate::parallel::check(stop)?;
        let bytes = forward.at(at, WINDOW)?;
        if bytes.is_empty() {
            break;
        }
        starts.extend(memchr::memchr_iter(b'\n', bytes).map(|i| at + i as u64 + 1));
        solid = bytes.iter().rposition(|b| !b.is_ascii_whitespace()).map_or(solid, |i| at + i as u64 + 1);
        at += bytes.len() as u64;
        let (line, begun) = (starts.len() as u64 - 1, starts.last().copied().unwrap_or(0));
        check(object.uri(), begun, Some(line), at - begun)?;
    }
    if starts.last() != Some(&at) {
        starts.push(at);
    }
    while !blank_end && starts.len() > 1 && starts[starts.len() - 2] >= solid {
        starts.pop();
    }
    Ok(starts)
}
