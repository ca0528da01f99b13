//! Ranges of a block that were read, presented as the file of the block.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use bytes::Bytes;
use forebay_core::{Error, ErrorKind};

use crate::tiers::block::read_at::{ReadAt, Trouble};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct RangeBuffer {
    len: u64,
    buffer: BTreeMap<u64, Bytes>,
    lacking: RefCell<Option<Range<u64>>>,
}

impl RangeBuffer {
    /// Begins without a range, for a block of `len` bytes.
    pub(crate) fn new(len: u64) -> Self {
        Self { len, buffer: BTreeMap::new(), lacking: RefCell::new(None) }
    }

    /// Adds a range.
    pub(crate) fn add(&mut self, at: u64, piece: Bytes) {
        self.buffer.insert(at, piece);
    }

    /// Returns the range that the last read lacked.
    pub(crate) fn take_lacking(&self) -> Option<Range<u64>> {
        self.lacking.take()
    }
}

impl ReadAt for RangeBuffer {
    fn fill(&self, to: &mut [u8], at: u64) -> io::Result<()> {
        let (mut at, mut rest) = (at, to);
        while !rest.is_empty() {
            let end =
                at.checked_add(rest.len() as u64).filter(|&end| end <= self.len).ok_or(io::ErrorKind::UnexpectedEof)?;
            let before = self.buffer.range(..=at).next_back();
            let Some((start, piece)) = before.filter(|(start, piece)| at - **start < piece.len() as u64) else {
                self.lacking.replace(Some(at..end));
                return Err(io::ErrorKind::WouldBlock.into());
            };
            let piece = &piece[(at - start) as usize..];
            let n = piece.len().min(rest.len());
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(&piece[..n]);
            (at, rest) = (at + n as u64, later);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }
}

/// Converts an error of the store to that of a block.
pub(crate) fn trouble(e: &Error) -> Trouble {
    match e.kind() {
        ErrorKind::NotFound => Trouble::Gone,
        ErrorKind::Data => Trouble::Broken(e.message().to_owned()),
        _ => Trouble::Later(io::Error::other(e.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_spans_pieces_is_joined_and_what_lacks_is_named() {
        let mut buffer = RangeBuffer::new(100);
        buffer.add(10, Bytes::from_static(b"abcde"));
        buffer.add(15, Bytes::from_static(b"fgh"));
        let read = |at: u64, n: usize| {
            let mut to = vec![0; n];
            buffer.fill(&mut to, at).map(|()| String::from_utf8(to).expect("ascii")).map_err(|e| e.kind())
        };
        assert_eq!(read(12, 5), Ok("cdefg".to_owned()));
        assert_eq!(read(90, 0), Ok(String::new()));
        assert_eq!(read(16, 4), Err(io::ErrorKind::WouldBlock));
        assert_eq!(buffer.take_lacking(), Some(18..20));
        assert_eq!(read(9, 1), Err(io::ErrorKind::WouldBlock));
        assert_eq!(buffer.take_lacking(), Some(9..10));
        assert_eq!(read(99, 2), Err(io::ErrorKind::UnexpectedEof));
        assert_eq!(read(u64::MAX, 2), Err(io::ErrorKind::UnexpectedEof));
    }
}
