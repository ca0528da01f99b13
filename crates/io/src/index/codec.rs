//! The encoding of indexes: variable-length integers, differences of rising offsets, one checksum over all.
//!
//! Invariant: reading never allocates more than the given bytes could hold, and never panics.

use std::ops::RangeInclusive;

use forebay_core::{Error, ErrorKind, Result};

use crate::store::{Mark, Stat};

/// The length of the checksum at the end.
const SUM: usize = 32;

/// Writes a sealed record.
#[derive(Debug, Default)]
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    /// Starts a record of a kind and version.
    pub(crate) fn new(magic: [u8; 4], version: u8) -> Self {
        let mut bytes = magic.to_vec();
        bytes.push(version);
        Self(bytes)
    }

    pub(crate) fn int(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.int(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Writes `text` as its difference from `before`.
    pub(crate) fn text_after(&mut self, before: &str, text: &str) {
        let mut shared = before.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
        while !text.is_char_boundary(shared) {
            shared -= 1;
        }
        self.int(shared as u64);
        self.text(&text[shared..]);
    }

    /// Writes integers that mostly rise, so that their differences are small.
    pub(crate) fn rising(&mut self, numbers: &[u64]) {
        self.int(numbers.len() as u64);
        let mut last = 0u64;
        for &n in numbers {
            self.signed(n.wrapping_sub(last) as i64);
            last = n;
        }
    }

    pub(crate) fn signed(&mut self, n: i64) {
        self.int((n << 1 ^ n >> 63) as u64);
    }

    pub(crate) fn stat(&mut self, stat: &Stat) {
        self.int(stat.size);
        match &stat.mark {
            Mark::Mtime(ns) => {
                self.int(0);
                self.signed(*ns);
            }
            Mark::Etag(tag) => {
                self.int(1);
                self.text(tag);
            }
        }
    }

    /// Ends the record with its checksum.
    pub(crate) fn seal(mut self) -> Vec<u8> {
        let sum = blake3::hash(&self.0);
        self.0.extend_from_slice(sum.as_bytes());
        self.0
    }
}

/// Reads a sealed record.
#[derive(Debug)]
pub(crate) struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    /// Checks the header and the checksum.
    ///
    /// # Errors
    /// Data when it is not such a record or a bit of it differs; Version when another version wrote it.
    pub(crate) fn open(bytes: &'a [u8], magic: [u8; 4], versions: RangeInclusive<u8>) -> Result<Self> {
        let Some((body, sum)) = bytes.split_last_chunk::<SUM>().filter(|(b, _)| b.len() > 4 && b[..4] == magic) else {
            return Err(Error::data("not an index"));
        };
        if blake3::hash(body).as_bytes() != sum {
            return Err(Error::data("an index is corrupt: its checksum differs").hint("index the source again"));
        }
        if !versions.contains(&body[4]) {
            let what = format!("an index of version {} cannot be read: this is version {}", body[4], versions.end());
            return Err(Error::new(ErrorKind::Version, what).hint("install the same version on both sides"));
        }
        Ok(Self(&body[5..]))
    }

    pub(crate) fn int(&mut self) -> Result<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or_else(short)?;
            self.0 = rest;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(Error::data("an index holds a number that is too long"))
    }

    pub(crate) fn signed(&mut self) -> Result<i64> {
        let n = self.int()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    /// Reads a count of items that take at least a byte each.
    pub(crate) fn count(&mut self) -> Result<usize> {
        let n = self.int()?;
        usize::try_from(n).ok().filter(|&n| n <= self.0.len()).ok_or_else(short)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let n = self.count()?;
        let (bytes, rest) = self.0.split_at_checked(n).ok_or_else(short)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Error::data("an index holds a name that is not utf-8"))
    }

    pub(crate) fn text_after(&mut self, before: &str) -> Result<String> {
        let shared = self.int()? as usize;
        Ok(before.get(..shared).ok_or_else(short)?.to_owned() + self.text()?)
    }

    pub(crate) fn rising(&mut self) -> Result<Vec<u64>> {
        let n = self.count()?;
        let mut last = 0u64;
        let mut numbers = Vec::with_capacity(n);
        for _ in 0..n {
            last = last.wrapping_add(self.signed()? as u64);
            numbers.push(last);
        }
        Ok(numbers)
    }

    pub(crate) fn stat(&mut self) -> Result<Stat> {
        let size = self.int()?;
        let mark = match self.int()? {
            0 => Mark::Mtime(self.signed()?),
            _ => Mark::Etag(self.text()?.into()),
        };
        Ok(Stat { size, mark })
    }
}

fn short() -> Error {
    Error::data("an index ends too early")
}
