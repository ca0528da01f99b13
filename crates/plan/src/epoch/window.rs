//! The two-level shuffle, for sources whose rows are decoded in blocks. A permutation of the epoch orders the blocks.
//! Consecutive blocks in that order form a window until it is full. A second permutation orders the rows of each
//! window.
//!
//! Source: CorgiPile (Xu et al., "In-Database Machine Learning with CorgiPile", SIGMOD 2022), which shows that it
//! trains like a full shuffle if a window holds many blocks. Invariants: the result is a permutation of all rows; each
//! block belongs to one window of an epoch; the result depends only on the lengths of the blocks, the rows of a window
//! and a key.

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
/// The bytes of a window, as stored, of a streamed source: the first batch needs a whole window.
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
            ShuffleWindow::Bytes(bytes) => (bytes / row_bytes).max(1),
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
        (WINDOW_BYTES / sharers / row_bytes).max(1)
    }
}

/// Epochs whose windows are kept: around the end of an epoch, threads need those of two.
const EPOCHS_MAX: usize = 2;

/// The windows of a source's epochs.
#[derive(Debug)]
pub(crate) struct Windows {
    /// The first row of each block, and the number of rows.
    starts: Vec<u64>,
    rows_max: u64,
    made: Mutex<Vec<Arc<EpochWindows>>>,
}

impl Windows {
    /// Plans windows of at most `rows_max` rows. A block with more rows is a window by itself.
    pub(crate) fn new(starts: Vec<u64>, rows_max: u64) -> Self {
        Self { starts, rows_max, made: Mutex::default() }
    }

    /// Returns the windows of the epoch that `key` names.
    pub(crate) fn of_epoch(&self, key: u64) -> Arc<EpochWindows> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = made.iter().position(|windows| windows.key == key) {
            return made[place].clone();
        }
        let windows = Arc::new(EpochWindows::new(&self.starts, self.rows_max, key));
        made.truncate(EPOCHS_MAX - 1);
        made.insert(0, windows.clone());
        windows
    }
}

/// The windows of one epoch.
#[derive(Debug)]
pub(crate) struct EpochWindows {
    key: u64,
    /// For each block in the epoch's order, the place of its first row; and the number of rows.
    places: Vec<u64>,
    /// For each block in the epoch's order, its first row in the source.
    rows: Vec<u64>,
    /// For each window, its first block in the epoch's order; and the number of blocks.
    firsts: Vec<usize>,
}

/// A window and the permutation of its rows.
struct Window {
    places: Range<u64>,
    blocks: Range<usize>,
    permutation: Permutation,
}

impl EpochWindows {
    fn new(starts: &[u64], rows_max: u64, key: u64) -> Self {
        let count = starts.len().saturating_sub(1);
        let mut order: Vec<u64> = (0..count as u64).collect();
        Permutation::new(count as u64, key).map(&mut order);
        let (mut places, mut rows, mut firsts) = (vec![0], Vec::with_capacity(count), vec![0]);
        let (mut place, mut window) = (0, 0);
        for (i, block) in order.into_iter().map(|block| block as usize).enumerate() {
            let len = starts[block + 1] - starts[block];
            if window > 0 && window + len > rows_max {
                firsts.push(i);
                window = 0;
            }
            (place, window) = (place + len, window + len);
            rows.push(starts[block]);
            places.push(place);
        }
        firsts.push(count);
        Self { key, places, rows, firsts }
    }

    /// Replaces each place of the epoch by the row that comes there. Places must be below the number of rows.
    pub(crate) fn map(&self, places: &mut [u64]) {
        let mut rest = places;
        while let Some(&place) = rest.first() {
            let window = self.window(place);
            let end = rest.iter().position(|p| !window.places.contains(p)).unwrap_or(rest.len());
            let (run, after) = rest.split_at_mut(end.max(1));
            rest = after;
            run.iter_mut().for_each(|p| *p -= window.places.start);
            window.permutation.map(run);
            let of_blocks = &self.places[window.blocks.clone()];
            for p in run {
                let inside = *p + window.places.start;
                let block = window.blocks.start + of_blocks.partition_point(|first| *first <= inside).saturating_sub(1);
                *p = self.rows[block] + (inside - self.places[block]);
            }
        }
    }

    fn window(&self, place: u64) -> Window {
        let block = self.places.partition_point(|first| *first <= place).saturating_sub(1);
        let number = self.firsts.partition_point(|first| *first <= block).saturating_sub(1);
        let blocks = self.firsts[number]..self.firsts[number + 1];
        let places = self.places[blocks.start]..self.places[blocks.end];
        let permutation = Permutation::new(places.end - places.start, mix64(self.key ^ mix64(number as u64 + 1)));
        Window { places, blocks, permutation }
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

    fn rows(lens: &[u64], rows_max: u64, key: u64) -> Vec<u64> {
        let mut places: Vec<u64> = (0..lens.iter().sum()).collect();
        Windows::new(starts(lens), rows_max).of_epoch(key).map(&mut places);
        places
    }

    proptest! {
        #[test]
        fn each_row_comes_once_and_each_block_in_one_window(
            lens in prop::collection::vec(0u64..40, 0..30), rows_max in 1u64..200, key: u64,
        ) {
            let got = rows(&lens, rows_max, key);
            let mut sorted = got.clone();
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq(0..lens.iter().sum()));
            let starts = starts(&lens);
            let windows = EpochWindows::new(&starts, rows_max, key);
            let mut seen = std::collections::BTreeMap::new();
            for (place, row) in (0..).zip(&got) {
                let window = windows.window(place);
                let block = starts.partition_point(|start| start <= row) - 1;
                prop_assert_eq!(*seen.entry(block).or_insert(window.places.start), window.places.start);
                let len = window.places.end - window.places.start;
                let blocks = window.blocks.filter(|b| windows.places[b + 1] > windows.places[*b]).count();
                prop_assert!(len <= rows_max || blocks == 1);
            }
        }

        #[test]
        fn it_does_not_matter_which_places_are_asked_for_together(
            lens in prop::collection::vec(1u64..40, 1..30), rows_max in 1u64..200, cut in 0usize..400,
        ) {
            let together = rows(&lens, rows_max, 7);
            let mut places: Vec<u64> = (0..together.len() as u64).collect();
            let (first, second) = places.split_at_mut(cut.min(together.len()));
            let windows = EpochWindows::new(&starts(&lens), rows_max, 7);
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
}
