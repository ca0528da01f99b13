//! Rows of compressed files, by place: cut from blocks that were decompressed on the way to them.
//!
//! Decoding begins at the access point before a row. Between two points it continues where it stopped, so that rows in
//! order cost each byte once, for any number of threads. A file without points is one such stretch from its start.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_core::{Error, Result};

use super::bytes::lru::Lru;
use super::bytes::piece::Piece;
use super::bytes::pool::Pool;
use crate::fail;
use crate::store::decoded::{Decoded, Points};

/// The bytes of a block; the last one before a point, or of a file, may have fewer.
const BLOCK: u64 = 256 << 10;
/// The idle decoders between two blocks. Each takes up to 2 MiB and the window of its codec: 128 MiB for zstd at most.
const RESTING_MAX: usize = 8;
/// Threads that need the same stretch wait for each other. The number of locks is limited, so some others also wait.
const LOCKS: usize = 64;

/// A block of a file's decompressed content.
#[derive(Debug, Clone)]
struct Block {
    file: usize,
    start: u64,
    bytes: Arc<[u8]>,
}

/// An idle decoder between two blocks.
#[derive(Debug)]
struct Resting {
    file: usize,
    /// The access point from which it started.
    point: u64,
    /// Where the next block begins.
    next: u64,
    decoded: Decoded,
}

/// The most recently decompressed blocks.
#[derive(Debug)]
pub(super) struct Unpacked {
    blocks: Mutex<Lru<Block, (usize, u64)>>,
    /// In order of use, the most recent last.
    resting: Mutex<Vec<Resting>>,
    stretches: Box<[Mutex<()>]>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fills `buffers` from compressed files.
pub(super) fn read(pool: &Pool, mut pieces: Vec<Piece>, buffers: &mut [Vec<u8>]) -> Result<()> {
    pieces.retain(|piece| piece.len > 0);
    pieces.sort_unstable_by_key(|piece| (piece.file, piece.offset));
    let mut block: Option<Block> = None;
    for piece in pieces {
        let mut to = &mut buffers[piece.buffer][piece.at..piece.at + piece.len];
        let mut offset = piece.offset;
        while !to.is_empty() {
            let has = |b: &Block| {
                b.file == piece.file && offset.checked_sub(b.start).is_some_and(|at| at < b.bytes.len() as u64)
            };
            let from = match block.take().filter(has) {
                Some(block) => block,
                None => pool.unpacked.block(pool, piece.file, offset)?,
            };
            let bytes = &from.bytes[(offset - from.start) as usize..];
            let (now, later) = to.split_at_mut(bytes.len().min(to.len()));
            now.copy_from_slice(&bytes[..now.len()]);
            offset += now.len() as u64;
            to = later;
            block = Some(from);
        }
    }
    Ok(())
}

impl Unpacked {
    /// Keeps `bytes_max` bytes of blocks.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            blocks: Mutex::new(Lru::new(bytes_max)),
            resting: Mutex::default(),
            stretches: (0..LOCKS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Returns the block that holds a byte.
    fn block(&self, pool: &Pool, file: usize, offset: u64) -> Result<Block> {
        let Some(points) = pool.index.inner().points_of(file) else {
            return Err(Error::internal("the index has no points of a compressed file"));
        };
        let (point, end) = points.before(offset);
        let (point, end) = (point.output, end.unwrap_or(points.size));
        let start = point + (offset - point) / BLOCK * BLOCK;
        if let Some(block) = lock(&self.blocks).get((file, start)) {
            return Ok(block);
        }
        let _alone = lock(&self.stretches[(file * 31 + (point / BLOCK) as usize) % LOCKS]);
        if let Some(block) = lock(&self.blocks).get((file, start)) {
            return Ok(block);
        }
        let mut resting = self.wake(pool, file, points, point, start)?;
        loop {
            let block = resting.block(end.min(resting.next + BLOCK))?;
            lock(&self.blocks).put((file, block.start), block.bytes.len(), block.clone());
            if block.start == start {
                if resting.next < end {
                    self.rest(resting);
                }
                return Ok(block);
            }
        }
    }

    /// Takes the nearest decoder before a block, or starts one at the point.
    fn wake(&self, pool: &Pool, file: usize, points: &Arc<Points>, point: u64, start: u64) -> Result<Resting> {
        let mut all = lock(&self.resting);
        let before = |r: &Resting| r.file == file && r.point == point && r.next <= start;
        let found = (0..all.len()).filter(|&i| before(&all[i])).max_by_key(|&i| all[i].next);
        if let Some(found) = found {
            return Ok(all.remove(found));
        }
        drop(all);
        let decoded = Decoded::with_points(pool.get(file)?, points.clone());
        Ok(Resting { file, point, next: point, decoded })
    }

    fn rest(&self, resting: Resting) {
        let mut all = lock(&self.resting);
        all.push(resting);
        if all.len() > RESTING_MAX {
            all.remove(0);
        }
    }
}

impl Resting {
    /// Decodes the next block.
    fn block(&mut self, end: u64) -> Result<Block> {
        let (start, len) = (self.next, (end - self.next) as usize);
        let bytes = self.decoded.at(start, len)?;
        if bytes.is_empty() || bytes.len() < len {
            let uri = self.decoded.uri();
            return Err(fail::truncated(&uri, "a compressed file holds less than when it was counted")
                .with("fault", "file")
                .with("offset", start));
        }
        let bytes = bytes.into();
        self.next = end;
        Ok(Block { file: self.file, start, bytes })
    }
}
