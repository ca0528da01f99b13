//! Reads a file that is compressed as a whole, from front to back, as its decompressed content: offsets count content
//! bytes.
//!
//! Memory: [`BEHIND_MAX`], buffers of [`INPUT`] and [`OUTPUT`], the bytes of one request, and the codec
//! (`libraries.rs`, `inflate.rs`). A size that a file states is never trusted, so a small file with large content costs
//! only time.

mod codec;
mod decode;
mod decoders;
mod inflate;
mod libraries;
mod points;

use std::sync::Arc;

use forebay_core::{Error, Result};

pub(crate) use codec::{Codec, HEAD};
pub(crate) use points::Points;

use self::decode::Decode;
use self::points::{Point, SPACING, State};
use super::{Forward, Object};

/// Compressed bytes of one decoder step.
const INPUT: usize = 64 << 10;
/// The most output of one decoder step.
const OUTPUT: usize = 128 << 10;
/// The bytes before the reader's place that are kept, so that short steps back cost nothing. It is more than inflate's
/// window.
const BEHIND_MIN: usize = 64 << 10;
/// Beyond this size, all but [`BEHIND_MIN`] is dropped.
const BEHIND_MAX: usize = 256 << 10;

/// The most content that [`content_of`] decompresses: a small prefix may have any amount of it.
const CONTENT_MAX: u64 = 64 << 20;

/// Decompresses the first bytes of a file, up to about [`CONTENT_MAX`] bytes of content; of a damaged file, up to the
/// damage. Returns the bytes that were consumed, and the bytes of content.
///
/// # Errors
/// Internal when the codec cannot begin.
pub(crate) fn content_of(codec: Codec, mut first: &[u8]) -> Result<(u64, u64)> {
    let (mut output, mut content, mut decoder, all) = (vec![0; OUTPUT], 0, None, first.len());
    while content < CONTENT_MAX {
        let current = match &mut decoder {
            Some(current) => current,
            None if codec.begins(first) => decoder.insert(codec.decoder()?),
            None => break,
        };
        let Ok(step) = current.step(first, &mut output, false) else { break };
        content += step.put as u64;
        first = &first[step.taken..];
        if step.ended {
            decoder = None;
        } else if (step.taken, step.put) == (0, 0) {
            break;
        }
    }
    Ok(((all - first.len()) as u64, content))
}

/// A compressed file that is read forward.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// The stored file, and how far it is read.
    raw: Box<Forward>,
    taken: u64,
    /// The decoder of the current member; `None` between two.
    decoder: Option<Box<dyn Decode>>,
    /// The first `filled` bytes of it are output.
    buffer: Vec<u8>,
    filled: usize,
    /// The content offset of the buffer.
    start: u64,
    is_over: bool,
    /// The first error: after it the decoder is not called again.
    failed: Option<Error>,
    points: Arc<Points>,
    /// The distance of recorded access points, if they are recorded.
    spacing: Option<u64>,
}

impl Decoded {
    pub(crate) fn new(raw: Forward, codec: Codec) -> Self {
        Self::over(raw, Arc::new(Points::new(codec)))
    }

    /// Reads a file that was counted: a jump begins at the last access point before its target.
    pub(crate) fn with_points(object: Arc<Object>, points: Arc<Points>) -> Self {
        Self::over(Forward::reading(object), points)
    }

    fn over(raw: Forward, points: Arc<Points>) -> Self {
        Self {
            raw: raw.into(),
            taken: 0,
            decoder: None,
            buffer: Vec::new(),
            filled: 0,
            start: 0,
            is_over: false,
            failed: None,
            points,
            spacing: None,
        }
    }

    pub(crate) fn uri(&self) -> Arc<str> {
        self.raw.object().uri().into()
    }

    /// Records access points from here on.
    pub(crate) fn record(&mut self) {
        self.spacing = Some(SPACING);
    }

    /// Reads to the end, and returns the points and the size.
    pub(crate) fn finish(&mut self) -> Result<Arc<Points>> {
        self.at(u64::MAX, 0)?;
        Arc::make_mut(&mut self.points).size = self.end();
        Ok(self.points.clone())
    }

    /// Returns the size of the content, once its end was read.
    pub(crate) fn size(&self) -> Option<u64> {
        self.is_over.then(|| self.end())
    }

    /// Returns the content offset after the decoded bytes.
    fn end(&self) -> u64 {
        self.start + self.filled as u64
    }

    /// Says whether a read at `offset` continues from the current place, without a jump to another point.
    pub(crate) fn goes_on_to(&self, offset: u64) -> bool {
        offset >= self.start && self.points.before(offset).0.output <= self.end()
    }

    /// Returns `len` bytes of the content from `offset`, or fewer where it ends.
    ///
    /// # Errors
    /// Data for a file that is cut off, corrupt, or has other bytes after its end, naming the offset in the stored
    /// file; Exhausted for one that needs more memory than the limit.
    pub(crate) fn at(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        if !self.goes_on_to(offset) {
            self.jump(offset)?;
        }
        let wanted = offset.saturating_add(len as u64);
        while !self.is_over && self.end() < wanted {
            self.trim(offset);
            self.more()?;
        }
        let from = self.filled.min(usize::try_from(offset - self.start).unwrap_or(usize::MAX));
        let to = self.filled.min(from.saturating_add(len));
        Ok(&self.buffer[from..to])
    }

    /// Goes to the last point before `offset`.
    fn jump(&mut self, offset: u64) -> Result<()> {
        let points = self.points.clone();
        let (point, _) = points.before(offset);
        let before = match point.input.checked_sub(1) {
            Some(at) => self.raw.at(at, 1)?.first().copied().unwrap_or_default(),
            None => 0,
        };
        self.decoder = points.codec.resume(point, before)?;
        (self.taken, self.start, self.is_over) = (point.input, point.output, false);
        self.filled = 0;
        Ok(())
    }

    /// Drops the bytes far before `offset`.
    fn trim(&mut self, offset: u64) {
        let passed = (offset.min(self.end()) - self.start) as usize;
        if passed > BEHIND_MAX {
            let gone = passed - BEHIND_MIN;
            self.buffer.copy_within(gone..self.filled, 0);
            self.filled -= gone;
            self.start += gone as u64;
        }
    }

    /// Decodes one more step.
    fn more(&mut self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.decoder.is_none() && !self.begin()? {
            self.is_over = true;
            return Ok(());
        }
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        let input = self.raw.at(self.taken, INPUT)?;
        let is_cut = input.is_empty();
        let held = self.filled;
        let pause = self.spacing.is_some_and(|spacing| self.points.is_due(self.start + held as u64, spacing));
        if self.buffer.len() < held + OUTPUT {
            self.buffer.resize(held + OUTPUT, 0);
        }
        let step = decoder.step(input, &mut self.buffer[held..held + OUTPUT], pause).map_err(|e| self.fail(e))?;
        self.filled += step.put;
        self.taken += step.taken as u64;
        if step.ended {
            self.decoder = None;
        } else if (step.taken, step.put, step.bits) == (0, 0, None) {
            let what =
                if is_cut { "the file ends within its compressed data" } else { "the compressed data is corrupt" };
            return Err(self.fail(Error::data(what)));
        }
        if let Some(bits) = step.bits {
            let state = State::new(bits, &self.buffer[..self.filled])?;
            self.note(Some(state));
        }
        Ok(())
    }

    /// Records that decoding can begin here.
    fn note(&mut self, state: Option<State>) {
        let point = Point { input: self.taken, output: self.end(), state };
        self.spacing = self.spacing.map(|spacing| Arc::make_mut(&mut self.points).push(point, spacing));
    }

    /// Begins the next member; returns false if there is none.
    fn begin(&mut self) -> Result<bool> {
        let codec = self.points.codec;
        self.skip_padding()?;
        let head = self.raw.at(self.taken, HEAD)?;
        if head.is_empty() {
            return Ok(false);
        }
        if !codec.begins(head) {
            let what = format!("there is more behind the end of the {} data", codec.name());
            return Err(self.fail(Error::data(what).hint("cut the file off here, or write or fetch it again")));
        }
        self.decoder = Some(codec.decoder()?);
        if self.spacing.is_some_and(|spacing| self.points.is_due(self.end(), spacing)) {
            self.note(None);
        }
        Ok(true)
    }

    /// Skips the zeros that some writers put after a member.
    fn skip_padding(&mut self) -> Result<()> {
        let Some(multiple) = self.points.codec.padding() else { return Ok(()) };
        let mut at = self.taken;
        loop {
            let rest = self.raw.at(at, INPUT)?;
            let zeros = rest.iter().take_while(|byte| **byte == 0).count();
            at += zeros as u64;
            if zeros == 0 || zeros < rest.len() {
                break;
            }
        }
        if (at - self.taken).is_multiple_of(multiple) {
            self.taken = at;
        }
        Ok(())
    }

    /// Stores and returns an error with its place: within the next [`INPUT`] bytes of the input.
    fn fail(&mut self, error: Error) -> Error {
        let what =
            format!("a file compressed with {} cannot be read on: {}", self.points.codec.name(), error.message());
        let hint = error.get("hint").unwrap_or("the file is truncated or corrupt: write or fetch it again");
        let error = Error::new(error.kind(), what)
            .with("fault", "file")
            .with("file", self.raw.object().uri())
            .with("offset", self.taken)
            .hint(hint);
        self.failed = Some(error.clone());
        error
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::Allowed;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        to.write_all(bytes).expect("written");
        to.finish().expect("finished")
    }

    #[test]
    fn decoding_begins_within_a_member_of_gzip() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        let word = |i: u64| format!("{:x} ", i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
        let bytes: Vec<u8> = (0..900_000).map(word).collect::<String>().into_bytes();
        let (first, second) = bytes.split_at(5_000_000);
        std::fs::write(&path, [gzip(first), gzip(second)].concat()).expect("written");
        let uri = path.to_str().expect("utf-8");
        let stat = crate::store::stat(uri, &Allowed::everything()).expect("there");
        let object = Arc::new(Object::open(uri, &stat, None, &Allowed::everything()).expect("opens"));
        let mut counting = Decoded::new(Forward::reading(object.clone()), Codec::Gzip);
        counting.record();
        let points = counting.finish().expect("reads");
        assert_eq!(points.size, bytes.len() as u64);
        let mut next = points.before(0).1;
        let mut found = 0;
        while let Some(output) = next {
            let mut decoded = Decoded::with_points(object.clone(), points.clone());
            let from = output as usize + 70_000;
            assert_eq!(decoded.at(from as u64, 300_000).expect("reads"), &bytes[from..bytes.len().min(from + 300_000)]);
            assert!(decoded.start >= output, "it began at the point");
            found += 1;
            next = points.before(output).1;
        }
        assert!(found + 1 >= bytes.len() / SPACING as usize, "{found} points");
    }
}
