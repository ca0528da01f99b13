//! What this process has borrowed from one worker, and what it says when it needs that no more. No I/O: what is said goes into a channel.
//!
//! Invariants: a loan is given back once, when the last that refers to it is gone; a stream says once, at its end, which loan came last.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use forebay_proto::{Reader, Return};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The account of one worker's memory in this process.
pub(crate) struct Debts {
    /// This process's number at the worker.
    reader: u64,
    streams: AtomicU64,
    /// At most one message waits for each loan and stream.
    say: AssertUnwindSafe<UnboundedSender<Return>>,
}

impl Debts {
    /// Creates the debts of the reader that the worker numbered `reader`; the channel gives what the reader owes the worker.
    pub(crate) fn new(reader: u64) -> (Arc<Self>, UnboundedReceiver<Return>) {
        let (say, said) = unbounded_channel();
        (Arc::new(Self { reader, streams: AtomicU64::new(0), say: AssertUnwindSafe(say) }), said)
    }

    /// Begins a stream.
    pub(crate) fn stream(self: &Arc<Self>) -> Debtor {
        Debtor { debts: self.clone(), stream: self.streams.fetch_add(1, Relaxed), last: 0 }
    }

    /// A worker that is gone needs nothing back.
    fn say(&self, what: Return) {
        let _ = self.say.send(what);
    }
}

/// One stream on which something may be lent. Dropped, it has ended.
pub(crate) struct Debtor {
    debts: Arc<Debts>,
    stream: u64,
    last: u64,
}

impl Debtor {
    /// Returns what names it in the request.
    pub(crate) fn reader(&self) -> Reader {
        Reader { reader: self.debts.reader, stream: self.stream }
    }

    /// Takes a loan that came on it.
    pub(crate) fn take(&mut self, loan: u64) -> Loan {
        self.last = self.last.max(loan);
        Loan { debts: self.debts.clone(), loan }
    }
}

impl Drop for Debtor {
    fn drop(&mut self) {
        self.debts.say(Return::Stream { stream: self.stream, last: self.last });
    }
}

/// Something that was borrowed. Dropped, it is given back.
pub(crate) struct Loan {
    debts: Arc<Debts>,
    loan: u64,
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.debts.say(Return::Loan(self.loan));
    }
}
