//! The head of a chunk's message: the position of the chunk, where its columns are, and its checksum.
//!
//! A message is one Arrow record batch. Its `app_metadata` is this head, which other Arrow clients do not need:
//!
//! ```text
//! bytes 0..8   the chunk's index in its split
//! bytes 8..12  CRC32C of the data header, the data body, and the bytes from 13 on
//! byte  12     bit 0: more parts of the same chunk follow; bit 1: some columns are in shared memory;
//!              bit 2: some columns follow the message; bit 3: rows were skipped; bit 4: spans of a trace
//! bytes 13..17 the number of the pipeline's row ops that have run on its rows
//! bytes 17..   if rows were skipped: the length of their description (8 bytes) and the description
//!              (see `forebay_data::Loss`)
//! bytes ..     if there are spans: their length (8 bytes) and the spans (see `chunk_spans`)
//! bytes ..     if columns are in shared memory: the loan's number (8), whether others read the same memory (1), then
//!              for each such column its index in the schema (4), and the offset (8) and length (8) of its numbers in
//!              the worker's arena, in bytes;
//!              if columns follow: for each such column its index in the schema (4) and its length (8), in bytes
//! ```
//!
//! All little endian. The record batch lacks the columns that are in shared memory or follow the message; only
//! Forebay's own consumers get such messages (see `transfer` and `shm`). Invariant: nothing is used before its checksum
//! was verified.

use arrow_flight::FlightData;
use bytes::{Buf, BufMut, Bytes};
use forebay_core::{Error, Result};

/// The bytes up to and including the flags, and of all fixed fields.
const FLAGGED_BYTES: usize = 13;
const FIXED_BYTES: usize = FLAGGED_BYTES + 4;
const MORE: u8 = 1;
const SHARED_MEMORY: u8 = 2;
const TRAILING: u8 = 4;
const LOSSES: u8 = 8;
const SPANS: u8 = 16;

/// The head of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChunkHead {
    /// The chunk's index in its split.
    pub index: u64,
    /// Whether more parts of the chunk follow.
    pub more: bool,
    /// The number of the pipeline's row ops that have run on its rows; the consumer runs the others.
    pub ops_on_worker: u32,
    /// Where the large columns are.
    pub payload: Payload,
    /// The rows that were skipped, as `forebay_data::Loss::to_bytes` writes them.
    pub losses: Bytes,
    /// The spans of a trace, as [`spans_to_bytes`](crate::spans_to_bytes) writes them.
    pub spans: Bytes,
}

/// Where the large columns of a chunk are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Payload {
    /// In the record batch, like the others.
    #[default]
    Inline,
    /// In the worker's memory, which the consumer maps.
    SharedMemory(Lent),
    /// After the message, as bytes.
    Trailing(Vec<TrailingColumn>),
}

/// A column whose numbers follow the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrailingColumn {
    /// Its index in the schema.
    pub column: u32,
    /// Its bytes.
    pub len: u64,
}

/// Columns in the worker's arena.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lent {
    /// The loan that the consumer returns when it no longer needs them.
    pub loan: u64,
    /// Whether consumers of other jobs map the same memory: then this one may only read it.
    pub shared: bool,
    /// The columns, in the schema's order.
    pub columns: Vec<LentColumn>,
}

/// Where the numbers of a lent column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LentColumn {
    /// Its index in the schema.
    pub column: u32,
    /// Bytes from the start of the arena.
    pub offset: u64,
    /// Its bytes.
    pub len: u64,
}

impl ChunkHead {
    /// Puts the head on a message.
    #[must_use]
    pub fn seal(&self, data: FlightData) -> FlightData {
        let (payload_flag, payload) = self.payload.to_bytes();
        let mut rest = Vec::with_capacity(12 + self.losses.len() + payload.len());
        rest.put_u32_le(self.ops_on_worker);
        for part in [&self.losses, &self.spans].into_iter().filter(|part| !part.is_empty()) {
            rest.put_u64_le(part.len() as u64);
            rest.put_slice(part);
        }
        rest.put_slice(&payload);
        let parts = u8::from(!self.losses.is_empty()) * LOSSES + u8::from(!self.spans.is_empty()) * SPANS;
        let mut head = Vec::with_capacity(FLAGGED_BYTES + rest.len());
        head.put_u64_le(self.index);
        head.put_u32_le(checksum(&data, &rest));
        head.put_u8(u8::from(self.more) * MORE + payload_flag + parts);
        head.put_slice(&rest);
        data.with_app_metadata(head)
    }

    /// Checks a message and reads its head.
    ///
    /// # Errors
    /// Data when it differs from the worker's message.
    pub fn open(data: &FlightData) -> Result<Self> {
        let mut head: &[u8] = &data.app_metadata;
        if head.len() < FIXED_BYTES {
            return Err(Error::data("a chunk came without its head"));
        }
        let (index, crc, flags) = (head.get_u64_le(), head.get_u32_le(), head.get_u8());
        if crc != checksum(data, head) {
            return Err(Error::data(format!("chunk {index} was damaged on its way: its checksum is wrong")));
        }
        let ops_on_worker = head.get_u32_le();
        let mut part = |flag| if flags & flag != 0 { counted(&mut head) } else { Ok(Bytes::new()) };
        let (losses, spans) = (part(LOSSES)?, part(SPANS)?);
        let payload = match flags & !(MORE | LOSSES | SPANS) {
            0 => Payload::Inline,
            SHARED_MEMORY => Payload::SharedMemory(Lent::from_bytes(head)?),
            TRAILING => Payload::Trailing(TrailingColumn::all_from_bytes(head)?),
            _ => return Err(Error::data(format!("chunk {index} says that its columns are in two places"))),
        };
        Ok(Self { index, more: flags & MORE != 0, ops_on_worker, payload, losses, spans })
    }
}

impl Payload {
    /// Returns whether consumers of other jobs map the same memory.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::SharedMemory(lent) if lent.shared)
    }

    /// Returns the number of bytes that follow the message.
    pub fn trailing_bytes(&self) -> usize {
        if let Self::Trailing(columns) = self { columns.iter().map(|c| c.len as usize).sum() } else { 0 }
    }

    /// Returns the flag, and the bytes that follow it.
    fn to_bytes(&self) -> (u8, Bytes) {
        match self {
            Payload::Inline => (0, Bytes::new()),
            Payload::SharedMemory(lent) => (SHARED_MEMORY, lent.to_bytes()),
            Payload::Trailing(columns) => {
                let mut bytes = Vec::with_capacity(columns.len() * TrailingColumn::BYTES);
                for column in columns {
                    bytes.put_u32_le(column.column);
                    bytes.put_u64_le(column.len);
                }
                (TRAILING, bytes.into())
            }
        }
    }
}

impl TrailingColumn {
    const BYTES: usize = 12;

    fn all_from_bytes(bytes: &[u8]) -> Result<Vec<Self>> {
        let (columns, []) = bytes.as_chunks::<{ Self::BYTES }>() else {
            return Err(Error::data("a chunk's list of columns is cut off"));
        };
        let column = |bytes: &[u8; Self::BYTES]| {
            let mut bytes = &bytes[..];
            Self { column: bytes.get_u32_le(), len: bytes.get_u64_le() }
        };
        Ok(columns.iter().map(column).collect())
    }
}

impl Lent {
    fn to_bytes(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(9 + self.columns.len() * LentColumn::BYTES);
        bytes.put_u64_le(self.loan);
        bytes.put_u8(u8::from(self.shared));
        for column in &self.columns {
            bytes.put_u32_le(column.column);
            bytes.put_u64_le(column.offset);
            bytes.put_u64_le(column.len);
        }
        bytes.into()
    }

    fn from_bytes(mut bytes: &[u8]) -> Result<Self> {
        let loan = bytes.try_get_u64_le().map_err(|_| Error::data("a chunk's loan has no number"))?;
        let shared = bytes.try_get_u8().map_err(|_| Error::data("a chunk's loan is cut off"))? != 0;
        let (columns, []) = bytes.as_chunks::<{ LentColumn::BYTES }>() else {
            return Err(Error::data("a chunk's loan is cut off"));
        };
        Ok(Self { loan, shared, columns: columns.iter().map(LentColumn::from_bytes).collect() })
    }
}

impl LentColumn {
    const BYTES: usize = 20;

    fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let mut bytes = &bytes[..];
        Self { column: bytes.get_u32_le(), offset: bytes.get_u64_le(), len: bytes.get_u64_le() }
    }
}

fn counted(head: &mut &[u8]) -> Result<Bytes> {
    let cut = || Error::data("what a chunk says of skipped rows, or of its trace, is cut off");
    let len = head.try_get_u64_le().map_err(|_| cut())? as usize;
    if head.len() < len {
        return Err(cut());
    }
    Ok(head.copy_to_bytes(len))
}

fn checksum(data: &FlightData, rest: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&data.data_header), &data.data_body);
    crc32c::crc32c_append(crc, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> FlightData {
        FlightData::new().with_data_header(&b"header"[..]).with_data_body(&b"body"[..])
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let columns = vec![
            LentColumn { column: 1, offset: 1 << 33, len: 4096 },
            LentColumn { column: 3, offset: 0, len: u64::MAX },
        ];
        let plain = ChunkHead { index: 0x0102, ops_on_worker: 0x0304, ..ChunkHead::default() };
        let payload = Payload::SharedMemory(Lent { loan: 9, shared: true, columns });
        let lent = ChunkHead { index: 7, more: true, ops_on_worker: u32::MAX, payload, ..ChunkHead::default() };
        let columns = vec![TrailingColumn { column: 2, len: 1 << 33 }, TrailingColumn { column: 0, len: 0 }];
        let apart = ChunkHead { index: 8, payload: Payload::Trailing(columns), ..ChunkHead::default() };
        let losing = |head: &ChunkHead| ChunkHead { losses: Bytes::from_static(b"what was lost"), ..head.clone() };
        let traced = |head: &ChunkHead| ChunkHead { spans: Bytes::from_static(b"when"), ..head.clone() };
        let both = traced(&losing(&lent));
        for head in [both, traced(&plain), losing(&plain), losing(&lent), losing(&apart), plain, lent, apart] {
            assert_eq!(ChunkHead::open(&head.seal(message())), Ok(head));
        }
    }

    #[test]
    fn any_damage_is_seen() {
        let lent = Lent { loan: 9, shared: false, columns: vec![LentColumn { column: 1, offset: 2, len: 3 }] };
        let losses = Bytes::from_static(b"lost");
        let payload = Payload::SharedMemory(lent);
        let whole = ChunkHead { index: 7, ops_on_worker: 3, payload, losses, ..ChunkHead::default() }.seal(message());
        let mut damaged = vec![
            whole.clone().with_data_body(&b"bodY"[..]),
            whole.clone().with_data_header(&b"hEader"[..]),
            whole.clone().with_app_metadata(&b""[..]),
        ];
        for at in 8..whole.app_metadata.len() {
            if at == FLAGGED_BYTES - 1 {
                continue; // the flags are checked against the bytes behind them
            }
            let mut head = whole.app_metadata.to_vec();
            head[at] ^= 1;
            damaged.push(whole.clone().with_app_metadata(head));
        }
        for data in damaged {
            assert!(ChunkHead::open(&data).is_err(), "{:?}", data.app_metadata);
        }
    }
}
