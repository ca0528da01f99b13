//! A shuffle in two levels, for rows that are read in blocks: the blocks come in a random order of the epoch, and rows are permuted
//! within windows of whole blocks. Each block is read for one window of an epoch alone.
//!
//! It trains as a shuffle of all rows does while a window holds many blocks: CorgiPile (Xu et al., "In-Database Machine Learning with
//! CorgiPile", SIGMOD 2022). Invariants: it is a permutation; it depends on the lengths of the blocks, the rows of a window and a key alone.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_core::{Error, Result, rng::mix64};
use serde::{Deserialize, Serialize};

use crate::op::Op;
use crate::permute::Permutation;
use crate::source::Source;
use crate::stages::Step;

/// Over how many rows a shuffle permutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShuffleWindow {
    /// Over all, or over a window where a row cannot be read by itself cheaply: what the source and its sizes say.
    #[default]
    Auto,
    /// Over all.
    Global,
    /// Over so many.
    Rows(u64),
    /// Over as many as take so many bytes.
    Bytes(u64),
}

impl ShuffleWindow {
    pub(crate) fn is_auto(&self) -> bool {
        *self == ShuffleWindow::Auto
    }

    pub(crate) fn describe(self) -> String {
        match self {
            ShuffleWindow::Auto => String::new(),
            ShuffleWindow::Global => "window=None".to_owned(),
            ShuffleWindow::Rows(rows) => format!("window={rows}"),
            ShuffleWindow::Bytes(bytes) => format!("window=\"{bytes}B\""),
        }
    }
}

/// What a source that is decoded in blocks may take in memory, decoded, before a shuffle is over a window.
const GLOBAL_BYTES_MAX: u64 = 512 << 20;
/// What such a window takes.
const WINDOW_BYTES: u64 = 256 << 20;

/// Returns the rows of a window of a pipeline's first shuffle, over a source of `rows` rows of about `row_bytes` bytes in memory; 0 where it
/// permutes all at once.
///
/// # Errors
/// Invalid when a window is asked for where blocks are no longer in one piece.
pub(crate) fn rows(order: &[Step], source: &Source, rows: u64, row_bytes: u64) -> Result<u64> {
    let (mut resolved, mut before) = (None, None);
    for Step { node, .. } in order {
        let window = match &node.op {
            Op::Shuffle { window } => *window,
            Op::Repeat { .. } => {
                before = before.or(Some(node.op.name()));
                continue;
            }
            _ => continue,
        };
        let wanted = match window {
            ShuffleWindow::Global => 0,
            ShuffleWindow::Rows(rows) => rows,
            ShuffleWindow::Bytes(bytes) => (bytes / row_bytes).max(1),
            ShuffleWindow::Auto if before.is_some() => 0,
            ShuffleWindow::Auto => automatic(source, rows, row_bytes),
        };
        if let Some(before) = before.filter(|_| wanted > 0) {
            let message = format!("a window is of the source's blocks, and {before} comes before this shuffle");
            return Err(node.blame(Error::invalid(message).hint("shuffle first, or leave window out")));
        }
        resolved = resolved.or(Some(wanted));
        before = before.or(Some(node.op.name()));
    }
    // A window of all is no window.
    Ok(resolved.filter(|window| *window < rows).unwrap_or(0))
}

/// What a shuffle does that says nothing of its window. Rows of a group are decoded together, so a shuffle over more groups than are
/// kept decoded would decode one for each row.
fn automatic(source: &Source, rows: u64, row_bytes: u64) -> u64 {
    let is_grouped = matches!(source, Source::Parquet { .. } | Source::Arrow { .. });
    if !is_grouped || rows.saturating_mul(row_bytes) <= GLOBAL_BYTES_MAX {
        0
    } else {
        (WINDOW_BYTES / row_bytes).max(1)
    }
}

/// Epochs whose order of blocks is kept: neighbours, where one ends and the next begins.
const EPOCHS_MAX: usize = 2;

/// The windows of a source's epochs.
#[derive(Debug)]
pub(crate) struct Windows {
    /// Where each block begins, and where the last ends.
    starts: Vec<u64>,
    rows_max: u64,
    made: Mutex<Vec<Arc<EpochWindows>>>,
}

impl Windows {
    /// Makes windows of at most `rows_max` rows, or of one block that has more.
    pub(crate) fn new(starts: Vec<u64>, rows_max: u64) -> Self {
        Self { starts, rows_max, made: Mutex::default() }
    }

    /// Returns those of an epoch, which `key` names.
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
    /// In the epoch's order: the place of each block's first row, and how many rows there are.
    places: Vec<u64>,
    /// In the same order: each block's first row.
    rows: Vec<u64>,
    /// The first block of each window in that order, and the number of blocks.
    firsts: Vec<usize>,
}

/// A window, and how its rows are permuted.
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

    /// Replaces each of these places by the row that comes there. Places must be below the number of rows.
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
