//! The loans that this process holds in the shared memory of one worker, and the messages that return them. No I/O: the
//! messages go into a channel.
//!
//! Invariants: a loan is returned once, when its last reference is dropped; a stream sends one message at its end,
//! which names its last loan.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use forebay_proto::{ConsumerStream, Return};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// All loans of one worker to this process.
pub(crate) struct Loans {
    /// The number that the worker gave to this process.
    reader: u64,
    streams: AtomicU64,
    /// Holds at most one message for each loan and each stream.
    returns: AssertUnwindSafe<UnboundedSender<Return>>,
}

impl Loans {
    /// Creates the loans of the process that the worker numbered `reader`, and the channel of messages to the worker.
    pub(crate) fn new(reader: u64) -> (Arc<Self>, UnboundedReceiver<Return>) {
        let (sender, returns) = unbounded_channel();
        (Arc::new(Self { reader, streams: AtomicU64::new(0), returns: AssertUnwindSafe(sender) }), returns)
    }

    /// Begins a stream.
    pub(crate) fn stream(self: &Arc<Self>) -> StreamLoans {
        StreamLoans { loans: self.clone(), stream: self.streams.fetch_add(1, Relaxed), last: 0 }
    }

    /// Sends a message to the worker. A closed channel is no error: a dead worker needs no returns.
    fn send(&self, message: Return) {
        let _ = self.returns.send(message);
    }
}

/// The loans of one stream of chunks. Dropping it ends the stream.
pub(crate) struct StreamLoans {
    loans: Arc<Loans>,
    stream: u64,
    last: u64,
}

impl StreamLoans {
    /// Returns the name of the stream in the request to the worker.
    pub(crate) fn reader(&self) -> ConsumerStream {
        ConsumerStream { reader: self.loans.reader, stream: self.stream }
    }

    /// Takes a loan that arrived on the stream.
    pub(crate) fn take(&mut self, loan: u64) -> Loan {
        self.last = self.last.max(loan);
        Loan { loans: self.loans.clone(), loan }
    }
}

impl Drop for StreamLoans {
    fn drop(&mut self) {
        self.loans.send(Return::Stream { stream: self.stream, last: self.last });
    }
}

/// A borrowed part of the worker's memory. Dropping it returns the loan.
pub(crate) struct Loan {
    loans: Arc<Loans>,
    loan: u64,
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.loans.send(Return::Loan(self.loan));
    }
}
