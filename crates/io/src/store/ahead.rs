//! Ranges of a remote file that several threads read in parts. They are requested together, before the first is read.
//!
//! Ranges that lie close together share a request, and a long range takes several. The first thread that reads a range
//! waits for its requests, and the others for that thread.

use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use forebay_core::{Result, WaitsFor, waiting};

use super::{Object, Pending};

/// The most bytes between two ranges that share a request.
const GAP_MAX: u64 = 64 << 10;
/// The most bytes of a request.
const REQUEST_MAX: u64 = 8 << 20;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// In the order of the file, and apart from each other.
    spans: Vec<Span>,
}

/// A part of the file without a gap.
#[derive(Debug)]
struct Span {
    range: Range<u64>,
    /// The requests in flight, in order, and the bytes of each.
    requests: Mutex<Vec<(usize, Pending)>>,
    bytes: OnceLock<Result<Bytes>>,
}

impl Ahead {
    /// Requests ranges; `None` for a local file, whose ranges are read without a wait. A range beyond the end of the
    /// file is left out, so that only its reader fails.
    pub(crate) fn request(object: &Object, mut ranges: Vec<Range<u64>>) -> Option<Self> {
        if !object.is_remote() {
            return None;
        }
        ranges.retain(|range| !range.is_empty() && object.check_range(range.start, range.end - range.start).is_ok());
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        let span = |range: Range<u64>| {
            let starts = range.clone().step_by(REQUEST_MAX as usize);
            let request = |start: u64| {
                let len = (range.end - start).min(REQUEST_MAX) as usize;
                Some((len, object.request(start, len)?))
            };
            let requests = Mutex::new(starts.filter_map(request).collect());
            Span { range, requests, bytes: OnceLock::new() }
        };
        Some(Self { spans: joined(ranges).into_iter().map(span).collect() })
    }

    /// Returns the bytes that were requested.
    pub(crate) fn len(&self) -> u64 {
        self.spans.iter().map(|span| span.range.end - span.range.start).sum()
    }

    /// Returns the bytes of a range; `None` if it was not requested.
    ///
    /// # Errors
    /// The error of the store.
    pub(crate) fn read(&self, range: &Range<u64>) -> Option<Result<Bytes>> {
        let next = self.spans.partition_point(|span| span.range.end < range.end);
        let span = self.spans.get(next).filter(|span| span.range.start <= range.start)?;
        let from = (range.start - span.range.start) as usize;
        let len = (range.end - range.start) as usize;
        Some(span.bytes().map(|bytes| bytes.slice(from..from + len)))
    }
}

/// Joins sorted ranges that share a request.
fn joined(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut spans: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match spans.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            Some(last) if range.start - last.end <= GAP_MAX && range.end - last.start <= REQUEST_MAX => {
                last.end = range.end;
            }
            _ => spans.push(range),
        }
    }
    spans
}

impl Span {
    fn bytes(&self) -> Result<Bytes> {
        let wait = || {
            let requests = std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner));
            let mut bytes = vec![0; (self.range.end - self.range.start) as usize];
            let mut rest = bytes.as_mut_slice();
            for (len, pending) in requests {
                let (part, after) = rest.split_at_mut(len);
                pending.fill(part)?;
                rest = after;
            }
            Ok(bytes.into())
        };
        match self.bytes.get() {
            Some(bytes) => bytes.clone(),
            None => waiting(WaitsFor::Store, || self.bytes.get_or_init(wait).clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_lie_close_together_share_a_request() {
        let (gap, most) = (GAP_MAX, REQUEST_MAX);
        assert_eq!(
            joined(vec![0..10, 10 + gap..20 + gap, 21 + gap * 2..30 + gap * 2]),
            [0..20 + gap, 21 + gap * 2..30 + gap * 2]
        );
        assert_eq!(joined(vec![0..most, most..most + 1]), [0..most, most..most + 1], "no request is longer");
        assert_eq!(
            joined(vec![0..most * 3, 5..7, most..most * 3 + 1, most * 5..most * 6]),
            [0..most * 3 + 1, most * 5..most * 6],
            "ranges that overlap are one"
        );
    }
}
