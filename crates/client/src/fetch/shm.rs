//! Chunks in the shared memory of a worker on this host, which this process borrows (see `forebay_proto`'s `local`).
//!
//! Invariants: a loan is returned when the last array over its memory is dropped, on any thread; each stream names its
//! last loan at its end. The socket to the worker lives as long as any loan that came over it.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use arrow_buffer::Buffer;
use forebay_core::{Error, Result};
use forebay_data::{Memory, SharedMemory};
use forebay_proto::{ConsumerStream, Lent, LentColumn, Request, Return, receive_arena};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::fetch::connection::{Connection, Received};
use crate::fetch::loans::{Loan, Loans, StreamLoans};

/// Time for a worker's greeting. After it, chunks of this worker come over the connection instead.
const GREETING_MAX: Duration = Duration::from_secs(2);

/// The shared memory of one worker, mapped into this process.
pub(crate) struct ShmConnection {
    memory: Arc<SharedMemory>,
    /// The same memory, mapped read-only: for loans that other processes have, too.
    read_only: Arc<SharedMemory>,
    loans: Arc<Loans>,
    /// Whether the worker's process has ended. A process that now listens at its address has other memory.
    gone: Arc<AtomicBool>,
}

impl ShmConnection {
    /// Requests a worker's shared memory; `None` if it lends none, or runs on another host.
    ///
    /// # Errors
    /// Unavailable if the worker does not answer.
    pub(crate) async fn connect(worker: &mut Connection) -> Result<Option<Arc<Self>>> {
        let silent = |_| Error::unavailable("the worker accepted the connection and said nothing");
        let name = tokio::time::timeout(GREETING_MAX, ask(worker)).await.map_err(silent)??;
        if name.is_empty() {
            return Ok(None);
        }
        match tokio::time::timeout(GREETING_MAX, Self::greet(name)).await {
            Ok(Ok(shm)) => return Ok(Some(shm)),
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
            let (memory, read_only) = (SharedMemory::open(arena.as_fd())?, SharedMemory::open_to_read(arena.as_fd())?);
            Ok::<_, io::Error>((socket, reader, memory, read_only))
        };
        let (socket, reader, memory, read_only) =
            tokio::task::spawn_blocking(open).await.map_err(io::Error::other)??;
        let (loans, returns) = Loans::new(reader);
        let (socket, gone) = (UnixStream::from_std(socket)?, Arc::new(AtomicBool::new(false)));
        let ended = gone.clone();
        tokio::spawn(async move {
            send_returns(socket, returns).await;
            ended.store(true, Relaxed);
        });
        Ok(Arc::new(Self { memory, read_only, loans, gone }))
    }

    /// Returns the read-only mapping. A chunk in it must be copied before the user gets it.
    pub(crate) fn read_only(&self) -> &Arc<SharedMemory> {
        &self.read_only
    }

    /// Returns whether this process knows that the worker has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// Begins a stream.
    pub(crate) fn stream(self: &Arc<Self>) -> ShmStream {
        ShmStream { shm: self.clone(), loans: self.loans.stream() }
    }
}

async fn ask(worker: &mut Connection) -> Result<Vec<u8>> {
    worker.ask(&Request::Local).await?;
    match worker.receive(&Memory::default()).await? {
        Received::Socket(name) => Ok(name),
        Received::Failed(error) => Err(error),
        Received::Chunk(_) | Received::End => {
            Err(Error::data("a worker answered the request for its socket with another frame"))
        }
    }
}

/// Sends returned loans to the worker, until no loans are left or the worker is gone.
async fn send_returns(socket: UnixStream, mut returns: UnboundedReceiver<Return>) {
    let (mut from, mut to) = socket.into_split();
    // The worker sends nothing after its greeting, so a read returns only at its end.
    let end = async move { from.read_u8().await };
    tokio::pin!(end);
    loop {
        let message = tokio::select! {
            _ = &mut end => return,
            message = returns.recv() => message,
        };
        let Some(message) = message else { return };
        if to.write_all(&message.to_bytes()).await.is_err() {
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

/// One stream of chunks, which may lie in the shared memory.
pub(crate) struct ShmStream {
    shm: Arc<ShmConnection>,
    loans: StreamLoans,
}

impl ShmStream {
    /// Returns the name of the stream in the request to the worker.
    pub(crate) fn reader(&self) -> ConsumerStream {
        self.loans.reader()
    }

    /// Returns the lent columns of a chunk, each with its index in the schema.
    ///
    /// # Errors
    /// Data if a column is not within the worker's memory.
    pub(crate) fn take(&mut self, lent: &Lent) -> Result<Vec<(usize, Buffer)>> {
        let loan = Arc::new(LoanGuard { _loan: self.loans.take(lent.loan), _mapping: self.shm.clone() });
        let memory = if lent.shared { &self.shm.read_only } else { &self.shm.memory };
        let column = |c: &LentColumn| {
            let range = usize::try_from(c.offset).ok().zip(usize::try_from(c.len).ok());
            // SAFETY: the worker does not change the bytes until the loan is returned, and the guard keeps the mapping.
            let buffer = range.and_then(|(at, len)| unsafe { memory.buffer(at, len, loan.clone()) });
            let buffer = buffer.ok_or_else(|| Error::data("a worker lent a column outside its memory"))?;
            Ok((c.column as usize, buffer))
        };
        lent.columns.iter().map(column).collect()
    }
}

/// Each buffer over borrowed memory holds this.
struct LoanGuard {
    _loan: Loan,
    _mapping: Arc<ShmConnection>,
}
