//! The loans of a worker to a process on its host.

use std::sync::Arc;

use forebay_proto::{ConsumerStream, Return};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::fetch::loans::{Loan, Loans, StreamLoans};

/// The loans of one worker to a process on its host.
pub struct Borrower {
    loans: Arc<Loans>,
    returns: UnboundedReceiver<Return>,
}

/// The loans of one stream. Dropping it ends the stream.
pub struct Borrowing(StreamLoans);

/// One loan. Dropping it returns the loan.
pub struct Borrowed {
    _loan: Loan,
}

impl Borrower {
    /// Creates the borrower that the worker numbered `reader`.
    pub fn new(reader: u64) -> Self {
        let (loans, returns) = Loans::new(reader);
        Self { loans, returns }
    }

    /// Begins a stream.
    pub fn stream(&self) -> Borrowing {
        Borrowing(self.loans.stream())
    }

    /// Returns the messages to the worker.
    pub fn take_returns(&mut self) -> Vec<Return> {
        std::iter::from_fn(|| self.returns.try_recv().ok()).collect()
    }
}

impl Borrowing {
    /// Returns the name of the stream in the request to the worker.
    pub fn reader(&self) -> ConsumerStream {
        self.0.reader()
    }

    /// Takes a loan that arrived on the stream.
    pub fn take(&mut self, loan: u64) -> Borrowed {
        Borrowed { _loan: self.0.take(loan) }
    }
}
