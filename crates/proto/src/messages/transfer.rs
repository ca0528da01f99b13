//! The protocol by which Forebay's own consumers fetch chunks from a worker, and workers fetch cached blocks from each
//! other: one connection, one request at a time, and only the kernel copies bytes.
//!
//! A worker's port serves two protocols. A connection that begins with [`PREFACE`] (over TLS, ALPN also names
//! `forebay/1`) uses this one; any other uses HTTP/2, that is Arrow Flight. Flight over gRPC took 2.6 ms of CPU to move
//! a 600 KB image that takes 1.3 ms to compute: it copies six times, mostly into fresh memory.
//!
//! ```text
//! client: PREFACE, then requests      length (4 bytes) and JSON of a Request
//! worker: for each request, frames    each has a head; the last is SOCKET, END, FAILED or BLOCKS. Parts: one PART or
//!                                     FAILED for each requested part. Rows: PARTs, then an END whose body is the time
//!                                     that the worker waited for rows (8, nanoseconds). COMPUTING while there is
//!                                     nothing to send
//!
//! head    kind (1), three lengths: metadata (4), header (4), body (8)
//! CHUNK   the three parts of a Flight message (metadata is a ChunkHead); then for each trailing column, its bytes and
//!         their CRC32C (4)
//! PART    a body: the part's bytes and their CRC32C (4)
//! ```
//!
//! All little endian. A client closes the connection when it needs no more; a worker closes it on any input that it
//! does not understand. Invariants: a length from a peer beyond the bounds here is never allocated; no byte is used
//! before its checksum was verified.

use std::io;
use std::time::Duration;

use bytes::{Buf, BufMut};
use forebay_core::{Error, Result};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::messages::key::JobKey;
use crate::messages::ticket::Ticket;
use crate::net::tls::carried;

/// The first bytes of a connection. HTTP/2 begins with `PRI * HT`.
pub const PREFACE: [u8; 8] = *b"forebay\x01";
/// The interval of COMPUTING frames from a worker that has nothing to send yet.
pub const COMPUTING_EVERY: Duration = Duration::from_millis(500);
/// A request is a ticket and two numbers, [`PARTS_MAX`] parts of blocks, or [`ROWS_MAX`] rows.
const REQUEST_BYTES_MAX: usize = 64 << 10;
/// The most parts of one request.
pub const PARTS_MAX: usize = 200;
/// The most rows of one request, each perhaps of a different file.
pub const ROWS_MAX: usize = 1000;
/// The most bytes of a chunk's head, and of Arrow's description of a record batch with thousands of columns.
const PART_BYTES_MAX: u32 = 16 << 20;
/// The most bytes of columns that do not trail: strings, lists, small columns. As for a message of gRPC.
const BODY_BYTES_MAX: u64 = u32::MAX as u64;
/// Bytes of a column that are checked and moved together, so that they stay in the processor's cache in between.
const PIECE_BYTES: usize = 256 << 10;
/// The first keepalive probe goes out after so many seconds of silence, ...
const KEEPALIVE_IDLE_S: u64 = 5;
/// ... further ones follow at this interval, ...
const KEEPALIVE_EVERY_S: u64 = 5;
/// ... and the connection is closed after so many without an answer, or if sent bytes are not acknowledged in time.
const KEEPALIVE_PROBES: u32 = 2;
const UNACKNOWLEDGED_MS_MAX: u32 = 15_000;

/// A request of a consumer, or of another worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Requests the name of the socket on which memory is lent (see `shm`); empty if the worker lends none.
    Local,
    /// Requests the chunks of a split.
    Read {
        /// The split.
        ticket: Ticket,
        /// The stream to lend memory to, if the consumer can map it.
        reader: Option<ConsumerStream>,
    },
    /// Requests the list of cached blocks of a pipeline's prefix.
    Blocks {
        /// The prefix key, in hexadecimal.
        prefix: String,
        /// The key by which workers of this service let each other read blocks.
        key: JobKey,
    },
    /// Requests rows that the requester would compute, if this worker has them or is computing them.
    Rows {
        /// The prefix key, in hexadecimal.
        prefix: String,
        /// The rows of each file, by its name in hexadecimal. At most [`ROWS_MAX`] in all.
        rows: Vec<(String, Vec<u64>)>,
        /// If both would compute a row, the worker with the lower rank does.
        rank: u64,
        /// The time to wait for rows that are being computed, in milliseconds.
        wait_ms: u64,
        /// As for [`Request::Blocks`].
        key: JobKey,
    },
    /// Requests parts of cached blocks.
    Parts {
        /// At most [`PARTS_MAX`].
        parts: Vec<BlockPart>,
        /// As for [`Request::Blocks`].
        key: JobKey,
    },
}

/// A cached block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Its name at the worker.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
}

/// A part of a [`Block`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockPart {
    /// The block.
    pub name: String,
    /// Its first byte.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
}

/// A stream of a consumer that has mapped the worker's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerStream {
    /// The number that the worker assigned to the consumer. The JSON uses this name.
    pub reader: u64,
    /// The consumer's number for the stream.
    pub stream: u64,
}

impl Request {
    /// Writes the request.
    pub fn to_bytes(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).unwrap_or_default();
        let mut bytes = Vec::with_capacity(4 + json.len());
        bytes.put_u32_le(json.len() as u32);
        bytes.put_slice(&json);
        bytes
    }

    /// Reads a request; `None` when the peer has closed the connection.
    ///
    /// # Errors
    /// Invalid for anything but a request; Unavailable when the connection broke.
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Option<Self>> {
        let mut len = [0; 4];
        match from.read_exact(&mut len).await {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(e) => return Err(broken(&e)),
        }
        let len = u32::from_le_bytes(len) as usize;
        if len > REQUEST_BYTES_MAX {
            return Err(Error::invalid(format!("a request of {len} bytes; at most {REQUEST_BYTES_MAX} are read")));
        }
        let mut json = vec![0; len];
        from.read_exact(&mut json).await.map_err(|e| broken(&e))?;
        serde_json::from_slice(&json).map(Some).map_err(|e| Error::invalid(format!("not a request: {e}")))
    }
}

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Frame {
    /// A chunk, or a part of one.
    Chunk = 0,
    /// The split is complete.
    End = 1,
    /// The split failed: the body is the error's JSON.
    Failed = 2,
    /// The body is the name of the socket.
    Socket = 3,
    /// Nothing to send yet: a computing worker repeats this every [`COMPUTING_EVERY`].
    Computing = 4,
    /// The body is the JSON of the [`Block`]s.
    Blocks = 5,
    /// The body is a part of a block.
    Part = 6,
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// The kind.
    pub frame: Frame,
    /// Bytes of the metadata.
    pub metadata: u32,
    /// Bytes of the header.
    pub header: u32,
    /// Bytes of the body.
    pub body: u64,
}

impl FrameHead {
    /// The length of a head.
    pub const BYTES: usize = 17;

    /// Returns the head of a frame that has only a body.
    pub fn of_body(frame: Frame, body: usize) -> Self {
        Self { frame, metadata: 0, header: 0, body: body as u64 }
    }

    /// Writes the head.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [self.frame as u8; Self::BYTES];
        let mut rest = &mut bytes[1..];
        rest.put_u32_le(self.metadata);
        rest.put_u32_le(self.header);
        rest.put_u64_le(self.body);
        bytes
    }

    /// Reads a head.
    ///
    /// # Errors
    /// Data for anything but a head, or for one with a length above the bound of any frame.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Result<Self> {
        let mut bytes = &bytes[..];
        let frame = match bytes.get_u8() {
            0 => Frame::Chunk,
            1 => Frame::End,
            2 => Frame::Failed,
            3 => Frame::Socket,
            4 => Frame::Computing,
            5 => Frame::Blocks,
            6 => Frame::Part,
            other => return Err(Error::data(format!("a worker sent a frame of kind {other}, which does not exist"))),
        };
        let head = Self { frame, metadata: bytes.get_u32_le(), header: bytes.get_u32_le(), body: bytes.get_u64_le() };
        let body_max = if frame == Frame::Chunk { BODY_BYTES_MAX } else { u64::from(PART_BYTES_MAX) };
        if head.metadata > PART_BYTES_MAX || head.header > PART_BYTES_MAX || head.body > body_max {
            return Err(Error::data(format!("a worker sent a frame that is too large: {head:?}")));
        }
        Ok(head)
    }
}

/// Sends a column's bytes and their checksum.
///
/// # Errors
/// The system's error.
pub async fn send_column(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    let mut crc = 0;
    for piece in bytes.chunks(PIECE_BYTES) {
        crc = crc32c::crc32c_append(crc, piece);
        to.write_all(piece).await?;
    }
    to.write_all(&crc.to_le_bytes()).await
}

/// Receives the column that [`send_column`] sent, into memory of its length.
///
/// # Errors
/// Data when the checksum is wrong; Unavailable when the connection broke.
pub async fn receive_column(from: &mut (impl AsyncRead + Unpin), bytes: &mut [u8]) -> Result<()> {
    let mut seen = 0;
    for piece in bytes.chunks_mut(PIECE_BYTES) {
        from.read_exact(piece).await.map_err(|e| broken(&e))?;
        seen = crc32c::crc32c_append(seen, piece);
    }
    let mut crc = [0; 4];
    from.read_exact(&mut crc).await.map_err(|e| broken(&e))?;
    if seen != u32::from_le_bytes(crc) {
        return Err(Error::data("a column was damaged on its way: its checksum is wrong"));
    }
    Ok(())
}

/// Returns the error of a broken connection, or the reason why TLS refused it.
pub fn broken(error: &io::Error) -> Error {
    let text = error.to_string();
    carried(&text).unwrap_or_else(|| Error::unavailable(format!("the connection broke: {text}")))
}

/// Sets up a socket: no Nagle delay, and keepalive probes that detect a lost peer machine.
pub fn tune(socket: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(KEEPALIVE_IDLE_S))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(KEEPALIVE_EVERY_S))?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(socket, UNACKNOWLEDGED_MS_MAX)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
    }

    #[test]
    fn requests_and_heads_are_read_as_they_were_written() {
        let ticket = Ticket {
            job: 1,
            epoch: 2,
            consumer: 3,
            ordinal: 4,
            token: u64::MAX,
            from_chunk: 6,
            key: JobKey::from_bytes(&[7; 16]),
            trace: true,
        };
        let reader = Some(ConsumerStream { reader: 7, stream: 8 });
        // The longest names: of a format, a prefix and a block.
        let name = format!("1/{}/{}.arrow", "0".repeat(64), "a".repeat(32));
        let parts = vec![BlockPart { name, start: u64::MAX, end: u64::MAX }; PARTS_MAX];
        let key = ticket.key;
        let far_apart = vec![("f".repeat(32), vec![u64::MAX >> 20]); ROWS_MAX];
        for request in [
            Request::Local,
            Request::Read { ticket, reader },
            Request::Read { ticket, reader: None },
            Request::Blocks { prefix: "0".repeat(64), key },
            Request::Parts { parts, key },
            Request::Rows { prefix: "0".repeat(64), rows: far_apart, rank: u64::MAX, wait_ms: 5000, key },
        ] {
            assert_eq!(block_on(Request::read(&mut &request.to_bytes()[..])), Ok(Some(request)));
        }
        for frame in
            [Frame::Chunk, Frame::End, Frame::Failed, Frame::Socket, Frame::Computing, Frame::Blocks, Frame::Part]
        {
            let head = FrameHead { frame, metadata: 1, header: 1 << 20, body: 3 };
            assert_eq!(FrameHead::from_bytes(&head.to_bytes()), Ok(head));
        }
    }

    #[test]
    fn the_lengths_that_a_peer_claims_are_bounded() {
        assert_eq!(block_on(Request::read(&mut &b""[..])), Ok(None));
        assert!(block_on(Request::read(&mut &[0xff; 64][..])).is_err());
        assert!(block_on(Request::read(&mut &b"\x02\0\0\0{}"[..])).is_err());
        assert!(block_on(Request::read(&mut &b"\x20\0\0\0{"[..])).is_err());
        assert!(FrameHead::from_bytes(&[0xff; FrameHead::BYTES]).is_err());
        let lie = FrameHead { frame: Frame::Chunk, metadata: 0, header: 0, body: 1 << 40 };
        assert!(FrameHead::from_bytes(&lie.to_bytes()).is_err());
        assert!(FrameHead::from_bytes(&FrameHead::of_body(Frame::Failed, 1 << 30).to_bytes()).is_err());
    }

    #[test]
    fn a_column_arrives_whole_or_not_at_all() {
        let sent: Vec<u8> = (0..PIECE_BYTES * 2 + 5).map(|i| (i % 251) as u8).collect();
        let mut wire = Vec::new();
        block_on(send_column(&mut wire, &sent)).expect("sent");
        let mut received = vec![0; sent.len()];
        block_on(receive_column(&mut &wire[..], &mut received)).expect("received");
        assert!(received == sent);
        let cut = wire.len() - 5;
        assert!(block_on(receive_column(&mut &wire[..cut], &mut received)).is_err());
        wire[PIECE_BYTES + 1] ^= 1;
        assert!(block_on(receive_column(&mut &wire[..], &mut received)).is_err());
    }
}
