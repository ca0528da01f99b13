//! Reads the headers of many blocks at once, without their rows.
//!
//! Where the parts of a header are depends on earlier parts. So each header is parsed from the ranges that were read,
//! and the missing ranges of all blocks are read together next: three or four round trips for any number of blocks.

use std::time::Duration;

use crate::lock::{deadline, left};
use crate::tiers::block::format::{BlockHeader, open};
use crate::tiers::block::layout::Layout;
use crate::tiers::block::read_at::Trouble;
use crate::tiers::remote::blocks::{Part, RemoteBlocks};
use crate::tiers::remote::range_buffer::{RangeBuffer, trouble};

/// The bytes of the end of a block that are read first: its footer, and the keys of its rows if it has up to a few
/// thousand. They are at most one part in [`END_PART`] of the block, and at least [`END_BYTES_MIN`].
const END_BYTES: u64 = 128 << 10;
/// The largest part of a block that is read as its end.
const END_PART: u64 = 64;
/// At least the bytes of a footer.
const END_BYTES_MIN: u64 = 8 << 10;
/// The bytes of its beginning that are read first: its schema, and the offsets of its columns.
const BEGINNING_BYTES: u64 = 16 << 10;
/// The most round trips; each column of variable length takes one.
const ROUNDS_MAX: usize = 256;

/// The header of a block, or the reason why it cannot be read.
pub(crate) type OpenedHeader = Result<(BlockHeader, Layout), Trouble>;

/// Reads the headers of blocks, by name and size; `limit` is for all of them.
pub(crate) fn read_headers(place: &dyn RemoteBlocks, blocks: &[(String, u64)], limit: Duration) -> Vec<OpenedHeader> {
    let until = deadline(limit);
    let mut buffer: Vec<RangeBuffer> = blocks.iter().map(|(_, len)| RangeBuffer::new(*len)).collect();
    let mut opened: Vec<Option<OpenedHeader>> = blocks.iter().map(|_| None).collect();
    let mut wanted: Vec<(usize, std::ops::Range<u64>)> = Vec::new();
    for (i, (_, len)) in blocks.iter().enumerate() {
        let end = len.saturating_sub((len / END_PART).clamp(END_BYTES_MIN, END_BYTES));
        wanted.push((i, end..*len));
        wanted.extend((end > 0).then(|| (i, 0..end.min(BEGINNING_BYTES))));
    }
    for _ in 0..ROUNDS_MAX {
        wanted.retain(|(_, range)| !range.is_empty());
        let part =
            |(i, range): &(usize, std::ops::Range<u64>)| Part { name: blocks[*i].0.clone(), range: range.clone() };
        let parts: Vec<Part> = wanted.iter().map(part).collect();
        let read = place.read(&parts, left(until));
        for ((i, range), bytes) in wanted.drain(..).zip(read) {
            match bytes {
                Ok(bytes) => buffer[i].add(range.start, bytes),
                Err(e) => opened[i] = Some(Err(trouble(&e))),
            }
        }
        for (i, opened) in opened.iter_mut().enumerate().filter(|(_, opened)| opened.is_none()) {
            let tried = open(&buffer[i]);
            match (&tried, buffer[i].take_lacking()) {
                (Err(Trouble::Later(_)), Some(lacking)) => wanted.push((i, lacking)),
                _ => *opened = Some(tried),
            }
        }
        if wanted.is_empty() {
            break;
        }
    }
    let never = || Err(Trouble::Broken("it has more columns than can be looked at".to_owned()));
    opened.into_iter().map(|opened| opened.unwrap_or_else(never)).collect()
}
