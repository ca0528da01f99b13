//! The two-level shuffle of sources whose rows are not counted: which bytes of which files make a window.
//!
//! A **block** is a file, or a part of a large file that can be read from the middle. A permutation of the epoch
//! assigns the blocks to **lanes**; each lane is read from front to back. A lane is divided into **pieces**: the rows
//! whose position is in a range of a block's bytes. A window takes the next pieces of each lane of its group, and a
//! permutation orders its rows. All of this depends only on the sizes of the files, the bytes of a window and a key, so
//! the first batch needs no count of rows.
//!
//! Each group has its own lanes, so several processes can read windows in parallel, each from files of its own, from
//! front to back.
//! Invariants: each byte of each file is in one piece of one window of an epoch; all epochs have the same number of
//! windows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_core::rng::mix64;

use crate::epoch::permute::Permutation;

/// The most lanes of a group: files that are read side by side.
const LANES_MAX: u64 = 40;
/// A further group needs this many blocks, so that its lanes have several each.
const GROUP_BLOCKS: u64 = 64;
/// The most groups: a process that reads all of them keeps a connection to each file that it reads.
const GROUPS_MAX: u64 = 4;
/// A divisible file larger than 1/`BLOCKS_WANTED` of the source is divided into equal blocks. So a few large files fill
/// as many lanes as many small ones, and a block is long enough for one request.
const BLOCKS_WANTED: u64 = 40;
const BLOCK_BYTES_MIN: u64 = 8 << 20;
/// Pieces of each lane in a window. The first windows of a group have 1 and 2, so that the first batch needs a quarter
/// of a window.
const PIECES: u64 = 4;
/// The windows before the first full one, and their pieces of a lane.
const WINDOWS_BEFORE: u64 = 2;
const PIECES_BEFORE: u64 = 3;
/// The smallest piece.
const PIECE_BYTES_MIN: u64 = 512;

/// The layout of the windows of a source. The same on every machine, in every epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The most bytes of a block; `None` if each file is one block.
    block_bytes: Option<u64>,
    piece_bytes: u64,
    groups: u64,
    lanes: u64,
    /// The windows of each group.
    windows: u64,
}

impl Layout {
    /// Lays out a source of `files` files and `bytes` bytes in windows of `window_bytes`. `divides` says whether files
    /// can be read from the middle.
    pub fn new(files: u64, bytes: u64, window_bytes: u64, divides: bool) -> Self {
        let block_bytes = divides.then(|| bytes.div_ceil(BLOCKS_WANTED).max(BLOCK_BYTES_MIN));
        let blocks = files.saturating_add(block_bytes.map_or(0, |size| bytes / size)).max(1);
        let groups = (blocks / GROUP_BLOCKS).clamp(1, GROUPS_MAX);
        let rounds = blocks.div_ceil(groups * LANES_MAX);
        let lanes = blocks.div_ceil(groups * rounds);
        let piece_bytes = (window_bytes / lanes / PIECES).max(PIECE_BYTES_MIN);
        // An upper bound: each block ends in a piece that is not full.
        let pieces = (bytes / piece_bytes).saturating_add(blocks).div_ceil(groups * lanes);
        let windows = WINDOWS_BEFORE + pieces.saturating_sub(PIECES_BEFORE).div_ceil(PIECES);
        Self { block_bytes, piece_bytes, groups, lanes, windows }
    }

    /// Returns the number of windows of an epoch.
    pub fn windows(&self) -> u64 {
        self.groups * self.windows
    }

    /// Returns how many pieces of a full lane are in the first `windows` windows.
    fn pieces_before(windows: u64) -> u64 {
        match windows {
            0..=WINDOWS_BEFORE => (1 << windows) - 1,
            _ => PIECES_BEFORE + (windows - WINDOWS_BEFORE) * PIECES,
        }
    }

    /// Returns how many files are read side by side for a window.
    pub fn lanes(&self) -> u64 {
        self.lanes
    }

    /// Returns how many groups of lanes are read independently.
    pub fn groups(&self) -> u64 {
        self.groups
    }

    /// Returns the group of a window, and which of its windows it is.
    fn place(&self, window: u64) -> (u64, u64) {
        (window % self.groups, window / self.groups)
    }

    /// Returns the blocks of files of these sizes: file and range.
    fn blocks(&self, sizes: &[u64]) -> Vec<Block> {
        let cut = |(file, &size): (usize, &u64)| {
            let count = size.div_ceil(self.block_bytes.unwrap_or(u64::MAX));
            let bound = move |i: u64| (u128::from(size) * u128::from(i) / u128::from(count)) as u64;
            (0..count).map(move |i| Block { file, start: bound(i), end: bound(i + 1) })
        };
        sizes.iter().enumerate().flat_map(cut).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    file: usize,
    start: u64,
    end: u64,
}

/// The rows whose position is in a range of a file's bytes. The position is that of the first byte, or the format's
/// equivalent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its lane, within the group.
    pub lane: usize,
    /// The file, by its number in the index.
    pub file: usize,
    /// The end of its block, after which the lane continues in another one.
    pub block_end: u64,
    /// The range of positions of its rows.
    pub bytes: Range<u64>,
}

/// The blocks that a lane reads, one after another.
#[derive(Debug, Clone, Default)]
struct Lane {
    blocks: Vec<Block>,
    /// The number of the first piece of each block, and the number of all pieces.
    firsts: Vec<u64>,
}

/// The lanes of one epoch.
#[derive(Debug)]
pub struct EpochLanes {
    layout: Layout,
    key: u64,
    lanes: Vec<Lane>,
}

impl EpochLanes {
    /// Assigns the blocks of files of these sizes to lanes.
    pub fn new(layout: Layout, sizes: &[u64], key: u64) -> Self {
        let blocks = layout.blocks(sizes);
        let mut order: Vec<u64> = (0..blocks.len() as u64).collect();
        Permutation::new(order.len() as u64, key).map(&mut order);
        let mut lanes = vec![Lane::default(); (layout.groups * layout.lanes) as usize];
        // The next block goes to the shortest lane, so that lanes are about equally long.
        let mut shortest: BinaryHeap<_> = (0..lanes.len()).map(|lane| Reverse((0, lane))).collect();
        for block in order.into_iter().map(|i| blocks[i as usize]) {
            let Some(Reverse((pieces, at))) = shortest.pop() else { break };
            lanes[at].firsts.push(pieces);
            lanes[at].blocks.push(block);
            shortest.push(Reverse((pieces + (block.end - block.start).div_ceil(layout.piece_bytes), at)));
        }
        for Reverse((pieces, at)) in shortest {
            lanes[at].firsts.push(pieces);
        }
        Self { layout, key, lanes }
    }

    /// Says whether files are read from the middle.
    pub fn divides_files(&self) -> bool {
        self.layout.block_bytes.is_some()
    }

    /// Returns the key that names the epoch's order.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Returns the group of a window, and which of its windows it is.
    pub fn place(&self, window: u64) -> (u64, u64) {
        self.layout.place(window)
    }

    /// Returns the bytes of a lane in a full window.
    pub fn share_bytes(&self) -> u64 {
        self.layout.piece_bytes * PIECES
    }

    /// Returns the pieces of window `index` of a group, by lane; pieces of one block that follow each other are one.
    pub fn pieces(&self, group: u64, index: u64) -> Vec<Piece> {
        let count = self.layout.lanes as usize;
        let first = group as usize * count;
        let lanes = self.lanes.iter().skip(first).take(count).enumerate();
        lanes.flat_map(|(lane, of)| self.of_lane(lane, of, index)).collect()
    }

    /// Returns the pieces of one lane, spread evenly over the windows, so that the last windows hold as many lanes as
    /// the first.
    fn of_lane(&self, lane: usize, of: &Lane, index: u64) -> Vec<Piece> {
        let all = of.firsts.last().copied().unwrap_or(0);
        let windows = self.layout.windows;
        let total = u128::from(Layout::pieces_before(windows));
        let cut = |index: u64| (u128::from(all) * u128::from(Layout::pieces_before(index.min(windows))) / total) as u64;
        let (mut next, end) = (cut(index), cut(index + 1));
        let mut pieces = Vec::new();
        while next < end {
            let at = of.firsts.partition_point(|first| *first <= next) - 1;
            let block = of.blocks[at];
            let upto = end.min(of.firsts[at + 1]);
            let byte = |piece: u64| (block.start + (piece - of.firsts[at]) * self.layout.piece_bytes).min(block.end);
            let bytes = byte(next)..byte(upto);
            pieces.push(Piece { lane, file: block.file, block_end: block.end, bytes });
            next = upto;
        }
        pieces
    }

    /// Returns the permutation of a window's rows.
    pub fn permutation(&self, window: u64, rows: u64) -> Permutation {
        Permutation::new(rows, mix64(self.key ^ mix64(window + 1)))
    }
}

/// Epochs whose lanes are kept: around the end of an epoch, threads need those of two.
const EPOCHS_MAX: usize = 2;

/// The lanes of a source's epochs.
#[derive(Debug)]
pub(crate) struct Lanes {
    layout: Layout,
    sizes: Vec<u64>,
    made: Mutex<Vec<Arc<EpochLanes>>>,
}

impl Lanes {
    pub(crate) fn new(layout: Layout, sizes: Vec<u64>) -> Self {
        Self { layout, sizes, made: Mutex::default() }
    }

    /// Returns the lanes of the epoch that `key` names.
    pub(crate) fn of_epoch(&self, key: u64) -> Arc<EpochLanes> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = made.iter().position(|lanes| lanes.key == key) {
            return made[place].clone();
        }
        let lanes = Arc::new(EpochLanes::new(self.layout, &self.sizes, key));
        made.truncate(EPOCHS_MAX - 1);
        made.insert(0, lanes.clone());
        lanes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn windows(sizes: &[u64], window_bytes: u64, divides: bool, key: u64) -> (Layout, Vec<Vec<Piece>>) {
        let layout = Layout::new(sizes.len() as u64, sizes.iter().sum(), window_bytes, divides);
        let lanes = EpochLanes::new(layout, sizes, key);
        let of = |window| {
            let (group, index) = lanes.place(window);
            lanes.pieces(group, index)
        };
        (layout, (0..layout.windows()).map(of).collect())
    }

    proptest! {
        /// For any sizes: no byte is lost or read twice, a lane is read forward, and windows are not much larger than
        /// requested.
        #[test]
        fn each_byte_is_in_one_piece_and_lanes_go_forward(
            sizes in prop::collection::vec(prop_oneof![0u64..3000, 1u64 << 16..1 << 22], 0..300),
            window_bytes in prop_oneof![1u64..5000, 1u64 << 16..1 << 24], divides: bool, key: u64,
        ) {
            let (layout, windows) = windows(&sizes, window_bytes, divides, key);
            let mut read: Vec<Vec<Range<u64>>> = vec![Vec::new(); sizes.len()];
            for window in &windows {
                prop_assert!(window.len() as u64 <= layout.lanes * 10 + sizes.len() as u64);
                for piece in window {
                    read[piece.file].push(piece.bytes.clone());
                    prop_assert!(piece.bytes.start < piece.bytes.end && piece.bytes.end <= piece.block_end);
                }
            }
            for (ranges, size) in read.iter_mut().zip(&sizes) {
                if !divides {
                    prop_assert!(ranges.is_sorted_by_key(|range| range.start), "a file is read from front to back");
                }
                ranges.sort_by_key(|range| range.start);
                let end = ranges.iter().try_fold(0, |end, range| (range.start == end).then_some(range.end));
                prop_assert_eq!(end, Some(*size));
            }
        }
    }

    #[test]
    fn every_window_takes_of_every_lane_when_files_are_alike() {
        let (layout, windows) = windows(&[100 << 20; 100], 32 << 20, false, 7);
        assert_eq!((layout.groups(), layout.lanes()), (1, 34));
        let bytes = |window: &[Piece]| window.iter().map(|piece| piece.bytes.end - piece.bytes.start).sum::<u64>();
        assert!(bytes(&windows[0]) <= 10 << 20, "{}", bytes(&windows[0]));
        for window in &windows[2..] {
            let lanes: std::collections::BTreeSet<_> = window.iter().map(|piece| piece.lane).collect();
            let bytes = bytes(window);
            assert!(lanes.len() > 30 && bytes <= 40 << 20, "{} lanes, {bytes} bytes", lanes.len());
        }
    }

    #[test]
    fn blocks_come_in_another_order_under_another_key() {
        let first =
            |key| windows(&[100 << 20; 100], 64 << 20, false, key).1[0].iter().map(|p| p.file).collect::<Vec<_>>();
        assert_ne!(first(1), first(2));
    }

    /// A million shards of 1 GB.
    #[test]
    fn sources_of_any_size_are_laid_out() {
        let layout = Layout::new(1_000_000, 1_000_000 << 30, 64 << 20, false);
        assert_eq!(layout.groups(), GROUPS_MAX);
        let sizes = vec![1 << 30; 1_000_000];
        let lanes = EpochLanes::new(layout, &sizes, 1);
        let last = lanes.place(layout.windows() - 1);
        assert_eq!(last, (layout.groups() - 1, layout.windows - 1));
        assert!(!lanes.pieces(last.0, last.1).is_empty());
    }
}
