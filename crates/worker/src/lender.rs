//! Lends the memory of chunks to readers on this machine (see `forebay_proto`'s `local`).
//!
//! A chunk that is lent to one reader alone is that reader's from then on: it may write it, and the worker computes the split again
//! should anyone ask for the same chunk. One that others read, too, is lent to each to read only. Invariants: a loan ends when its
//! reader says so, when the stream that it was sent on ended before it came, or when the reader's process is gone, and only then is
//! its memory used again. What is lent to whom is counted in `loans`, which bounds it: beyond that readers are sent copies (which are
//! held up by a reader that is slow).

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_buffer::Buffer;
use forebay_core::{Result, WorkerId};
use forebay_data::{Arena, Chunk};
use forebay_proto::{Lent, LentColumn, Reader as ReaderStream, Return, is_same_user, send_arena};
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use crate::columns::{LargeColumn, without};
use crate::loans::Loans;
use crate::lock::lock;

/// How long a new reader may take to take the arena.
const GREETING_MAX: Duration = Duration::from_secs(2);

/// What one worker lends.
pub(crate) struct Lender {
    arena: Arc<Arena>,
    socket: String,
    loans: Mutex<Loans<Vec<Buffer>>>,
}

impl Lender {
    /// Listens for readers until `stop`. Must be called within a runtime.
    ///
    /// # Errors
    /// What the system says: where it has no such sockets, nothing is lent.
    #[cfg(target_os = "linux")]
    pub(crate) fn start(arena: Arc<Arena>, worker: WorkerId, stop: CancellationToken) -> io::Result<Arc<Self>> {
        use std::os::linux::net::SocketAddrExt;
        let socket = format!("forebay-{:032x}", worker.0);
        let listener = StdListener::bind_addr(&std::os::unix::net::SocketAddr::from_abstract_name(&socket)?)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let lender = Arc::new(Self { arena, socket, loans: Mutex::new(Loans::new(worker.0 as u64)) });
        tokio::spawn(lender.clone().welcome(listener, stop));
        Ok(lender)
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn start(_: Arc<Arena>, _: WorkerId, _: CancellationToken) -> io::Result<Arc<Self>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The name of the socket, in the abstract namespace.
    pub(crate) fn socket(&self) -> &str {
        &self.socket
    }

    async fn welcome(self: Arc<Self>, listener: UnixListener, stop: CancellationToken) {
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, _)) if is_same_user(&socket) => {
                    tokio::spawn(self.clone().serve(socket));
                }
                Ok(_) => tracing::warn!("a reader of another user was refused; it is sent copies"),
                Err(error) => {
                    tracing::warn!(%error, "a reader could not be accepted");
                    tokio::time::sleep(GREETING_MAX).await;
                }
            }
        }
    }

    /// Keeps what a reader borrows until it gives it back or is gone.
    async fn serve(self: Arc<Self>, socket: UnixStream) {
        let Some(number) = lock(&self.loans).enter() else { return };
        let _reader = Present { lender: &self, number };
        let mut socket = match self.greet(socket, number).await {
            Ok(socket) => socket,
            Err(error) => return tracing::warn!(%error, "a reader on this machine could not be given the arena"),
        };
        let mut said = [0; Return::BYTES];
        let mut is_told = false;
        // An error of the socket is its end: there is no network between the two.
        while socket.read_exact(&mut said).await.is_ok() {
            match Return::from_bytes(&said) {
                Some(said) => self.take_back(number, said),
                // It is listened to, for it may still use what it borrowed; but nobody's log is filled by it.
                None if is_told => {}
                None => {
                    is_told = true;
                    tracing::error!(reader = number, "a reader said something that is no return");
                }
            }
        }
    }

    async fn greet(self: &Arc<Self>, socket: UnixStream, number: u64) -> io::Result<UnixStream> {
        let socket: StdStream = socket.into_std()?;
        let lender = self.clone();
        let send = move || {
            socket.set_nonblocking(false)?;
            socket.set_write_timeout(Some(GREETING_MAX))?;
            let arena = lender.arena.fd().ok_or(io::ErrorKind::Unsupported)?;
            send_arena(socket.as_fd(), number, arena)?;
            socket.set_nonblocking(true)?;
            Ok::<_, io::Error>(socket)
        };
        let socket = tokio::task::spawn_blocking(send).await.map_err(io::Error::other)??;
        UnixStream::from_std(socket)
    }

    fn take_back(&self, reader: u64, said: Return) {
        // The memory is given back without the lock.
        let back = lock(&self.loans).take_back(reader, said);
        drop(back);
    }

    /// Returns what lends to a stream of a reader here; `None` when it is not connected.
    pub(crate) fn stream(self: &Arc<Self>, of: ReaderStream) -> Option<Lending> {
        lock(&self.loans).begin(of).then(|| Lending { lender: self.clone(), of })
    }
}

/// A reader that is connected.
struct Present<'a> {
    lender: &'a Lender,
    number: u64,
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        let back = lock(&self.lender.loans).leave(self.number);
        drop(back);
    }
}

/// Lends the chunks of one stream to its reader.
pub(crate) struct Lending {
    lender: Arc<Lender>,
    of: ReaderStream,
}

impl Lending {
    /// Lends the large columns of a chunk; `shared` says whether others read them, too. Returns the loan, and the chunk without
    /// what is lent; `None` when nothing can be.
    ///
    /// # Errors
    /// Internal when the chunk is not what its schema says.
    pub(crate) fn lend(&self, chunk: &Chunk, large: &[LargeColumn], shared: bool) -> Result<Option<(Lent, Chunk)>> {
        let (mut columns, mut buffers) = (Vec::new(), Vec::new());
        for column in large {
            if let Some((offset, buffer)) = self.place(&column.values) {
                let (column, len) = (column.column as u32, buffer.len() as u64);
                columns.push(LentColumn { column, offset: offset as u64, len });
                buffers.push(buffer);
            }
        }
        if columns.is_empty() {
            return Ok(None);
        }
        let rest = without(chunk, columns.iter().map(|c| c.column as usize))?;
        Ok(self.enter(buffers).map(|loan| (Lent { loan, shared, columns }, rest)))
    }

    /// Says how much is to be copied before it can be lent.
    pub(crate) fn bytes_to_copy(&self, large: &[LargeColumn]) -> usize {
        large.iter().filter(|c| self.lender.arena.offset_of(&c.values).is_none()).map(LargeColumn::len).sum()
    }

    /// Returns where a column is in the arena, copying it there if need be.
    fn place(&self, values: &Buffer) -> Option<(usize, Buffer)> {
        let arena = &self.lender.arena;
        if let Some(offset) = arena.offset_of(values) {
            return Some((offset, values.clone()));
        }
        let mut block = arena.block(values.len())?;
        block.as_mut_slice().copy_from_slice(values);
        let copied = block.into_buffer();
        arena.offset_of(&copied).map(|offset| (offset, copied))
    }

    fn enter(&self, columns: Vec<Buffer>) -> Option<u64> {
        let bytes = columns.iter().map(Buffer::len).sum();
        lock(&self.lender.loans).lend(self.of, columns, bytes)
    }
}

impl Drop for Lending {
    fn drop(&mut self) {
        lock(&self.lender.loans).end(self.of);
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{Epoch, SampleId};
    use forebay_data::{DType, Field, FixedTensorBuilder, Kind, Memory, RowId, Schema};

    use super::*;
    use crate::columns::large_columns;
    use crate::loans::STREAM_LOANS_MAX;

    const LARGE_BYTES: usize = 64 << 10;

    fn lend(lending: &Lending, chunk: &Chunk) -> Option<(Lent, Chunk)> {
        lending.lend(chunk, &large_columns(chunk).expect("columns"), false).expect("a chunk")
    }

    fn stream(lender: &Arc<Lender>, reader: u64, stream: u64) -> Option<Lending> {
        lender.stream(ReaderStream { reader, stream })
    }

    fn lender() -> Arc<Lender> {
        let arena = Arena::shared().expect("a memfd");
        let loans = Mutex::new(Loans::new(uuid::Uuid::new_v4().as_u128() as u64));
        Arc::new(Lender { arena, socket: String::new(), loans })
    }

    fn chunk(memory: &Memory) -> Chunk {
        let schema = Schema::new(vec![
            Field::new("small", Kind::scalar(DType::Int64)),
            Field::new("large", Kind::fixed(DType::Uint8, &[LARGE_BYTES])),
        ]);
        let small: arrow_array::ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![1, 2]));
        let mut large = FixedTensorBuilder::within(memory, DType::Uint8, &[LARGE_BYTES], 2);
        large.all().fill(7);
        let columns = vec![small, large.finish().expect("a column")];
        let ids = vec![RowId { sample: SampleId(0), epoch: Epoch(0) }; 2].into();
        Chunk::new(Arc::new(schema.expect("a schema")), columns, ids).expect("a chunk")
    }

    /// How many loans there are, and streams.
    fn outstanding(lender: &Lender) -> (usize, usize) {
        lock(&lender.loans).check().expect("the account is right");
        lock(&lender.loans).outstanding()
    }

    #[test]
    fn large_columns_are_lent_where_they_are_or_copied_there_once() {
        let lender = lender();
        let reader = lock(&lender.loans).enter().expect("a reader");
        let lending = stream(&lender, reader, 5).expect("known");
        let here = chunk(&Memory::within(lender.arena.clone()));
        let elsewhere = chunk(&Memory::default());
        let to_copy = |chunk| lending.bytes_to_copy(&large_columns(chunk).expect("columns"));
        assert_eq!((to_copy(&here), to_copy(&elsewhere)), (0, 2 * LARGE_BYTES));
        for chunk in [here, elsewhere] {
            let (lent, rest) = lend(&lending, &chunk).expect("a loan");
            assert_eq!(rest.schema().fields().iter().map(|f| &f.name[..]).collect::<Vec<_>>(), ["small"]);
            let [column] = lent.columns[..] else { panic!("{lent:?}") };
            assert_eq!((column.column, column.len), (1, 2 * LARGE_BYTES as u64));
        }
        assert!(stream(&lender, 99, 1).is_none());
    }

    #[test]
    fn who_has_the_memory_of_another_process_is_not_known() {
        let (before, after) = (lender(), lender());
        let old = lock(&before.loans).enter().expect("a reader");
        let new = lock(&after.loans).enter().expect("a reader");
        assert!(stream(&before, old, 1).is_some() && stream(&after, new, 1).is_some());
        assert!(stream(&after, old, 1).is_none(), "it is sent copies");
    }

    #[test]
    fn a_reader_that_keeps_everything_is_sent_copies() {
        let lender = lender();
        let reader = lock(&lender.loans).enter().expect("a reader");
        let lending = stream(&lender, reader, 5).expect("known");
        let chunk = chunk(&Memory::within(lender.arena.clone()));
        let mut lent = 0;
        while lend(&lending, &chunk).is_some() {
            lent += 2 * LARGE_BYTES;
            assert!(lent <= STREAM_LOANS_MAX);
        }
        assert_eq!(lent, STREAM_LOANS_MAX);
        lender.take_back(reader, Return::Loan(1));
        assert!(lend(&lending, &chunk).is_some());
    }

    #[test]
    fn a_loan_ends_when_it_is_given_back_lost_or_its_reader_is_gone() {
        let lender = lender();
        let reader = lock(&lender.loans).enter().expect("a reader");
        let present = Present { lender: &lender, number: reader };
        let [one, two] = [1, 2].map(|s| stream(&lender, reader, s).expect("known"));
        let chunk = chunk(&Memory::within(lender.arena.clone()));
        let lend = |to: &Lending| lend(to, &chunk).map(|(lent, _)| lent.loan);
        assert_eq!([lend(&one), lend(&two), lend(&one), lend(&two)], [1, 2, 3, 4].map(Some));
        lender.take_back(reader, Return::Loan(1));
        assert_eq!(outstanding(&lender), (3, 2));
        // Loan 3 was on its way when the reader left stream 1: it has it not, nor will it have another.
        lender.take_back(reader, Return::Stream { stream: 1, last: 1 });
        assert_eq!(outstanding(&lender), (2, 2));
        assert_eq!((lend(&one), lend(&two)), (None, Some(5)));
        drop(one);
        assert_eq!(outstanding(&lender), (3, 1));
        drop(present);
        assert_eq!((lend(&two), outstanding(&lender)), (None, (0, 0)));
    }
}
