//! The bytes of a page in its file, in blocks with a sum each: any part is read by itself, and checked at each read.
//!
//! ```text
//! block 0 │ block 1 │ … │ the last, which may be shorter │ a sum of each block, 8 bytes, little-endian
//! ```
//!
//! A sample is a tenth of a page or less. With one sum for a whole page, most of the reading and summing would be
//! wasted. The slot of the page has the sum of the sums of its blocks, seeded by the file, the number and the length of
//! the page.
//!
//! Invariants: reading arbitrary bytes neither panics nor takes more memory than the sums of the longest page. Bytes
//! that are returned were written as that part of that page.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::pages::page::PageKey;
use crate::tiers::block::read_at::Trouble;

/// Bytes of a block. Smaller blocks have more sums; larger ones more unwanted bytes around a sample.
const BLOCK: usize = 16 << 10;
const SUM: usize = 8;

/// Returns the stored bytes of a page of `len` bytes.
pub(super) fn stored_bytes(len: usize) -> usize {
    len + len.div_ceil(BLOCK) * SUM
}

/// Returns the sums of the blocks of a page, as they are stored after it, and the sum of these.
pub(super) fn sums(key: &PageKey, bytes: &[u8]) -> (Vec<u8>, u64) {
    let sums: Vec<u8> = bytes.chunks(BLOCK).flat_map(|block| xxh3_64(block).to_le_bytes()).collect();
    let sum = sum(key, bytes.len(), &sums);
    (sums, sum)
}

fn sum(key: &PageKey, len: usize, sums: &[u8]) -> u64 {
    let mut header = [0; 24];
    header[..16].copy_from_slice(&key.file.0);
    header[16..].copy_from_slice(&key.page.to_le_bytes());
    xxh3_64_with_seed(sums, xxh3_64(&header).wrapping_add(len as u64))
}

/// A page in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredPage<'a> {
    pub(super) file: &'a File,
    pub(super) at: u64,
    pub(super) len: usize,
}

impl StoredPage<'_> {
    /// Fills `to` with bytes of a page from `start` on, and checks their sums. Until it returns Ok, the content of `to`
    /// is undefined.
    pub(super) fn read(&self, key: &PageKey, sum_of_sums: u64, start: usize, to: &mut [u8]) -> Result<(), Trouble> {
        let end = start.checked_add(to.len()).filter(|end| *end <= self.len);
        let end = end.ok_or_else(|| Trouble::Broken("a page's length is wrong".to_owned()))?;
        let mut sums = vec![0; stored_bytes(self.len) - self.len];
        self.file.read_exact_at(&mut sums, self.at + self.len as u64)?;
        if sum(key, self.len, &sums) != sum_of_sums {
            return Err(wrong());
        }
        let (mut at, mut around) = (start, Vec::new());
        while at < end {
            let next = match self.whole_blocks(at..end) {
                // Blocks that are wanted as a whole are read into their place.
                Some(next) => {
                    self.read_blocks(&sums, at, &mut to[at - start..next - start])?;
                    next
                }
                None => {
                    let block = at / BLOCK * BLOCK;
                    let next = end.min(block + BLOCK);
                    around.resize(BLOCK.min(self.len - block), 0);
                    self.read_blocks(&sums, block, &mut around)?;
                    to[at - start..next - start].copy_from_slice(&around[at - block..next - block]);
                    next
                }
            };
            at = next;
        }
        Ok(())
    }

    /// Returns the end of the whole blocks at the start of a part, if it begins with one.
    fn whole_blocks(&self, part: Range<usize>) -> Option<usize> {
        let end = if part.end == self.len { part.end } else { part.end / BLOCK * BLOCK };
        (part.start.is_multiple_of(BLOCK) && end > part.start).then_some(end)
    }

    /// Reads whole blocks, the first of which begins at `start`, and checks each.
    fn read_blocks(&self, sums: &[u8], start: usize, to: &mut [u8]) -> Result<(), Trouble> {
        self.file.read_exact_at(to, self.at + start as u64)?;
        let sums = sums.chunks_exact(SUM).skip(start / BLOCK);
        let is_right = |(block, sum): (&[u8], &[u8])| xxh3_64(block).to_le_bytes() == sum;
        if to.chunks(BLOCK).zip(sums).all(is_right) { Ok(()) } else { Err(wrong()) }
    }
}

fn wrong() -> Trouble {
    Trouble::Broken("a page's sum is wrong".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::FileKey;

    const AT: u64 = 77;

    fn written(bytes: &[u8]) -> (File, PageKey, u64) {
        let (file, key) = (tempfile::tempfile().expect("a file"), PageKey { file: FileKey([7; 16]), page: 3 });
        let (sums, sum) = sums(&key, bytes);
        file.write_all_at(&[bytes, &sums].concat(), AT).expect("written");
        assert_eq!(file.metadata().expect("there").len(), AT + stored_bytes(bytes.len()) as u64);
        (file, key, sum)
    }

    fn page() -> impl Strategy<Value = (Vec<u8>, Range<usize>)> {
        let len = prop_oneof![1..200usize, Just(BLOCK), Just(3 * BLOCK), 2 * BLOCK..5 * BLOCK];
        let edge = |len: usize| prop_oneof![0..=len, (0..=len / BLOCK).prop_map(|n| n * BLOCK), Just(len)];
        len.prop_flat_map(move |len| (Just(len), edge(len), edge(len))).prop_map(|(len, a, b)| {
            let bytes = (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            (bytes, a.min(b)..a.max(b))
        })
    }

    proptest! {
        #[test]
        fn a_part_is_what_was_written_or_an_error((bytes, part) in page(), flipped in 0.0..1.0f64, bit in 0..8u32) {
            let (file, key, sum) = written(&bytes);
            let place = StoredPage { file: &file, at: AT, len: bytes.len() };
            let mut to = vec![0xAB; part.len()];
            prop_assert!(place.read(&key, sum, part.start, &mut to).is_ok());
            prop_assert_eq!(&to, &bytes[part.clone()]);
            let other = PageKey { page: 4, ..key };
            prop_assert!(place.read(&other, sum, part.start, &mut to).is_err(), "another page's");
            prop_assert!(place.read(&key, sum, bytes.len() - part.len() + 1, &mut to).is_err(), "beyond its end");

            let at = (stored_bytes(bytes.len()) as f64 * flipped) as usize;
            let mut byte = [0];
            file.read_exact_at(&mut byte, AT + at as u64).expect("there");
            file.write_all_at(&[byte[0] ^ (1 << bit)], AT + at as u64).expect("written");
            let read = place.read(&key, sum, part.start, &mut to);
            let near = part.start / BLOCK * BLOCK..part.end.div_ceil(BLOCK) * BLOCK;
            if at >= bytes.len() || (!part.is_empty() && near.contains(&at)) {
                prop_assert!(read.is_err(), "byte {at} is wrong");
            } else {
                prop_assert!(read.is_ok() && to == bytes[part], "byte {at} is not asked for");
            }
        }
    }
}
