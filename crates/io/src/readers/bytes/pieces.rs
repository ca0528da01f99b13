//! Reads many pieces of many files straight into the buffers of columns.
//!
//! Pieces that lie close together in a file are read with one call. Large pieces of a local file are read into their
//! place without a copy; the ranges of a remote object are requested together.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result};

use super::piece::Piece;
use super::pool::Pool;
use crate::readers::unpacked;
use crate::store::Object;

/// The rule for reading pieces together.
struct Joining {
    /// Only pieces up to this length, because larger ones are read in place.
    piece_max: usize,
    gap_max: u64,
    span_max: u64,
}

const LOCAL: Joining = Joining { piece_max: 32 << 10, gap_max: 4 << 10, span_max: 1 << 20 };
const REMOTE: Joining = Joining { piece_max: usize::MAX, gap_max: 64 << 10, span_max: 8 << 20 };
/// The most bytes of the rows that are read together.
const BUFFER_BYTES_MAX: usize = 64 << 30;
/// Requests of one gather that are in flight together.
const REQUESTS_MAX: usize = 16;

/// Fills `buffers` from the files of `pool`.
pub(in crate::readers) fn read(pool: &Pool, pieces: Vec<Piece>, buffers: &mut [Vec<u8>]) -> Result<()> {
    let is_packed = |piece: &Piece| pool.index.inner().points_of(piece.file).is_some();
    let (packed, pieces): (Vec<_>, Vec<_>) = pieces.into_iter().partition(is_packed);
    unpacked::read(pool, packed, buffers)?;
    let mut last = None;
    let filled = fill(pool, pieces, buffers, &mut last);
    // The read may have failed because the file changed.
    last.map_or(Ok(()), |(_, object)| object.check_pinned())?;
    filled
}

/// Fills `buffers`. Each file is checked again once all of its rows are read, except the `last`, which the caller
/// checks.
fn fill(
    pool: &Pool,
    mut pieces: Vec<Piece>,
    buffers: &mut [Vec<u8>],
    last: &mut Option<(usize, Arc<Object>)>,
) -> Result<()> {
    pieces.retain(|p| p.len > 0);
    pieces.sort_unstable_by_key(|p| (p.file, p.offset));
    let mut waiting: VecDeque<(&[Piece], crate::store::Pending)> = VecDeque::new();
    let mut scratch = Vec::new();
    let mut rest = pieces.as_slice();
    while let Some(first) = rest.first() {
        let open = match &*last {
            Some((file, open)) if *file == first.file => open.clone(),
            before => {
                before.as_ref().map_or(Ok(()), |(_, object)| object.check_pinned())?;
                last.insert((first.file, pool.get(first.file)?)).1.clone()
            }
        };
        let (group, end) = group(rest, if open.is_remote() { &REMOTE } else { &LOCAL });
        rest = &rest[group.len()..];
        let len = (end - first.offset) as usize;
        open.check_range(first.offset, len as u64)?;
        if let Some(pending) = open.request(first.offset, len) {
            if waiting.len() == REQUESTS_MAX {
                land(&mut waiting, &mut scratch, buffers)?;
            }
            waiting.push_back((group, pending));
        } else if let [one] = group {
            open.read_part(one.offset, &mut buffers[one.buffer][one.at..one.at + one.len])?;
        } else {
            scratch.resize(len, 0);
            open.read_part(first.offset, &mut scratch)?;
            scatter(group, &scratch, buffers);
        }
    }
    while !waiting.is_empty() {
        land(&mut waiting, &mut scratch, buffers)?;
    }
    Ok(())
}

/// Splits off the first pieces that are read together, and returns their end.
fn group<'p>(pieces: &'p [Piece], rule: &Joining) -> (&'p [Piece], u64) {
    let first = pieces[0];
    let mut end = first.offset.saturating_add(first.len as u64);
    let mut count = 1;
    if first.len <= rule.piece_max {
        for piece in &pieces[1..] {
            let next = piece.offset.saturating_add(piece.len as u64).max(end);
            let near = piece.file == first.file
                && piece.len <= rule.piece_max
                && piece.offset <= end.saturating_add(rule.gap_max);
            if !near || next - first.offset > rule.span_max {
                break;
            }
            (end, count) = (next, count + 1);
        }
    }
    (&pieces[..count], end)
}

/// Waits for the ranges that were requested first. A range of a single piece is written to its place without a copy.
fn land(
    waiting: &mut VecDeque<(&[Piece], crate::store::Pending)>,
    scratch: &mut Vec<u8>,
    buffers: &mut [Vec<u8>],
) -> Result<()> {
    let Some((group, pending)) = waiting.pop_front() else { return Ok(()) };
    if let [one] = group {
        return pending.fill(&mut buffers[one.buffer][one.at..one.at + one.len]);
    }
    let end = group.iter().map(|piece| piece.offset + piece.len as u64).max().unwrap_or_default();
    scratch.resize((end - group[0].offset) as usize, 0);
    pending.fill(scratch)?;
    scatter(group, scratch, buffers);
    Ok(())
}

fn scatter(group: &[Piece], bytes: &[u8], buffers: &mut [Vec<u8>]) {
    let start = group[0].offset;
    for piece in group {
        let from = (piece.offset - start) as usize;
        buffers[piece.buffer][piece.at..piece.at + piece.len].copy_from_slice(&bytes[from..from + piece.len]);
    }
}

/// Lays out byte strings of known lengths one after another in a buffer.
pub(in crate::readers) struct Layout {
    pub(in crate::readers) offsets: Vec<i64>,
    end: usize,
}

impl Layout {
    pub(in crate::readers) fn new(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { offsets, end: 0 }
    }

    /// Reserves `len` bytes, and returns where they begin.
    pub(in crate::readers) fn push(&mut self, len: usize) -> usize {
        let at = self.end;
        self.end = self.end.saturating_add(len);
        self.offsets.push(self.end as i64);
        at
    }

    /// Returns the buffer that holds them all, with zeros that cost nothing until they are written.
    ///
    /// # Errors
    /// Exhausted when it would be larger than the limit of a chunk.
    pub(in crate::readers) fn buffer(&self) -> Result<Vec<u8>> {
        if self.end > BUFFER_BYTES_MAX {
            let (rows, bytes) = (self.offsets.len() - 1, self.end);
            return Err(Error::new(ErrorKind::Exhausted, format!("{rows} rows of {bytes} bytes are too much at once")));
        }
        Ok(vec![0; self.end])
    }
}
