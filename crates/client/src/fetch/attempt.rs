//! One assignment while it is fetched: the action after its stream of chunks ended. No I/O.

use forebay_core::{Error, ErrorKind};
use forebay_proto::{UNREADABLE, Unreachable, in_one_line};

use crate::stream::reorder_buffer::Assignment;
use crate::stream::shared::StreamState;

/// Why a stream of chunks ended before its split was complete.
#[derive(Debug)]
pub(crate) enum FetchError {
    /// The split failed: it would fail on another worker, too.
    Split(Error),
    /// The worker or the connection failed: another worker may succeed.
    Worker(Error),
    /// The worker cannot read a file of the split: another worker may be able to.
    Unreadable(Error),
    /// The assignment is no longer wanted.
    Unwanted,
}

/// The next action of the fetcher.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextAction {
    Stop,
    /// It opens another stream, for the chunks that are missing.
    Reopen,
    /// It stops, and the session sends an Unreachable message.
    Report,
}

/// An assignment, and whether its stream may be opened again.
#[derive(Debug)]
pub(crate) struct FetchAttempt {
    pub(crate) assignment: Assignment,
    /// After progress, one more connection is tried: the worker may be alive although its host reset the connection.
    may_reopen: bool,
}

impl FetchAttempt {
    pub(crate) fn new(assignment: Assignment) -> Self {
        Self { assignment, may_reopen: true }
    }

    pub(crate) fn after(&mut self, state: &mut StreamState, ended: Result<(), FetchError>) -> NextAction {
        let end = match ended {
            Ok(()) => Ok(()),
            Err(FetchError::Split(error)) => Err(error),
            Err(FetchError::Unwanted) => return NextAction::Stop,
            Err(FetchError::Worker(error)) => return self.worker_failed(state, &error),
            Err(FetchError::Unreadable(error)) => {
                let received = state.buffer.num_received(self.assignment.split);
                match state.unreadable.add(state.buffer.head(), &self.assignment, received, &error) {
                    Some(error) => Err(error),
                    None => {
                        self.may_reopen = false;
                        return self.worker_failed(state, &error.with(UNREADABLE, &self.assignment.address));
                    }
                }
            }
        };
        state.buffer.end_split(&self.assignment, end);
        NextAction::Stop
    }

    fn worker_failed(&mut self, state: &mut StreamState, error: &Error) -> NextAction {
        let start = self.assignment.from_chunk;
        match state.buffer.resume(&self.assignment) {
            None => return NextAction::Stop,
            Some(resumed) => self.assignment = resumed,
        }
        if self.assignment.from_chunk > start && std::mem::take(&mut self.may_reopen) {
            return NextAction::Reopen;
        }
        let Assignment { split, token, address, .. } = &self.assignment;
        tracing::info!(
            worker = address,
            ?split,
            error = error.message(),
            "a worker did not send a split; requesting another worker"
        );
        if !state.buffer.stop_fetch(&self.assignment) {
            return NextAction::Stop;
        }
        let unavailable = |address| Error::unavailable(format!("the worker at {address} does not hold the split"));
        state.last_failure = Some(in_one_line(error));
        // The user may see this error, if no further attempt follows. A ticket is of no use to the user.
        let error = if error.get("ticket").is_some() { unavailable(address) } else { error.clone() };
        let (epoch, ordinal, error) = (split.epoch, split.ordinal, error.to_json());
        state.outgoing.unreachable.push(Unreachable { epoch, ordinal, token: *token, error });
        NextAction::Report
    }
}

/// Classifies an error that a worker sent. It is the worker's error if the lease is gone (context `ticket`), or if
/// something did not answer the worker. A file may be missing on one machine alone. All other errors are the split's.
pub(crate) fn classify(error: Error) -> FetchError {
    let of_worker = error.get("ticket").is_some() || matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Closed);
    match error.kind() {
        _ if of_worker => FetchError::Worker(error),
        ErrorKind::NotFound | ErrorKind::PermissionDenied => FetchError::Unreadable(error),
        _ => FetchError::Split(error),
    }
}
