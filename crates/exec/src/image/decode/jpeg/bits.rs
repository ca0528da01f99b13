//! Bits of a scan, read eight bytes at a time.

use super::huffman::{FAST, extend};

/// A place in the data, with the next bits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bits {
    /// The next bits, the first of them the highest. Below the lowest `count` bits there may be more valid bits.
    pub(super) window: u64,
    count: u32,
    /// The first byte that has no counted bit in the window.
    next: usize,
}

impl Bits {
    /// Begins at a byte.
    pub(super) fn from(next: usize) -> Self {
        Self { next, ..Self::default() }
    }

    /// Makes at least 56 bits available; zeros after the end of the data.
    #[inline(always)]
    pub(super) fn refill(&mut self, data: &[u8]) {
        let bytes = data.get(self.next..).and_then(<[u8]>::first_chunk::<8>);
        self.window |= bytes.map_or(0, |b| u64::from_be_bytes(*b)) >> self.count;
        self.next += (63 - self.count as usize) >> 3;
        self.count |= 56;
    }

    /// Returns the next [`FAST`] bits.
    #[inline(always)]
    pub(super) fn index(&self) -> usize {
        (self.window >> (64 - FAST)) as usize
    }

    #[inline(always)]
    pub(super) fn skip(&mut self, bits: u32) {
        self.window <<= bits & 63;
        self.count -= bits;
    }

    /// Reads a number of a size from 0 to 16.
    #[inline(always)]
    pub(super) fn number(&mut self, size: u32) -> i32 {
        let number = (self.window >> 1 >> (63 - size)) as u32;
        self.skip(size);
        extend(number, size)
    }

    /// Returns the number of bits of the data before this place.
    pub(super) fn position(&self) -> usize {
        self.next * 8 - self.count as usize
    }
}
