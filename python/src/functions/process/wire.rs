//! The messages between a process and its children: JSON frames on a socket, rows as Arrow IPC in a file in memory.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use forebay_core::{Error, Result, Seed};
use forebay_data::{Chunk, Schema, read_ipc, write_ipc};
use forebay_exec::Randomness;
use forebay_plan::{BlobId, Function};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest frame: schemas and row numbers, never rows.
const FRAME_BYTES_MAX: u32 = 256 << 20;

/// A request of the parent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) call: Call,
    /// The object to call it on; its pickle has been sent with this request, if `pickle_bytes` has its length, or
    /// before.
    pub(super) object: Option<BlobId>,
    /// The length of the pickle in the file of pickles, when the child does not have it yet.
    pub(super) pickle_bytes: Option<u64>,
    /// The length of the rows in the request's file.
    pub(super) input_bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Call {
    Map {
        function: Function,
        randomness: Option<Keys>,
        input: Schema,
        output: Schema,
    },
    Filter {
        function: Function,
        randomness: Option<Keys>,
        input: Schema,
    },
    FlatMap {
        function: Function,
        randomness: Option<Keys>,
        input: Schema,
        output: Schema,
        count: Option<u32>,
    },
    Items {
        rows: Vec<u64>,
        ids: Vec<(u64, u64)>,
        output: Schema,
    },
    Generate {
        rows: usize,
        output: Schema,
    },
    /// The next rows of the generator.
    More,
}

/// [`Randomness`], for the wire.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Keys {
    seed: u64,
    random: u64,
}

impl From<Randomness> for Keys {
    fn from(r: Randomness) -> Self {
        Self { seed: r.seed.0, random: r.random }
    }
}

impl From<Keys> for Randomness {
    fn from(k: Keys) -> Self {
        Self { seed: Seed(k.seed), random: k.random }
    }
}

/// An answer of the child.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Body {
    /// The child is ready.
    Ready,
    /// Rows, in the reply's file.
    Columns { bytes: u64 },
    /// Rows, in the reply's file, and how many were made of each.
    Made { bytes: u64, counts: Vec<u32> },
    /// The rows to keep.
    Keep { rows: Vec<bool> },
    /// The generator has ended.
    End,
    /// The call failed.
    Failed { error: Error },
}

/// The files that both sides share, in the order in which they are handed over.
pub(super) struct Shared {
    pub(super) request: File,
    pub(super) reply: File,
    pub(super) pickle: File,
    /// Eight bytes: the current row of the user's code. Eight more: whether the answer is still wanted (0).
    pub(super) progress: File,
}

impl Shared {
    /// Makes four empty files in memory.
    pub(super) fn new() -> Result<Self> {
        let file = |name: &str| -> Result<File> {
            let fd = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
            Ok(fd.into())
        };
        Ok(Self {
            request: file("forebay-request")?,
            reply: file("forebay-reply")?,
            pickle: file("forebay-pickle")?,
            progress: file("forebay-progress")?,
        })
    }

    pub(super) fn files(&self) -> [&File; 4] {
        [&self.request, &self.reply, &self.pickle, &self.progress]
    }

    pub(super) fn from_fds(fds: Vec<OwnedFd>) -> Option<Self> {
        let mut files = fds.into_iter().map(File::from);
        Some(Self { request: files.next()?, reply: files.next()?, pickle: files.next()?, progress: files.next()? })
    }

    pub(super) fn set_progress(&self, row: u64) {
        // Progress is for blame and time limits only: an error in noting it must not fail the row.
        let _ = self.progress.write_all_at(&row.to_le_bytes(), 0);
    }

    pub(super) fn progress(&self) -> u64 {
        self.word(0)
    }

    /// Notes that a call begins.
    pub(super) fn begin(&self) {
        let _ = self.progress.write_all_at(&[0; 16], 0);
    }

    /// Notes that the answer to the call is no longer needed.
    pub(super) fn cancel(&self) {
        let _ = self.progress.write_all_at(&1u64.to_le_bytes(), 8);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.word(8) != 0
    }

    fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        match self.progress.read_exact_at(&mut bytes, at) {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(_) => 0,
        }
    }
}

/// Sends one frame.
pub(super) fn send(socket: &UnixStream, frame: &impl Serialize) -> Result<()> {
    let body = serde_json::to_vec(frame).map_err(|e| Error::internal(e.to_string()))?;
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(body);
    (&mut &*socket).write_all(&bytes)?;
    Ok(())
}

/// Reads on through the socket's time limit: a sender that has begun a frame ends it, or dies.
fn read_exact(mut socket: &UnixStream, mut into: &mut [u8]) -> std::io::Result<()> {
    use std::io::ErrorKind::{Interrupted, UnexpectedEof, WouldBlock};
    while !into.is_empty() {
        match socket.read(into) {
            Ok(0) => return Err(UnexpectedEof.into()),
            Ok(n) => into = &mut into[n..],
            Err(e) if matches!(e.kind(), Interrupted | WouldBlock) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reads one frame.
pub(super) fn receive<T: DeserializeOwned>(socket: &UnixStream) -> std::io::Result<T> {
    let mut length = [0; 4];
    read_exact(socket, &mut length)?;
    let length = u32::from_le_bytes(length);
    if length > FRAME_BYTES_MAX {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length as usize];
    read_exact(socket, &mut body)?;
    serde_json::from_slice(&body).map_err(std::io::Error::other)
}

/// Writes rows to a file in memory and returns their length.
pub(super) fn write_rows(file: &File, chunk: &Chunk, with_ids: bool) -> Result<u64> {
    let mut at = At { file, at: 0 };
    let mut writer = BufWriter::with_capacity(1 << 16, &mut at);
    write_ipc(std::slice::from_ref(chunk), with_ids, &mut writer)?;
    writer.flush()?;
    drop(writer);
    Ok(at.at)
}

/// Reads the rows that [`write_rows`] wrote.
pub(super) fn read_rows(file: &File, bytes: u64, schema: &Arc<Schema>) -> Result<Chunk> {
    let reader = BufReader::with_capacity(1 << 16, At { file, at: 0 }.take(bytes));
    let (_, batches) = read_ipc(reader)?;
    let batch = batches.first().ok_or_else(|| Error::internal("a function process sent no rows"))?;
    Chunk::from_record_batch(schema, batch)
}

/// A position in a file that two processes share, without its shared offset.
struct At<'a> {
    file: &'a File,
    at: u64,
}

impl Read for At<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = self.file.read_at(into, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Write for At<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = self.file.write_at(bytes, self.at)?;
        self.at += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
