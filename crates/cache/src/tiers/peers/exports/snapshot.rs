//! Rows in memory, presented as a block: peers list and read blocks, and need not know where the bytes are.
//!
//! A snapshot has the bytes that a file of these rows would have. It stores only the bytes that are not rows: the
//! header of the file, the keys and sums of the rows, and the offsets of parts of variable length. The rows are read
//! from their segments in memory; the snapshot does not keep the segments alive.
//!
//! Invariant: the bytes at an offset never change. Once a row has left memory, ranges with its bytes cannot be read.

use std::ops::Range;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::Memory;

use crate::key::{PrefixKey, RowKey};
use crate::rows::segment::Segment;
use crate::rows::table::{Place, Shape, Table};
use crate::tiers::block::format::{BlockHeader, encode, open};
use crate::tiers::block::layout::StoredColumn;
use crate::tiers::block::name::Name;
use crate::tiers::memory::accounts::{IndexRoom, MemoryTier};

/// The memory of a row in a snapshot besides its bytes: its key and its sum.
pub(crate) const ROW_BYTES: u64 = 32;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) name: Name,
    pub(crate) len: u64,
    /// The segments that it has rows of, by number.
    pub(crate) segments: Vec<u32>,
    /// All of its bytes, in order.
    pieces: Vec<Piece>,
    _room: IndexRoom,
}

/// Bytes of a snapshot that are contiguous in memory.
#[derive(Debug)]
struct Piece {
    at: u64,
    len: u64,
    bytes: PieceBytes,
}

#[derive(Debug)]
enum PieceBytes {
    /// Bytes that are not rows.
    Copied(Bytes),
    /// A part of all rows of a segment.
    Rows { segment: Weak<Segment>, part: usize },
}

impl Snapshot {
    /// Makes a snapshot of all rows of some segments, whose keys are given; returns `None` where there is no memory for
    /// it.
    ///
    /// # Errors
    /// Exhausted when a column would pass 2^31 numbers; Internal when Arrow returns an error.
    pub(crate) fn of_rows(
        header: &BlockHeader,
        shapes: &[Shape],
        keys: &[RowKey],
        segments: &[(u32, Arc<Segment>)],
        memory: &MemoryTier,
    ) -> Result<Option<Self>> {
        let tables: Vec<&Table> = segments.iter().map(|(_, segment)| &segment.table).collect();
        let rows_of = |(at, table): (u32, &&Table)| (0..table.rows() as u32).map(move |row| Place { table: at, row });
        let places: Vec<Place> = (0..).zip(&tables).flat_map(rows_of).collect();
        let table = match &tables[..] {
            [only] => (*only).clone(),
            _ => Table::gather(shapes, &tables, &places, &Memory::default()),
        };
        let encoded = encode(header, &table, keys)?;
        drop(table);
        let (_, layout) = open(&encoded[..]).map_err(|trouble| Error::internal(format!("{trouble:?}")))?;
        let mut rows = Vec::new();
        for (part, stored) in layout.parts.iter().enumerate() {
            let mut at = match stored {
                StoredColumn::Even { at, .. } | StoredColumn::Any { at, .. } => *at,
                StoredColumn::There(_) => continue,
            };
            for (_, segment) in segments {
                let len = segment.table.part(part).len() as u64;
                let bytes = PieceBytes::Rows { segment: Arc::downgrade(segment), part };
                rows.extend((len > 0).then_some(Piece { at, len, bytes }));
                at += len;
            }
        }
        rows.sort_unstable_by_key(|piece| piece.at);
        let segments = segments.iter().map(|(id, _)| *id).collect();
        Ok(Self::fitted(header.prefix, memory, &encoded, rows, segments))
    }

    /// Makes a snapshot of rows that a filter removed, of which the keys are given.
    ///
    /// # Errors
    /// As for [`Snapshot::of_rows`].
    pub(crate) fn of_filtered_out(header: &BlockHeader, keys: &[RowKey], memory: &MemoryTier) -> Result<Option<Self>> {
        let encoded = encode(header, &Table::new(Vec::new(), keys.len()), keys)?;
        Ok(Self::fitted(header.prefix, memory, &encoded, Vec::new(), Vec::new()))
    }

    /// Copies the bytes between the rows.
    fn fitted(
        prefix: PrefixKey,
        memory: &MemoryTier,
        encoded: &[u8],
        rows: Vec<Piece>,
        segments: Vec<u32>,
    ) -> Option<Self> {
        let (mut pieces, mut held, mut end) = (Vec::with_capacity(rows.len() * 2 + 1), 0, 0);
        let mut hold = |pieces: &mut Vec<Piece>, range: Range<u64>| {
            let len = range.end - range.start;
            let bytes = || Bytes::copy_from_slice(&encoded[range.start as usize..range.end as usize]);
            pieces.extend((len > 0).then(|| Piece { at: range.start, len, bytes: PieceBytes::Copied(bytes()) }));
            held += len;
        };
        for piece in rows {
            hold(&mut pieces, end..piece.at);
            end = piece.at + piece.len;
            pieces.push(piece);
        }
        let len = encoded.len() as u64;
        hold(&mut pieces, end..len);
        let room = memory.index_room(held + (pieces.len() * size_of::<Piece>()) as u64)?;
        Some(Self { name: Name::new_of(prefix), len, segments, pieces, _room: room })
    }

    /// Reads a part of it. `passes` are the passes over its prefix: rows that a peer reads count as used.
    ///
    /// # Errors
    /// NotFound where rows of the part have left memory; Data where it ends before the part.
    pub(crate) fn read(&self, range: &Range<u64>, passes: f64) -> Result<Bytes> {
        if range.end > self.len || range.start > range.end {
            return Err(Error::data(format!("the block ends before {range:?}")));
        }
        let mut read = Vec::with_capacity((range.end - range.start) as usize);
        let first = self.pieces.partition_point(|piece| piece.at + piece.len <= range.start);
        for Piece { at, len, bytes } in self.pieces[first..].iter().take_while(|piece| piece.at < range.end) {
            let part = (range.start.max(*at) - at) as usize..(range.end.min(at + len) - at) as usize;
            match bytes {
                PieceBytes::Copied(bytes) => read.extend_from_slice(&bytes[part]),
                PieceBytes::Rows { segment, part: number } => {
                    let left = || Error::new(ErrorKind::NotFound, "rows of it have left memory");
                    let segment = segment.upgrade().ok_or_else(left)?;
                    segment.last_hit.set(passes);
                    read.extend_from_slice(&segment.table.part(*number)[part]);
                }
            }
        }
        Ok(read.into())
    }
}
