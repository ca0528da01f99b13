//! Reads rows of many blocks at once, by range.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::Error;

use crate::lock::lock;
use crate::state::CacheState;
use crate::state::prefix::PrefixState;
use crate::stats::add;
use crate::tiers::block::name::Name;
use crate::tiers::block::read::ranges;
use crate::tiers::block::read_at::{ReadAt, Trouble};
use crate::tiers::remote::blocks::Part;
use crate::tiers::remote::cost::patience;
use crate::tiers::remote::names::object_of;
use crate::tiers::remote::range_buffer::{RangeBuffer, trouble};
use crate::tiers::remote::state::{BLOCK_WAIT, Remote};
use crate::tiers::tier::WantedBlock;

/// The most bytes of one request.
const READ_BYTES_MAX: u64 = 8 << 20;

/// The wanted ranges of a block.
struct BlockRanges<'a> {
    name: &'a Name,
    len: u64,
    ranges: Vec<Range<u64>>,
}

/// Cuts a range into ranges of at most one request each.
fn cut(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let Range { start, end } = *range;
    (start..end).step_by(READ_BYTES_MAX as usize).map(move |at| at..end.min(at + READ_BYTES_MAX))
}

impl Remote {
    /// Says whether the place is read now.
    pub(crate) fn is_read(&self) -> bool {
        !lock(&self.reads).breaker.is_paused(self.now())
    }

    /// Says whether the wanted rows are read now. If not, counts them: the place is paused, or computing them costs
    /// less.
    pub(crate) fn is_worth_reading(&self, cache: &CacheState, state: &PrefixState, blocks: &[WantedBlock]) -> bool {
        let (is_read, bytes) = (self.is_read(), blocks.iter().map(WantedBlock::bytes).sum());
        let compute = compute_nanos(cache, state, bytes);
        let pays = is_read && lock(&self.cost).pays(bytes, compute);
        if !pays {
            let rows = blocks.iter().map(|of| of.wants.len()).sum();
            add(if is_read { &state.counters.cheaper } else { &state.counters.late }, rows);
        }
        pays
    }

    /// Reads the wanted ranges of all blocks at once (see [`BlockTier::read`](crate::tiers::tier::BlockTier::read)).
    pub(crate) fn read(
        &self,
        cache: &CacheState,
        state: &PrefixState,
        blocks: &[WantedBlock],
        each: &mut dyn FnMut(Result<&dyn ReadAt, Trouble>),
    ) {
        let gap = lock(&self.cost).gap();
        let wanted = |WantedBlock { block, wants, .. }: &WantedBlock| ranges(&block.layout, wants, gap);
        let block_ranges: Vec<BlockRanges<'_>> = blocks
            .iter()
            .map(|of| BlockRanges { name: &of.block.name, len: of.block.len, ranges: wanted(of) })
            .collect();
        let bytes = blocks.iter().map(WantedBlock::bytes).sum();
        for buffer in self.fetch(&block_ranges, patience(compute_nanos(cache, state, bytes))) {
            match buffer {
                Ok(buffer) => each(Ok(&buffer)),
                Err(trouble) => each(Err(trouble)),
            }
        }
    }

    /// Reads ranges of blocks, all at once. Ranges that are late are missing.
    fn fetch(&self, blocks: &[BlockRanges<'_>], limit: Duration) -> Vec<Result<RangeBuffer, Trouble>> {
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
        let read = self.blocks.read(&parts.concat(), limit);
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
        let buffer = self.fetch(&[BlockRanges { name, len, ranges: all }], BLOCK_WAIT).pop();
        let buffer = buffer.unwrap_or_else(|| Err(Trouble::Gone))?;
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| Trouble::Broken("it is too long".to_owned()))?];
        buffer.fill(&mut bytes, 0)?;
        Ok(bytes.into())
    }
}

/// Returns the nanoseconds that computing `bytes` bytes of rows takes, if known.
fn compute_nanos(cache: &CacheState, state: &PrefixState, bytes: u64) -> Option<f64> {
    cache.cost(state).map(|nanos_per_byte| nanos_per_byte * bytes as f64)
}

/// Returns the error of the place, if it did not answer.
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
