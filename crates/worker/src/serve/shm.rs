//! Lends the memory of chunks to consumers on this machine (see `forebay_proto`'s `local`).
//!
//! A chunk that is lent to one consumer alone becomes that consumer's: it may write to it, and the worker computes the
//! split again if the same chunk is requested. A chunk that others read too is lent to each of them read-only.
//! Invariant: a loan ends when its consumer returns it, when the consumer left the stream before the loan arrived, or
//! when the consumer's process is gone; only then is the memory used again. `loans` counts and bounds the loans. Beyond
//! the bound, consumers get copies, and a slow consumer then slows its own stream.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_buffer::Buffer;
use forebay_core::{Result, WorkerId};
use forebay_data::{Arena, Chunk};
use forebay_proto::{ConsumerStream, Lent, LentColumn, Return, is_same_user, send_arena};
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use crate::lock::lock;
use crate::serve::columns::{LargeColumn, without};
use crate::serve::loans::Loans;

/// How long a new consumer may take to receive the arena.
const GREETING_MAX: Duration = Duration::from_secs(2);

/// Lends the memory of one worker.
pub(crate) struct Lender {
    arena: Arc<Arena>,
    socket: String,
    loans: Mutex<Loans<Vec<Buffer>>>,
}

impl Lender {
    /// Listens for consumers until `stop`. Must be called within a runtime.
    ///
    /// # Errors
    /// The system's error, e.g. if it has no abstract sockets; nothing is lent then.
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

    /// Returns the name of the socket, in the abstract namespace.
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
                Ok(_) => tracing::warn!("refused to lend memory to a consumer of another user; it gets copies"),
                Err(error) => {
                    tracing::warn!(%error, "a consumer could not be accepted");
                    tokio::time::sleep(GREETING_MAX).await;
                }
            }
        }
    }

    /// Registers a consumer, and handles its return messages until it is gone.
    async fn serve(self: Arc<Self>, socket: UnixStream) {
        let Some(number) = lock(&self.loans).enter() else { return };
        let _attached = Attached { lender: &self, number };
        let mut socket = match self.greet(socket, number).await {
            Ok(socket) => socket,
            Err(error) => return tracing::warn!(%error, "could not lend the arena to a consumer on this machine"),
        };
        let mut said = [0; Return::BYTES];
        let mut is_told = false;
        // There is no network between the two: an error of the socket means that the consumer is gone.
        while socket.read_exact(&mut said).await.is_ok() {
            match Return::from_bytes(&said) {
                Some(said) => self.on_return(number, said),
                // The consumer may still use its loans, so the worker listens on; but it logs this once.
                None if is_told => {}
                None => {
                    is_told = true;
                    tracing::error!(consumer = number, "a consumer sent bytes that are not a return message");
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

    fn on_return(&self, consumer: u64, said: Return) {
        // The memory is freed outside the lock.
        let back = lock(&self.loans).on_return(consumer, said);
        drop(back);
    }

    /// Returns the lender for a stream of a consumer; `None` when the consumer is not attached here.
    pub(crate) fn stream(self: &Arc<Self>, of: ConsumerStream) -> Option<StreamLender> {
        lock(&self.loans).begin(of).then(|| StreamLender { lender: self.clone(), of })
    }
}

/// A consumer that has mapped the arena; dropping this ends its loans.
struct Attached<'a> {
    lender: &'a Lender,
    number: u64,
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        let back = lock(&self.lender.loans).leave(self.number);
        drop(back);
    }
}

/// Lends the chunks of one stream to its consumer.
pub(crate) struct StreamLender {
    lender: Arc<Lender>,
    of: ConsumerStream,
}

impl StreamLender {
    /// Lends the large columns of a chunk; `shared` is true if others read them, too. Returns the loan, and the chunk
    /// without the lent columns; `None` when none can be lent.
    ///
    /// # Errors
    /// Internal when the chunk does not match its schema.
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

    /// Returns how many bytes must be copied into the arena before they can be lent.
    pub(crate) fn bytes_to_copy(&self, large: &[LargeColumn]) -> usize {
        large.iter().filter(|c| self.lender.arena.offset_of(&c.values).is_none()).map(LargeColumn::len).sum()
    }

    /// Returns the offset of a column in the arena, after copying it there if necessary.
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

impl Drop for StreamLender {
    fn drop(&mut self) {
        lock(&self.lender.loans).end(self.of);
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{Epoch, SampleId};
    use forebay_data::{DType, Field, FixedTensorBuilder, Kind, Memory, RowId, Schema};

    use super::*;
    use crate::serve::columns::large_columns;
    use crate::serve::loans::STREAM_LOANS_MAX;

    const LARGE_BYTES: usize = 64 << 10;

    fn lend(lending: &StreamLender, chunk: &Chunk) -> Option<(Lent, Chunk)> {
        lending.lend(chunk, &large_columns(chunk).expect("columns"), false).expect("a chunk")
    }

    fn stream(lender: &Arc<Lender>, consumer: u64, stream: u64) -> Option<StreamLender> {
        lender.stream(ConsumerStream { reader: consumer, stream })
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

    /// Returns the number of loans, and of streams.
    fn outstanding(lender: &Lender) -> (usize, usize) {
        lock(&lender.loans).check().expect("the account is right");
        lock(&lender.loans).outstanding()
    }

    #[test]
    fn large_columns_are_lent_where_they_are_or_copied_there_once() {
        let lender = lender();
        let consumer = lock(&lender.loans).enter().expect("a consumer");
        let lending = stream(&lender, consumer, 5).expect("known");
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
        let old = lock(&before.loans).enter().expect("a consumer");
        let new = lock(&after.loans).enter().expect("a consumer");
        assert!(stream(&before, old, 1).is_some() && stream(&after, new, 1).is_some());
        assert!(stream(&after, old, 1).is_none(), "it is sent copies");
    }

    #[test]
    fn a_consumer_that_keeps_everything_is_sent_copies() {
        let lender = lender();
        let consumer = lock(&lender.loans).enter().expect("a consumer");
        let lending = stream(&lender, consumer, 5).expect("known");
        let chunk = chunk(&Memory::within(lender.arena.clone()));
        let mut lent = 0;
        while lend(&lending, &chunk).is_some() {
            lent += 2 * LARGE_BYTES;
            assert!(lent <= STREAM_LOANS_MAX);
        }
        assert_eq!(lent, STREAM_LOANS_MAX);
        lender.on_return(consumer, Return::Loan(1));
        assert!(lend(&lending, &chunk).is_some());
    }

    #[test]
    fn a_loan_ends_when_it_is_given_back_lost_or_its_consumer_is_gone() {
        let lender = lender();
        let consumer = lock(&lender.loans).enter().expect("a consumer");
        let present = Attached { lender: &lender, number: consumer };
        let [one, two] = [1, 2].map(|s| stream(&lender, consumer, s).expect("known"));
        let chunk = chunk(&Memory::within(lender.arena.clone()));
        let lend = |to: &StreamLender| lend(to, &chunk).map(|(lent, _)| lent.loan);
        assert_eq!([lend(&one), lend(&two), lend(&one), lend(&two)], [1, 2, 3, 4].map(Some));
        lender.on_return(consumer, Return::Loan(1));
        assert_eq!(outstanding(&lender), (3, 2));
        // Loan 3 was on its way when the consumer left stream 1: it ends, and the stream gets no other.
        lender.on_return(consumer, Return::Stream { stream: 1, last: 1 });
        assert_eq!(outstanding(&lender), (2, 2));
        assert_eq!((lend(&one), lend(&two)), (None, Some(5)));
        drop(one);
        assert_eq!(outstanding(&lender), (3, 1));
        drop(present);
        assert_eq!((lend(&two), outstanding(&lender)), (None, (0, 0)));
    }
}
