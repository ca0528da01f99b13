//! Borrows the memory of chunks from a worker on this machine (see `forebay_proto`'s `local`).
//!
//! Invariants: a loan is given back when the last array over its memory is gone, wherever that happens; a stream always says
//! at its end which loan came last. The socket lives as long as anything that was borrowed over it.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use arrow_buffer::Buffer;
use forebay_core::{Error, Result};
use forebay_data::{Memory, SharedMemory};
use forebay_proto::{Lent, LentColumn, Reader, Request, Return, receive_arena};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::connection::{Connection, Received};
use crate::debts::{Debtor, Debts, Loan};

/// How long a worker may take to greet a reader before it is read from a distance.
const GREETING_MAX: Duration = Duration::from_secs(2);

/// One worker's memory in this process.
pub(crate) struct Borrower {
    memory: Arc<SharedMemory>,
    /// The same memory, for what is lent to others, too.
    shared: Arc<SharedMemory>,
    debts: Arc<Debts>,
    /// Whether the worker's process has ended: whoever listens at its address now has other memory.
    gone: Arc<AtomicBool>,
}

impl Borrower {
    /// Asks a worker whether it lends; `None` when it does not, or is on another machine.
    ///
    /// # Errors
    /// Unavailable when the worker does not answer.
    pub(crate) async fn connect(worker: &mut Connection) -> Result<Option<Arc<Self>>> {
        let silent = |_| Error::unavailable("the worker accepted the connection and said nothing");
        let name = tokio::time::timeout(GREETING_MAX, ask(worker)).await.map_err(silent)??;
        if name.is_empty() {
            return Ok(None);
        }
        match tokio::time::timeout(GREETING_MAX, Self::greet(name)).await {
            Ok(Ok(borrower)) => return Ok(Some(borrower)),
            Ok(Err(error)) => tracing::debug!(%error, "this worker's memory cannot be borrowed"),
            Err(_) => tracing::debug!("this worker's memory cannot be borrowed: it did not answer on its socket"),
        }
        Ok(None)
    }

    async fn greet(name: Vec<u8>) -> io::Result<Arc<Self>> {
        let open = move || {
            let socket = connect(&name)?;
            socket.set_read_timeout(Some(GREETING_MAX))?;
            let (reader, arena) = receive_arena(socket.as_fd())?;
            socket.set_nonblocking(true)?;
            let (memory, shared) = (SharedMemory::open(arena.as_fd())?, SharedMemory::open_to_read(arena.as_fd())?);
            Ok::<_, io::Error>((socket, reader, memory, shared))
        };
        let (socket, reader, memory, shared) = tokio::task::spawn_blocking(open).await.map_err(io::Error::other)??;
        let (debts, said) = Debts::new(reader);
        let (socket, gone) = (UnixStream::from_std(socket)?, Arc::new(AtomicBool::new(false)));
        let ended = gone.clone();
        tokio::spawn(async move {
            give_back(socket, said).await;
            ended.store(true, Relaxed);
        });
        Ok(Arc::new(Self { memory, shared, debts, gone }))
    }

    /// Returns the memory whose bytes other readers have, too: they are for looking at, here and now.
    pub(crate) fn shared(&self) -> &Arc<SharedMemory> {
        &self.shared
    }

    /// Says whether the worker has ended, as far as is known.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// Begins a stream.
    pub(crate) fn stream(self: &Arc<Self>) -> Borrowing {
        Borrowing { borrower: self.clone(), debtor: self.debts.stream() }
    }
}

async fn ask(worker: &mut Connection) -> Result<Vec<u8>> {
    worker.ask(&Request::Local).await?;
    match worker.receive(&Memory::default()).await? {
        Received::Socket(name) => Ok(name),
        Received::Failed(error) => Err(error),
        Received::Chunk(_) | Received::End => Err(Error::data("a worker answered what it was not asked")),
    }
}

/// Writes what is given back, until nothing is borrowed any more, or the worker is gone.
async fn give_back(socket: UnixStream, mut said: UnboundedReceiver<Return>) {
    let (mut from, mut to) = socket.into_split();
    // A worker says nothing more after its greeting: what can be read is the end.
    let end = async move { from.read_u8().await };
    tokio::pin!(end);
    loop {
        let what = tokio::select! {
            _ = &mut end => return,
            what = said.recv() => what,
        };
        let Some(what) = what else { return };
        if to.write_all(&what.to_bytes()).await.is_err() {
            return;
        }
    }
}

#[cfg(target_os = "linux")]
fn connect(name: &[u8]) -> io::Result<StdStream> {
    use std::os::linux::net::SocketAddrExt;
    StdStream::connect_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?)
}

#[cfg(not(target_os = "linux"))]
fn connect(_: &[u8]) -> io::Result<StdStream> {
    Err(io::ErrorKind::Unsupported.into())
}

/// One stream of chunks whose memory may be lent.
pub(crate) struct Borrowing {
    borrower: Arc<Borrower>,
    debtor: Debtor,
}

impl Borrowing {
    /// Returns what names it in the request.
    pub(crate) fn reader(&self) -> Reader {
        self.debtor.reader()
    }

    /// Returns the numbers of the columns that were lent with a chunk.
    ///
    /// # Errors
    /// Data when they are not in the worker's memory.
    pub(crate) fn take(&mut self, lent: &Lent) -> Result<Vec<(usize, Buffer)>> {
        let loan = Arc::new(Held { _loan: self.debtor.take(lent.loan), _mapping: self.borrower.clone() });
        let memory = if lent.shared { &self.borrower.shared } else { &self.borrower.memory };
        let column = |c: &LentColumn| {
            let range = usize::try_from(c.offset).ok().zip(usize::try_from(c.len).ok());
            // SAFETY: the worker leaves the bytes alone until the loan is given back, and the loan keeps the mapping.
            let buffer = range.and_then(|(at, len)| unsafe { memory.buffer(at, len, loan.clone()) });
            let buffer = buffer.ok_or_else(|| Error::data("a worker lent what it does not have"))?;
            Ok((c.column as usize, buffer))
        };
        lent.columns.iter().map(column).collect()
    }
}

/// What every buffer over borrowed memory has.
struct Held {
    _loan: Loan,
    _mapping: Arc<Borrower>,
}
