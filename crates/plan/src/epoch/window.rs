//! The two-level shuffle, for sources whose rows are decoded in blocks. A permutation of the epoch orders the blocks.
//! Their rows in that order are cut into windows of equal length. A second permutation orders the rows of each window.
//!
//! Where a cut divides a block, a permutation of the block decides which of its rows each window has.
//!
//! Source: CorgiPile (Xu et al., "In-Database Machine Learning with CorgiPile", SIGMOD 2022), which shows that it
//! trains like a full shuffle if a window holds many blocks. Invariants: the result is a permutation of all rows; a
//! window has rows of consecutive blocks of the epoch's order; the result depends only on the lengths of the blocks, the
//! rows of a window and a key.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_core::{Error, Result, rng::mix64};

use crate::epoch::permute::Permutation;
use crate::graph::Graph;
use crate::ops::{Op, ShuffleWindow};
use crate::physical::steps::Step;
use crate::source::Source;
use crate::source::facts::RowsKnown;

/// A source that is decoded in blocks and takes more bytes than this in memory is shuffled over windows.
const GLOBAL_BYTES_MAX: u64 = 512 << 20;
/// The bytes of such a window.
const WINDOW_BYTES: u64 = 256 << 20;
/// The bytes of a window of a streamed source: as stored, or the content of compressed files. The first batch needs a
/// whole window.
const STREAMED_BYTES: u64 = 16 << 20;
/// The least bytes of such a window where many datasets share memory.
const SHARED_BYTES_MIN: u64 = 1 << 20;
/// How many such windows are in memory at once: all threads work on the chunks of one.
pub const STREAMED_AT_ONCE: u64 = 3;

/// Returns the bytes of a window of the pipeline's shuffle, if its rows are streamed and not counted: lanes of files
/// are read side by side (see `lanes`). `None` if rows are counted first, or not shuffled.
///
/// It depends on the graph alone. A record file in a store can only be counted by reading all of it.
pub(crate) fn lane_window_bytes(graph: &Graph) -> Option<u64> {
    let facts = graph.source().facts();
    let streams = facts.rows == RowsKnown::ByReading && facts.begins_anywhere;
    // Cached rows are found by their row number.
    if !streams || graph.nodes().iter().any(|node| node.op.is_cache_point()) {
        return None;
    }
    let mut window = None;
    let mut repeats = true;
    for node in graph.nodes() {
        match (&node.op, window) {
            (Op::Shuffle(first), None) => window = Some(first.window),
            // Their rows are chosen by number.
            (Op::SelectRows(_) | Op::Part(_) | Op::Enumerate(_), _) => return None,
            // The rows that it makes are shuffled.
            (op, None) if op.fan_out().is_some() => return None,
            // Ops before the shuffle choose rows by their number in the source.
            (Op::Shuffle(_), Some(_)) | (Op::Take(_) | Op::Skip(_) | Op::Shard(_) | Op::Repeat(_), None) => {
                return None;
            }
            (Op::Repeat(_), Some(_)) if !repeats => return None,
            (Op::Take(_) | Op::Skip(_) | Op::Shard(_) | Op::Batch(_) | Op::PaddedBatch(_), Some(_)) => repeats = false,
            _ => {}
        }
    }
    match window? {
        ShuffleWindow::Bytes(bytes) => Some(bytes),
        ShuffleWindow::Auto if graph.source().is_remote() => Some(STREAMED_BYTES),
        ShuffleWindow::Shared(sharers) if graph.source().is_remote() => {
            Some((STREAMED_BYTES / sharers.max(1)).max(SHARED_BYTES_MIN))
        }
        _ => None,
    }
}

/// Returns the rows of a window of a pipeline's first shuffle; 0 if it permutes all rows at once. The source has `rows`
/// rows, each of about `row_bytes` bytes in memory, which it shares with the sources of other datasets: `sharers` is
/// the number of all.
///
/// # Errors
/// Invalid for a window after a repeat or another shuffle, where the rows of a block are no longer together.
pub(crate) fn rows(order: &[Step], source: &Source, rows: u64, row_bytes: u64, sharers: u64) -> Result<u64> {
    let (mut resolved, mut before) = (None, None);
    for Step { node, .. } in order {
        let window = match &node.op {
            Op::Shuffle(shuffle) => shuffle.window,
            Op::Repeat(_) | Op::SelectRows(_) | Op::FlatMap(_) => {
                before = before.or(Some(node.op.name()));
                continue;
            }
            _ => continue,
        };
        let wanted = match window {
            ShuffleWindow::Global => 0,
            ShuffleWindow::Rows(rows) => rows,
            ShuffleWindow::Bytes(bytes) => aligned((bytes / row_bytes).max(1)),
            ShuffleWindow::Auto | ShuffleWindow::Shared(_) if before.is_some() => 0,
            ShuffleWindow::Auto => automatic(source, rows, row_bytes, sharers.max(1)),
            ShuffleWindow::Shared(more) => automatic(source, rows, row_bytes, sharers.max(1).max(more)),
        };
        if let Some(before) = before.filter(|_| wanted > 0) {
            let message = format!(
                "a shuffle window consists of the source's blocks, so {before} cannot come before this shuffle"
            );
            return Err(node.blame(Error::invalid(message).hint("shuffle first, or leave window out")));
        }
        resolved = resolved.or(Some(wanted));
        before = before.or(Some(node.op.name()));
    }
    // A window of all rows is the shuffle of all rows.
    Ok(resolved.filter(|window| *window < rows).unwrap_or(0))
}

/// Returns the rows of a window for [`ShuffleWindow::Auto`]. A row group is decoded as a whole, so a shuffle of all
/// rows over more groups than a process caches would decode a group for each row.
fn automatic(source: &Source, rows: u64, row_bytes: u64, sharers: u64) -> u64 {
    if !source.facts().in_groups || rows.saturating_mul(row_bytes) <= GLOBAL_BYTES_MAX / sharers {
        0
    } else {
        aligned((WINDOW_BYTES / sharers / row_bytes).max(1))
    }
}

/// Returns the largest number of rows up to `rows` that has three significant bits. Splits mostly divide such a number,
/// and one worker can read a window alone only if its splits divide it.
fn aligned(rows: u64) -> u64 {
    let low = rows.max(1).ilog2().saturating_sub(2);
    rows >> low << low
}

/// Returns the most rows that a reader keeps decoded: the blocks of the window that it finishes, and of the window that
/// it begins. The first and the last block of a window, of at most `block_rows` rows each, may have rows in other windows.
pub fn rows_of_two_windows(window_rows: u64, block_rows: u64) -> u64 {
    window_rows.saturating_add(block_rows.saturating_mul(2)).saturating_mul(2)
}

/// Which splits of a consumer have rows of which window. A split belongs to the window of its first row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowLayout {
    window_rows: u64,
    /// The rows of the splits with one ordinal, of all consumers together.
    ordinal_rows: u64,
}

impl WindowLayout {
    /// Lays out splits; `None` if there are no windows, or the rows of splits are not known.
    pub(crate) fn new(window_rows: u64, ordinal_rows: u64) -> Option<Self> {
        (window_rows > 0 && ordinal_rows > 0).then_some(Self { window_rows, ordinal_rows })
    }

    /// Returns the most splits that a consumer has in a window.
    pub fn splits(self) -> u64 {
        self.window_rows.div_ceil(self.ordinal_rows)
    }

    /// Returns the window of a split, and the index of the split among the consumer's splits of this window.
    pub fn place(self, ordinal: u64) -> (u64, u64) {
        let window = ordinal.saturating_mul(self.ordinal_rows) / self.window_rows;
        (window, ordinal - window.saturating_mul(self.window_rows).div_ceil(self.ordinal_rows))
    }
}

/// Epochs whose windows are kept: around the end of an epoch, threads need those of two.
const EPOCHS_MAX: usize = 2;

/// The windows of a source's epochs.
#[derive(Debug)]
pub(crate) struct Windows {
    /// The first row of each block, and the number of rows.
    starts: Vec<u64>,
    window_rows: u64,
    made: Mutex<Vec<Arc<EpochWindows>>>,
}

impl Windows {
    /// Plans windows of this number of rows; the last one of an epoch may have fewer.
    pub(crate) fn new(starts: Vec<u64>, window_rows: u64) -> Self {
        Self { starts, window_rows: window_rows.max(1), made: Mutex::default() }
    }

    /// Returns the windows of the epoch that `key` names.
    pub(crate) fn of_epoch(&self, key: u64) -> Arc<EpochWindows> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = made.iter().position(|windows| windows.key == key) {
            return made[place].clone();
        }
        let windows = Arc::new(EpochWindows::new(&self.starts, self.window_rows, key));
        made.truncate(EPOCHS_MAX - 1);
        made.insert(0, windows.clone());
        windows
    }
}

/// The windows of one epoch.
#[derive(Debug)]
pub(crate) struct EpochWindows {
    key: u64,
    window_rows: u64,
    /// For each block in the epoch's order, the place of its first row; and the number of rows.
    places: Vec<u64>,
    /// For each block in the epoch's order, its first row in the source.
    rows: Vec<u64>,
}

/// A window and the permutation of its rows.
struct Window {
    places: Range<u64>,
    blocks: Range<usize>,
    permutation: Permutation,
    /// The first and the last block and their permutations, if the window has only some of their rows.
    divided: Vec<(usize, Permutation)>,
}

impl EpochWindows {
    fn new(starts: &[u64], window_rows: u64, key: u64) -> Self {
        let count = starts.len().saturating_sub(1);
        let mut order: Vec<u64> = (0..count as u64).collect();
        Permutation::new(count as u64, key).map(&mut order);
        let (mut places, mut rows) = (vec![0], Vec::with_capacity(count));
        let mut place = 0;
        for block in order.into_iter().map(|block| block as usize) {
            place += starts[block + 1] - starts[block];
            rows.push(starts[block]);
            places.push(place);
        }
        Self { key, window_rows, places, rows }
    }

    /// Replaces each place of the epoch by the row that comes there. Places must be below the number of rows.
    pub(crate) fn map(&self, places: &mut [u64]) {
        let mut rest = places;
        while let Some(&place) = rest.first() {
            let window = self.window(place / self.window_rows);
            let end = rest.iter().position(|p| !window.places.contains(p)).unwrap_or(rest.len());
            let (run, after) = rest.split_at_mut(end.max(1));
            rest = after;
            run.iter_mut().for_each(|p| *p -= window.places.start);
            window.permutation.map(run);
            self.find_rows(&window, run);
        }
    }

    /// Replaces each number of a row in a window by the row in the source.
    fn find_rows(&self, window: &Window, numbers: &mut [u64]) {
        let of_blocks = &self.places[window.blocks.clone()];
        let mut of_divided: Vec<_> = window.divided.iter().map(|_| Vec::new()).collect();
        for (at, number) in numbers.iter_mut().enumerate() {
            let place = *number + window.places.start;
            let block = window.blocks.start + of_blocks.partition_point(|first| *first <= place).saturating_sub(1);
            let row = place - self.places[block];
            match window.divided.iter().position(|(divided, _)| *divided == block) {
                Some(which) => of_divided[which].push((at, row)),
                None => *number = self.rows[block] + row,
            }
        }
        for ((block, permutation), of_block) in window.divided.iter().zip(of_divided) {
            let mut rows: Vec<u64> = of_block.iter().map(|(_, row)| *row).collect();
            permutation.map(&mut rows);
            of_block.iter().zip(rows).for_each(|((at, _), row)| numbers[*at] = self.rows[*block] + row);
        }
    }

    fn window(&self, number: u64) -> Window {
        let rows = self.places.last().copied().unwrap_or(0);
        let start = number.saturating_mul(self.window_rows);
        let places = start..start.saturating_add(self.window_rows).min(rows);
        let first = self.places.partition_point(|first| *first <= places.start).saturating_sub(1);
        let blocks = first..self.places.partition_point(|first| *first < places.end).max(first + 1);
        let permutation = Permutation::new(places.end - places.start, mix64(self.key ^ mix64(number + 1)));
        let ends = if blocks.len() > 1 { vec![blocks.start, blocks.end - 1] } else { vec![blocks.start] };
        let divided = ends.into_iter().filter_map(|block| Some((block, self.divided(block, &places)?))).collect();
        Window { places, blocks, permutation, divided }
    }

    /// Returns the permutation of a block that these places do not have all rows of.
    fn divided(&self, block: usize, places: &Range<u64>) -> Option<Permutation> {
        let (first, end) = (self.places[block], self.places[block + 1]);
        let is_divided = first < places.start || end > places.end;
        // Its key differs from those of windows.
        is_divided.then(|| Permutation::new(end - first, mix64(!self.key ^ mix64(block as u64 + 1))))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn starts(lens: &[u64]) -> Vec<u64> {
        let sums = lens.iter().scan(0, |sum, len| {
            *sum += len;
            Some(*sum)
        });
        [0].into_iter().chain(sums).collect()
    }

    fn rows(lens: &[u64], window_rows: u64, key: u64) -> Vec<u64> {
        let mut places: Vec<u64> = (0..lens.iter().sum()).collect();
        Windows::new(starts(lens), window_rows).of_epoch(key).map(&mut places);
        places
    }

    proptest! {
        #[test]
        fn each_row_comes_once_and_windows_have_rows_of_consecutive_blocks(
            lens in prop::collection::vec(0u64..40, 0..30), window_rows in 1u64..200, key: u64,
        ) {
            let got = rows(&lens, window_rows, key);
            let mut sorted = got.clone();
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq(0..lens.iter().sum()));
            let starts = starts(&lens);
            let windows = EpochWindows::new(&starts, window_rows, key);
            for (number, got) in (0..).zip(got.chunks(window_rows as usize)) {
                let blocks = windows.window(number).blocks;
                // As many rows of each block as there are places of it in the window.
                let first = number * window_rows;
                let places = first..first + got.len() as u64;
                for block in 0..lens.len() {
                    let (from, to) = (windows.places[block], windows.places[block + 1]);
                    let wanted = to.min(places.end).saturating_sub(from.max(places.start));
                    let of_block = windows.rows[block]..windows.rows[block] + (to - from);
                    let found = got.iter().filter(|row| of_block.contains(*row)).count() as u64;
                    prop_assert_eq!(found, wanted);
                    prop_assert!(wanted == 0 || blocks.contains(&block));
                }
            }
        }

        #[test]
        fn it_does_not_matter_which_places_are_asked_for_together(
            lens in prop::collection::vec(1u64..40, 1..30), window_rows in 1u64..200, cut in 0usize..400,
        ) {
            let together = rows(&lens, window_rows, 7);
            let mut places: Vec<u64> = (0..together.len() as u64).collect();
            let (first, second) = places.split_at_mut(cut.min(together.len()));
            let windows = EpochWindows::new(&starts(&lens), window_rows, 7);
            windows.map(second);
            windows.map(first);
            prop_assert_eq!(places, together);
        }
    }

    #[test]
    fn rows_and_blocks_are_in_another_order_under_another_key() {
        let lens = [50; 20];
        let of = |key: u64| rows(&lens, 200, key);
        let blocks = |rows: &[u64]| rows.iter().map(|row| row / 50).collect::<std::collections::BTreeSet<_>>();
        let (one, other) = (of(1), of(2));
        assert_ne!(blocks(&one[..200]), blocks(&other[..200]));
        assert!(one[..200].windows(2).filter(|pair| pair[1] == pair[0] + 1).count() < 10);
    }

    #[test]
    fn a_window_of_all_rows_is_one_permutation() {
        let got = rows(&[10; 10], 1000, 3);
        let far = got.iter().zip(0i64..).map(|(row, place)| (*row as i64 - place).abs()).sum::<i64>();
        assert!((2000..5000).contains(&far), "{far}");
    }

    #[test]
    fn a_window_has_rows_from_everywhere_in_a_longer_block() {
        let got = rows(&[1000], 100, 3);
        for window in got.chunks(100) {
            let hundreds: std::collections::BTreeSet<_> = window.iter().map(|row| row / 100).collect();
            assert_eq!(hundreds.len(), 10, "{hundreds:?}");
        }
    }

    #[test]
    fn a_split_belongs_to_the_window_of_its_first_row() {
        assert_eq!(WindowLayout::new(0, 5), None);
        for (window_rows, ordinal_rows) in [(12, 4), (10, 4), (4, 10), (7, 1)] {
            let layout = WindowLayout::new(window_rows, ordinal_rows).expect("windows");
            let mut before = (0, u64::MAX);
            for ordinal in 0..100 {
                let (window, index) = layout.place(ordinal);
                assert_eq!(window, ordinal * ordinal_rows / window_rows);
                assert_eq!(index, if window == before.0 { before.1.wrapping_add(1) } else { 0 });
                assert!(index < layout.splits());
                before = (window, index);
            }
        }
    }

    #[test]
    fn sizes_in_bytes_give_windows_that_many_splits_divide() {
        assert_eq!([1, 2, 7, 8, 9, 1000, 131_072, 200_000].map(aligned), [1, 2, 7, 8, 8, 896, 131_072, 196_608]);
    }
}
