//! Decompresses chunks whose samples are compressed as a whole, in frames, or one by one.

use std::io::Read;

use forebay_core::{Error, Result};
use forebay_plan::Wrap;

use crate::formats::mds;
use crate::store::Object;
use crate::{fail, limits};

/// The first bytes of a chunk that is compressed in frames.
const MAGIC: &[u8] = b"LDFZ01\0\0";
/// The magic, a version and flags (u16 each), the number of samples, of samples per frame, and of frames (u32 each).
const HEAD_BYTES: usize = 24;
/// For each frame: its first sample and number of samples (u32 each), its offset (u64), its stored and decompressed
/// lengths (u32 each).
const FRAME_BYTES: usize = 24;

/// Decompresses a chunk of `rows` samples that has `bytes` bytes according to its index.
///
/// # Errors
/// Data when it is not such a chunk; Exhausted when it is above the memory limit.
pub(crate) fn unpacked(object: &Object, rows: u64, bytes: u64, wrap: Wrap) -> Result<Vec<u8>> {
    let uri = object.uri();
    limits::record(uri, 0, "a compressed chunk", object.size())?;
    let max = limits::group_bytes_max(object.size());
    if wrap == Wrap::Chunk {
        limits::group("a chunk", bytes, max).map_err(|e| e.with("file", uri))?;
    }
    let mut packed = vec![0; object.size() as usize];
    object.read_at(0, &mut packed)?;
    let mut chunk = Chunk { uri, packed: &packed, raw: Vec::new(), max };
    match wrap {
        Wrap::None => return Err(Error::internal("a chunk that is not compressed")),
        Wrap::Chunk => {
            chunk.add(0, packed.len(), None)?;
            // Older versions do not count the bytes before the samples.
            let head = rows.saturating_add(2).saturating_mul(4);
            let len = chunk.raw.len() as u64;
            if len != bytes && Some(len) != bytes.checked_add(head) {
                return Err(
                    chunk.wrong(0, format!("the chunk is {len} bytes decompressed, and its index says {bytes}"))
                );
            }
        }
        Wrap::Sample => chunk.add_samples(rows)?,
        Wrap::Batch => chunk.add_frames(rows)?,
    }
    Ok(chunk.raw)
}

/// A chunk that is being decompressed.
struct Chunk<'c> {
    uri: &'c str,
    packed: &'c [u8],
    raw: Vec<u8>,
    /// The most bytes that it may have.
    max: u64,
}

impl Chunk<'_> {
    fn wrong(&self, offset: usize, what: String) -> Error {
        mds::wrong(self.uri, offset as u64, what)
    }

    fn word(&self, at: usize) -> Result<usize> {
        let word = self.packed.get(at..).and_then(|rest| rest.first_chunk::<4>());
        let word = word.ok_or_else(|| fail::truncated(self.uri, "a chunk ends within its table").with("offset", at))?;
        Ok(u32::from_le_bytes(*word) as usize)
    }

    /// Decompresses the bytes from `start` to `end`; `len` is the decompressed length, if that is known.
    fn add(&mut self, start: usize, end: usize, len: Option<usize>) -> Result<()> {
        let Some(packed) = self.packed.get(start..end) else {
            return Err(self.wrong(start, "a part of a chunk is not within it".to_owned()));
        };
        let left = self.max.saturating_sub(self.raw.len() as u64);
        let before = self.raw.len();
        // One byte more shows whether the content is longer.
        let limit = len.map_or(left, |len| (len as u64).min(left)).saturating_add(1);
        let decoded =
            zstd::stream::read::Decoder::new(packed).and_then(|from| from.take(limit).read_to_end(&mut self.raw));
        decoded.map_err(|e| self.wrong(start, format!("a part of a chunk cannot be decompressed: {e}")))?;
        limits::group("a chunk", self.raw.len() as u64, self.max).map_err(|e| e.with("file", self.uri))?;
        let is = self.raw.len() - before;
        match len {
            Some(len) if len != is => {
                Err(self
                    .wrong(start, format!("a part of a chunk is {is} bytes decompressed, and its table says {len}")))
            }
            _ => Ok(()),
        }
    }

    /// Writes the table of an uncompressed chunk for samples of these lengths, before the samples.
    fn tabled(&mut self, lens: &[usize]) -> Result<()> {
        let mut at = (lens.len() + 2) * 4;
        let mut table = Vec::with_capacity(at + self.raw.len());
        table.extend((lens.len() as u32).to_le_bytes());
        for len in [0].iter().chain(lens) {
            at += len;
            let place = u32::try_from(at).map_err(|_| self.wrong(0, "a chunk has more than 4 GiB".to_owned()))?;
            table.extend(place.to_le_bytes());
        }
        table.append(&mut self.raw);
        self.raw = table;
        Ok(())
    }

    fn counted(&self, at: usize, rows: u64) -> Result<usize> {
        let counted = self.word(at)?;
        if counted as u64 == rows {
            return Ok(counted);
        }
        Err(self.wrong(at, format!("the chunk has {counted} samples, and its index counts {rows}")))
    }

    /// Decompresses samples one by one.
    fn add_samples(&mut self, rows: u64) -> Result<()> {
        let rows = self.counted(0, rows)?;
        let mut lens = Vec::new();
        for row in 0..rows {
            let before = self.raw.len();
            self.add(self.word(4 + row * 4)?, self.word(8 + row * 4)?, None)?;
            lens.push(self.raw.len() - before);
        }
        self.tabled(&lens)
    }

    /// Decompresses frames of some samples each.
    fn add_frames(&mut self, rows: u64) -> Result<()> {
        if !self.packed.starts_with(MAGIC) || self.packed.get(8..10) != Some(&1u16.to_le_bytes()) {
            return Err(self.wrong(0, "this is no chunk of frames of version 1".to_owned()));
        }
        let (rows, frames) = (self.counted(12, rows)?, self.word(20)?);
        let places = (0..=rows).map(|row| self.word(HEAD_BYTES + row * 4)).collect::<Result<Vec<_>>>()?;
        let table = HEAD_BYTES + (rows + 1) * 4;
        for frame in 0..frames {
            let at = table + frame * FRAME_BYTES;
            let (start, high) = (self.word(at + 8)?, self.word(at + 12)?);
            let (len, raw) = (self.word(at + 16)?, self.word(at + 20)?);
            let start = start | high << 32;
            self.add(start, start.saturating_add(len), Some(raw))?;
        }
        if places[0] != 0 || !places.is_sorted() || places.last() != Some(&self.raw.len()) {
            return Err(self.wrong(HEAD_BYTES, "the places of the samples are not those of the frames".to_owned()));
        }
        self.tabled(&places.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>())
    }
}
