//! Reads a file from front to back through one buffer, and skips unwanted bytes.
//!
//! The buffer grows while reads are consecutive and shrinks at a jump, so that headers between large payloads cost
//! small reads and small records cost large ones. A remote object is read with one request from the start of the walk,
//! and the bytes of a short jump are read and dropped. For a file with cached pages, the next range is requested while
//! the current one is used.

use std::ops::Range;
use std::sync::Arc;

use forebay_core::{Error, Result};

use super::decoded::{Codec, Decoded, HEAD, Points};
use super::{Body, Object, Pending};
use crate::fail;

/// The bytes that wait for the reader of a remote object.
const AHEAD: usize = 8 << 20;
/// A longer jump in a remote object begins another request, which takes about as long as these bytes.
const SKIP_MAX: u64 = 4 << 20;
/// The least size of a request that continues after the wanted range.
const REST_MIN: u64 = 256 << 10;

/// A reader that moves forward.
#[derive(Debug)]
pub(crate) struct Forward {
    object: Arc<Object>,
    buffer: Vec<u8>,
    /// The file offset of the buffer.
    start: u64,
    step: usize,
    step_min: usize,
    step_max: usize,
    /// The next range, requested ahead (remote objects that are read in full).
    ahead: Option<(u64, usize, Pending)>,
    reads_ahead: bool,
    /// The bytes after the buffer, of a remote object that is read in full.
    body: Option<Body>,
    /// The bytes after the body, if they were requested before the body was read.
    next_body: Option<Body>,
    /// The most bytes of a body that may wait.
    body_ahead: usize,
    /// The end of a request, unless a reader continues after it.
    until: u64,
    /// The content of a file that is compressed as a whole: the other fields are then unused.
    decoded: Option<Box<Decoded>>,
    /// The estimated size of the content, if the file's name shows that it is compressed.
    estimate: Option<u64>,
}

/// Returns the codec of a file by its address and first bytes.
pub(crate) type CodecOf = fn(&str, &[u8]) -> Result<Option<Codec>>;

impl Forward {
    /// Starts a walk that mostly skips: small reads.
    pub(crate) fn skipping(object: Arc<Object>) -> Self {
        let step_min = if object.is_remote() { 64 << 10 } else { 1 << 10 };
        Self::new(object, step_min, 256 << 10, false)
    }

    /// Starts a walk that reads everything: large reads.
    pub(crate) fn reading(object: Arc<Object>) -> Self {
        let (min, max) = if object.is_remote() { (1 << 20, 4 << 20) } else { (64 << 10, 1 << 20) };
        let reads_ahead = object.is_remote();
        Self::new(object, min, max, reads_ahead)
    }

    /// Requests the bytes up to `until` before they are read, if the current request ends before that.
    ///
    /// # Errors
    /// Exhausted when no request can be made.
    pub(crate) fn ask_until(&mut self, until: u64) -> Result<()> {
        self.until = until.min(self.object.size()).max(self.until);
        if let (Some(body), None) = (&self.body, &self.next_body)
            && body.end() < self.until
        {
            self.next_body = self.object.stream(body.end()..self.until, self.body_ahead)?;
        }
        Ok(())
    }

    /// Returns the offset in the stored file after the bytes that were read.
    pub(crate) fn reached(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// As [`Forward::reading`], from `range.start` on, in parallel with many others: at most `ahead` bytes wait. The
    /// range of a remote object is requested at once, and no more until a reader continues after it.
    ///
    /// # Errors
    /// Exhausted when no request can be made.
    pub(crate) fn beside_others(object: Arc<Object>, range: Range<u64>, ahead: usize) -> Result<Self> {
        let offset = range.start;
        let until = range.end.min(object.size());
        let mut forward = Self { body_ahead: ahead, start: offset, until, ..Self::reading(object) };
        forward.body = forward.object.stream(offset..until, ahead)?;
        if forward.body.is_none() && forward.reads_ahead {
            forward.step_max = ahead;
            forward.ask_ahead(offset);
        }
        Ok(forward)
    }

    fn new(object: Arc<Object>, step_min: usize, step_max: usize, reads_ahead: bool) -> Self {
        Self {
            until: object.size(),
            object,
            buffer: Vec::new(),
            start: 0,
            step: step_min,
            step_min,
            step_max,
            ahead: None,
            reads_ahead,
            body: None,
            next_body: None,
            body_ahead: AHEAD,
            decoded: None,
            estimate: None,
        }
    }

    /// Sets the estimated size of the content.
    pub(crate) fn estimated(self, estimate: Option<u64>) -> Self {
        Self { estimate, ..self }
    }

    /// Returns the estimated size of the content of a compressed file; `None` if its name does not show that it is one.
    pub(crate) fn estimate(&self) -> Option<u64> {
        self.estimate
    }

    /// Reads the decompressed content, if the first bytes show that the file is compressed: offsets then count content
    /// bytes.
    ///
    /// # Errors
    /// Data for a file that is compressed twice, or in a way that is not supported.
    pub(crate) fn unpacked(mut self, codec_of: CodecOf) -> Result<Self> {
        let object = self.object();
        let Some(codec) = codec_of(object.uri(), self.at(0, HEAD)?)? else { return Ok(self) };
        // All of the stored file is read from now on, even for a small part of the content.
        let is_slow = object.is_remote() && !self.reads_ahead;
        let mut outer = Self::skipping(object.clone());
        let mut decoded = Decoded::new(if is_slow { Self::reading(object.clone()) } else { self }, codec);
        if let Some(inner) = codec_of(object.uri(), decoded.at(0, HEAD)?)? {
            return Err(fail::packed_twice(object.uri(), codec.name(), inner.name()));
        }
        outer.decoded = Some(decoded.into());
        Ok(outer)
    }

    /// Reads a compressed file with known access points: a jump begins at the last point before its target.
    pub(crate) fn with_points(object: Arc<Object>, points: Arc<Points>) -> Self {
        let decoded = Decoded::with_points(object.clone(), points);
        Self { decoded: Some(decoded.into()), ..Self::reading(object) }
    }

    /// Says whether the file is compressed, so that offsets count content bytes.
    pub(crate) fn is_decoded(&self) -> bool {
        self.decoded.is_some()
    }

    /// Returns the decompressing reader; `None` for a file that is read as it is.
    pub(crate) fn decoded(&mut self) -> Option<&mut Decoded> {
        self.decoded.as_deref_mut()
    }

    /// Returns the number of readable bytes, if it is known: for a compressed file only at its end.
    pub(crate) fn size(&self) -> Option<u64> {
        self.decoded.as_ref().map_or(Some(self.object.size()), |decoded| decoded.size())
    }

    pub(crate) fn object(&self) -> Arc<Object> {
        self.object.clone()
    }

    /// Returns `len` bytes from `offset`, or fewer where the file ends.
    pub(crate) fn at(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        if self.decoded.is_none() {
            return self.stored_at(offset, len);
        }
        self.decoded.as_mut().map_or(Ok(&[]), |decoded| decoded.at(offset, len))
    }

    /// Returns bytes of the stored file.
    fn stored_at(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let size = self.object.size();
        let len = size.saturating_sub(offset).min(len as u64) as usize;
        if len == 0 {
            return Ok(&[]);
        }
        let end = self.start + self.buffer.len() as u64;
        if offset < self.start || offset + len as u64 > end {
            self.fill(offset, len, end)?;
        }
        let from = (offset - self.start) as usize;
        Ok(&self.buffer[from..from + len])
    }

    /// Makes the buffer begin at `offset` and hold at least `len` bytes.
    fn fill(&mut self, offset: u64, len: usize, end: u64) -> Result<()> {
        let kept = if offset >= self.start && offset < end { (end - offset) as usize } else { 0 };
        let follows = self.start <= offset && offset <= end + self.step as u64;
        self.step = if follows { (self.step * 2).min(self.step_max) } else { self.step_min };
        let room = (self.object.size() - offset) as usize;
        let want = len.max(self.step).min(room);
        let from = self.buffer.len() - kept;
        self.buffer.copy_within(from.., 0);
        self.buffer.truncate(kept);
        self.start = offset;
        let next = offset + kept as u64;
        if self.reads_ahead && self.find(next, len - kept)? {
            return self.take(len - kept);
        }
        match self.ahead.take() {
            Some((at, size, pending)) if at == next => {
                self.append(size, |to| pending.fill(to))?;
                if kept + size < len {
                    self.extend(next + size as u64, len - kept - size)?;
                }
            }
            _ => self.extend(next, want - kept)?,
        }
        if self.reads_ahead {
            self.ask_ahead(self.start + self.buffer.len() as u64);
        }
        Ok(())
    }

    fn ask_ahead(&mut self, at: u64) {
        let size = self.object.size().saturating_sub(at).min(self.step_max as u64) as usize;
        if size > 0 {
            self.ahead = self.object.request(at, size).map(|pending| (at, size, pending));
        }
    }

    /// Moves the body to `offset`, of which `len` bytes are wanted; returns false where there is no body and ranges are
    /// requested instead.
    fn find(&mut self, offset: u64, len: usize) -> Result<bool> {
        if self.body.as_ref().is_some_and(|body| body.end() <= offset) {
            self.body = self.next_body.take();
        }
        let skips = |body: &Body| offset.checked_sub(body.at()).filter(|skip| *skip <= SKIP_MAX && offset < body.end());
        let Some((body, mut skip)) = self.body.as_mut().and_then(|body| skips(body).map(|skip| (body, skip))) else {
            self.next_body = None;
            return self.ask_body(offset, len);
        };
        while skip > 0 {
            skip -= body.next(skip as usize)?.len() as u64;
        }
        Ok(true)
    }

    /// Requests a body of at least `len` bytes from `offset` on; returns false where there is none.
    fn ask_body(&mut self, offset: u64, len: usize) -> Result<bool> {
        let end = self.until.max(offset + REST_MIN.max(len as u64)).min(self.object.size());
        self.body = self.object.stream(offset..end, self.body_ahead)?;
        Ok(self.body.is_some())
    }

    /// Adds at least `len` bytes of the body, and of the bodies after it, to the buffer.
    fn take(&mut self, len: usize) -> Result<()> {
        let mut missing = len;
        while missing > 0 {
            let Some(body) = &mut self.body else { return Err(Error::internal("a body is missing")) };
            if body.at() == body.end() {
                let end = body.end();
                self.body = self.next_body.take();
                if self.body.is_none() {
                    self.ask_body(end, missing)?;
                }
                continue;
            }
            let bytes = body.next(usize::MAX)?;
            self.buffer.extend_from_slice(&bytes);
            missing = missing.saturating_sub(bytes.len());
        }
        Ok(())
    }

    fn extend(&mut self, offset: u64, len: usize) -> Result<()> {
        let object = self.object.clone();
        self.append(len, |to| object.read_at(offset, to))
    }

    fn append(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        let held = self.buffer.len();
        self.buffer.resize(held + len, 0);
        let read = fill(&mut self.buffer[held..]);
        if read.is_err() {
            self.buffer.truncate(held);
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_reads_as_the_file_has_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bytes");
        let bytes: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(&path, &bytes).expect("written");
        let uri = path.to_str().expect("utf-8");
        let stat = crate::store::stat(uri, &crate::Allowed::everything()).expect("there");
        let object = Arc::new(Object::open(uri, &stat, None, &crate::Allowed::everything()).expect("opens"));
        for mut forward in [Forward::skipping(object.clone()), Forward::reading(object)] {
            let mut offset = 0;
            for len in [12, 512, 70_000, 1, 300_000, 512, 90_000, 40_000].into_iter().cycle().take(20) {
                let end = bytes.len().min(offset + len);
                assert_eq!(forward.at(offset as u64, len).expect("reads"), &bytes[offset.min(end)..end]);
                offset += len / 2 + 7;
            }
            assert!(forward.at(u64::MAX, 9).expect("reads").is_empty());
        }
    }
}
