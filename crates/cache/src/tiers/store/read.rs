//! Reads rows of many blocks at once, by range.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::Error;

use crate::lock::lock;
use crate::tiers::block::format::{ReadAt, Trouble};
use crate::tiers::block::name::Name;
use crate::tiers::store::Part;
use crate::tiers::store::cost::patience;
use crate::tiers::store::names::object_of;
use crate::tiers::store::range_buffer::{RangeBuffer, trouble};
use crate::tiers::store::tier::{BLOCK_WAIT, StoreTier};

/// The most bytes of one request.
const READ_BYTES_MAX: u64 = 8 << 20;

/// The wanted ranges of a block.
pub(crate) struct BlockRanges<'a> {
    pub(crate) name: &'a Name,
    pub(crate) len: u64,
    pub(crate) ranges: Vec<Range<u64>>,
}

/// Cuts a range into ranges of at most one request each.
fn cut(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let Range { start, end } = *range;
    (start..end).step_by(READ_BYTES_MAX as usize).map(move |at| at..end.min(at + READ_BYTES_MAX))
}

impl StoreTier {
    /// Says whether the store is read at all now.
    pub(crate) fn is_read(&self) -> bool {
        !lock(&self.reads).breaker.is_paused(self.now())
    }

    /// Says whether to read rows that take `compute` nanoseconds to compute, if that is known.
    pub(crate) fn pays(&self, bytes: u64, compute: Option<f64>) -> bool {
        lock(&self.cost).pays(bytes, compute)
    }

    /// Says whether to ask peers for rows that they do not list, and that take `compute` nanoseconds to compute, if
    /// that is known.
    pub(crate) fn pays_to_ask(&self, compute: Option<f64>) -> bool {
        self.is_read() && lock(&self.peer_ask_policy).pays(compute)
    }

    /// Notes the time of a request to peers, and the share of rows that it yielded.
    pub(crate) fn note_request(&self, nanos: u64, share: f64) {
        lock(&self.peer_ask_policy).note(nanos, share);
    }

    /// Returns how many bytes between two rows are read with them.
    pub(crate) fn gap(&self) -> u64 {
        lock(&self.cost).gap()
    }

    /// Reads ranges of blocks, all at once. `compute` is the time of computing the rows, which bounds the wait. Ranges
    /// that are late are missing.
    pub(crate) fn fetch(&self, blocks: &[BlockRanges<'_>], compute: Option<f64>) -> Vec<Result<RangeBuffer, Trouble>> {
        self.fetch_within(blocks, patience(compute))
    }

    fn fetch_within(&self, blocks: &[BlockRanges<'_>], limit: Duration) -> Vec<Result<RangeBuffer, Trouble>> {
        if !lock(&self.reads).breaker.may_ask(self.now()) {
            let paused = || Trouble::Later(std::io::ErrorKind::NotConnected.into());
            return blocks.iter().map(|_| Err(paused())).collect();
        }
        let part = |block: &BlockRanges<'_>| {
            let name = object_of(block.name);
            block.ranges.iter().flat_map(cut).map(|range| Part { name: name.clone(), range }).collect::<Vec<_>>()
        };
        let parts: Vec<Vec<Part>> = blocks.iter().map(part).collect();
        let began = self.now();
        let read = self.store.read(&parts.concat(), limit);
        let nanos = self.now() - began;
        self.note_read(read.iter().map(|read| read.as_ref().err()));
        let bytes = read.iter().flatten().map(|bytes| bytes.len() as u64).sum();
        if bytes > 0 {
            lock(&self.cost).read(bytes, nanos);
        }
        let mut read = read.into_iter();
        let gather = |(block, parts): (&BlockRanges<'_>, &Vec<Part>)| {
            let mut buffer = Ok(RangeBuffer::new(block.len));
            for (part, bytes) in parts.iter().zip(read.by_ref()) {
                match (&mut buffer, bytes) {
                    (Ok(buffer), Ok(bytes)) => buffer.add(part.range.start, bytes),
                    (Ok(_), Err(e)) => buffer = Err(trouble(&e)),
                    (Err(_), _) => {}
                }
            }
            buffer
        };
        blocks.iter().zip(&parts).map(gather).collect()
    }

    /// Reads a whole block.
    pub(super) fn whole(&self, name: &Name, len: u64) -> Result<Bytes, Trouble> {
        let all = std::iter::once(0..len).collect();
        let buffer = self.fetch_within(&[BlockRanges { name, len, ranges: all }], BLOCK_WAIT).pop();
        let buffer = buffer.unwrap_or_else(|| Err(Trouble::Gone))?;
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| Trouble::Broken("it is too long".to_owned()))?];
        buffer.fill(&mut bytes, 0)?;
        Ok(bytes.into())
    }
}

/// Returns the error of the store, if it did not answer.
pub(super) fn unanswered(trouble: &Trouble) -> Option<Error> {
    match trouble {
        Trouble::Later(e) => Some(Error::unavailable(e.to_string())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_into_what_a_request_may_read() {
        let parts: Vec<_> = cut(&(5..2 * READ_BYTES_MAX + 6)).collect();
        assert_eq!(
            parts,
            [
                5..READ_BYTES_MAX + 5,
                READ_BYTES_MAX + 5..2 * READ_BYTES_MAX + 5,
                2 * READ_BYTES_MAX + 5..2 * READ_BYTES_MAX + 6
            ]
        );
        assert_eq!(cut(&(5..5)).count(), 0);
    }
}
