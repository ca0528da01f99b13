//! Reads single rows of blocks, each into its place in a table, and checks their sums.
//!
//! Files are read, never mapped: a file that is truncated meanwhile then causes an error instead of ending the process.

use std::ops::Range;

use forebay_data::Memory;

use crate::key::RowKey;
use crate::rows::table::{Part, Shape, Table};
use crate::tiers::block::layout::{Layout, StoredColumn};
use crate::tiers::block::read_at::{ReadAt, Trouble};

/// Rows that are near each other are read together, with the bytes between them, up to this many bytes.
const SPAN_BYTES_MAX: u64 = 128 << 10;

/// A wanted row of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Want {
    /// Its place in the table.
    pub(crate) slot: usize,
    /// Its place in the block.
    pub(crate) row: usize,
    pub(crate) key: RowKey,
}

/// A table whose rows are read from blocks, each into its slot.
pub(crate) struct Reading {
    parts: Vec<Filling>,
    rows: usize,
}

enum Filling {
    Even { width: usize, bytes: forebay_data::Bytes },
    Any { starts: Vec<i64>, bytes: forebay_data::Bytes },
    There(Vec<u8>),
}

impl Reading {
    /// Makes room for `rows` rows of these blocks.
    pub(crate) fn new(shapes: &[Shape], blocks: &[(&Layout, &[Want])], rows: usize, memory: &Memory) -> Self {
        let there =
            |i: usize| blocks.first().is_some_and(|(layout, _)| matches!(layout.parts[i], StoredColumn::There(_)));
        let filling = |(i, shape): (usize, &Shape)| match shape {
            Shape::Even(_) if there(i) => Filling::There(vec![0; rows]),
            Shape::Even(width) => Filling::Even { width: *width, bytes: memory.take(rows * width) },
            Shape::Any => {
                let mut starts = vec![0; rows + 1];
                for (layout, wants) in blocks {
                    let StoredColumn::Any { starts: from, .. } = &layout.parts[i] else { continue };
                    wants.iter().for_each(|want| starts[want.slot + 1] = from[want.row + 1] - from[want.row]);
                }
                (0..rows).for_each(|row| starts[row + 1] += starts[row]);
                let bytes = memory.take(starts[rows] as usize);
                Filling::Any { starts, bytes }
            }
        };
        Self { parts: shapes.iter().enumerate().map(filling).collect(), rows }
    }

    /// Reads rows of one block, which are sorted by their place in it.
    pub(crate) fn read(
        &mut self,
        file: &(impl ReadAt + ?Sized),
        layout: &Layout,
        wants: &[Want],
    ) -> Result<(), Trouble> {
        let mut scratch = Vec::new();
        for (part, stored) in self.parts.iter_mut().zip(&layout.parts) {
            match (part, stored) {
                (Filling::There(there), StoredColumn::There(from)) => {
                    wants.iter().for_each(|want| there[want.slot] = from[want.row]);
                }
                (Filling::Even { width, bytes }, StoredColumn::Even { at, .. }) => {
                    let width = *width;
                    let from = |row: usize| at + (row * width) as u64;
                    let to = |slot: usize| slot * width;
                    read_part(file, wants, &mut scratch, bytes.as_mut_slice(), from, to)?;
                }
                (Filling::Any { starts, bytes }, StoredColumn::Any { starts: stored, at }) => {
                    let from = |row: usize| at + stored[row] as u64;
                    let to = |slot: usize| starts[slot] as usize;
                    read_part(file, wants, &mut scratch, bytes.as_mut_slice(), from, to)?;
                }
                _ => return Err(Trouble::Broken("blocks of one prefix with different columns".to_owned())),
            }
        }
        Ok(())
    }

    /// Completes the table. Rows that were not read have arbitrary bytes.
    pub(crate) fn finish(self) -> Table {
        let part = |part| match part {
            Filling::Even { width, bytes } => Part::Even { width, bytes: bytes.into() },
            Filling::Any { starts, bytes } => Part::Any { starts: starts.into(), bytes: bytes.into() },
            Filling::There(there) => Part::Even { width: 1, bytes: arrow_buffer::Buffer::from_vec(there) },
        };
        Table::new(self.parts.into_iter().map(part).collect(), self.rows)
    }
}

/// Returns the bytes of rows of a block.
pub(crate) fn bytes_of(layout: &Layout, wants: &[Want]) -> u64 {
    wants.iter().map(|want| layout.row_bytes(want.row) as u64).sum()
}

/// Returns the ranges to read of a block, for rows that are sorted by their place in it: the fewest ranges, ascending,
/// with at least `gap` bytes between two of them. A smaller `gap` than [`SPAN_BYTES_MAX`] counts as this value, because
/// [`Reading::read`] reads such a span at once.
pub(crate) fn ranges(layout: &Layout, wants: &[Want], gap: u64) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for part in &layout.parts {
        let of = |row: usize| match part {
            StoredColumn::Even { width, at } => Some(at + (row * width) as u64..at + ((row + 1) * width) as u64),
            StoredColumn::Any { starts, at } => Some(at + starts[row] as u64..at + starts[row + 1] as u64),
            StoredColumn::There(_) => None,
        };
        ranges.extend(wants.iter().filter_map(|want| of(want.row)).filter(|range| !range.is_empty()));
    }
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap.max(SPAN_BYTES_MAX)) => {
                last.end = last.end.max(range.end)
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Says whether the rows of a block have the sums that they were written with.
pub(crate) fn are_right(table: &Table, layout: &Layout, wants: &[Want]) -> bool {
    wants.iter().all(|want| table.sum(&want.key, want.slot) == layout.sums[want.row])
}

/// Reads one part of rows: `from` returns the offset of each row in the file, and `to` its offset in `bytes`; each row
/// ends where the next begins.
fn read_part(
    file: &(impl ReadAt + ?Sized),
    wants: &[Want],
    scratch: &mut Vec<u8>,
    bytes: &mut [u8],
    from: impl Fn(usize) -> u64,
    to: impl Fn(usize) -> usize,
) -> Result<(), Trouble> {
    let mut rest = wants;
    while let [first, ..] = rest {
        // Rows that are consecutive in both are one read; so are rows that are near each other, through a buffer.
        let direct = rest.windows(2).take_while(|w| w[1].row == w[0].row + 1 && w[1].slot == w[0].slot + 1).count() + 1;
        let near = |want: &&Want| from(want.row + 1) - from(first.row) <= SPAN_BYTES_MAX;
        let near = rest.iter().take_while(near).count();
        if direct >= near {
            let last = rest[direct - 1];
            file.fill(&mut bytes[to(first.slot)..to(last.slot + 1)], from(first.row))?;
            rest = &rest[direct..];
            continue;
        }
        let last = rest[near - 1];
        scratch.resize((from(last.row + 1) - from(first.row)) as usize, 0);
        file.fill(scratch, from(first.row))?;
        for want in &rest[..near] {
            let span = (from(want.row) - from(first.row)) as usize..(from(want.row + 1) - from(first.row)) as usize;
            bytes[to(want.slot)..to(want.slot + 1)].copy_from_slice(&scratch[span]);
        }
        rest = &rest[near..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::FileKey;

    fn wants(rows: &[usize]) -> Vec<Want> {
        let key = RowKey { file: FileKey([0; 16]), row: 0 };
        rows.iter().enumerate().map(|(slot, &row)| Want { slot, row, key }).collect()
    }

    #[test]
    fn rows_come_in_the_fewest_ranges() {
        let far = 100 * SPAN_BYTES_MAX;
        let starts: Vec<i64> = (0..=10).map(|row| row * 3).collect();
        let any = StoredColumn::Any { starts: starts.into(), at: far };
        let parts = vec![
            StoredColumn::Even { width: SPAN_BYTES_MAX as usize, at: 0 },
            any,
            StoredColumn::There([1; 10].into()),
        ];
        let layout = Layout { keys: Vec::new(), sums: [].into(), parts };
        let of = |rows: &[usize], gap: u64| ranges(&layout, &wants(rows), gap);
        let even = |rows: Range<u64>| rows.start * SPAN_BYTES_MAX..rows.end * SPAN_BYTES_MAX;
        assert_eq!(of(&[], 0), []);
        assert_eq!(
            of(&[1, 3, 6], 0),
            [even(1..4), even(6..7), far + 3..far + 21],
            "what is near is read with what is between"
        );
        assert_eq!(of(&[1, 3, 6], 2 * SPAN_BYTES_MAX), [even(1..7), far + 3..far + 21]);
        assert_eq!(of(&[1, 3, 6], far).len(), 1);
        assert_eq!(bytes_of(&layout, &wants(&[1, 3, 6])), 3 * (SPAN_BYTES_MAX + 3));
    }
}
