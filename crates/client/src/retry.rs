//! Retries of calls that are not idempotent, after an answer was lost.
//!
//! A retry of a completed call is refused: a second cancel returns Closed, a second forget NotFound. The client reports
//! such a refusal as success if an earlier attempt may have reached the leader. An attempt did not reach the leader if
//! there was no connection to send it over, or if a dispatcher that named the leader answered it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_core::ErrorKind;
use forebay_proto::{leader, to_error};
use tonic::{ConnectError, Response, Status};

/// One such call, over all its attempts. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct NonIdempotentCall {
    /// The error kind that an attempt gets if an earlier one succeeded.
    completed: ErrorKind,
    /// Whether the answer of an attempt that may have succeeded was lost.
    answer_lost: Arc<AtomicBool>,
}

impl NonIdempotentCall {
    pub(crate) fn new(completed: ErrorKind) -> Self {
        Self { completed, answer_lost: Arc::default() }
    }

    /// Classifies the answer to one attempt; returns the outcome of the call.
    ///
    /// # Errors
    /// The status of the answer, unless it shows that an earlier attempt succeeded.
    pub(crate) fn outcome<T: Default>(&self, answer: Result<Response<T>, Status>) -> Result<Response<T>, Status> {
        answer.or_else(|status| {
            let error = to_error(&status, "");
            if error.kind() == self.completed && self.answer_lost.load(Ordering::Relaxed) {
                return Ok(Response::new(T::default()));
            }
            let named_leader = leader(&error).flatten().is_some();
            if error.kind() == ErrorKind::Unavailable && !named_leader && may_have_been_sent(&status) {
                self.answer_lost.store(true, Ordering::Relaxed);
            }
            Err(status)
        })
    }
}

/// Returns whether the request may have reached a dispatcher: a connection existed when it was sent.
fn may_have_been_sent(status: &Status) -> bool {
    let first = std::error::Error::source(status);
    !std::iter::successors(first, |error| error.source()).any(|error| error.is::<ConnectError>())
}

#[cfg(test)]
mod tests {
    use forebay_core::Error;
    use forebay_proto::{CancelJobRequest, Remote, client, not_leader, to_status};
    use tonic::transport::Endpoint;

    use super::*;

    /// Returns whether the call treats the last of these answers, each an error, as success.
    fn succeeds(answers: &[Error]) -> bool {
        let call = NonIdempotentCall::new(ErrorKind::NotFound);
        let all: Vec<_> = answers.iter().map(|error| call.outcome::<()>(Err(to_status(error))).is_ok()).collect();
        assert!(all.iter().rev().skip(1).all(|is_ok| !is_ok), "{all:?}");
        all.last() == Some(&true)
    }

    #[test]
    fn a_retry_refused_as_completed_succeeds_if_an_answer_was_lost() {
        let gone = || Error::new(ErrorKind::NotFound, "there is no job");
        let other = Error::new(ErrorKind::Conflict, "it goes on");
        assert!(succeeds(&[Error::unavailable("connection reset"), gone()]));
        assert!(succeeds(&[not_leader("the dispatcher is stopping", ""), not_leader("waits", "b:1"), gone()]));
        assert!(!succeeds(&[gone()]), "the first attempt");
        assert!(!succeeds(&[not_leader("waits", "b:1"), gone()]), "no leader was reached");
        assert!(!succeeds(&[Error::unavailable("connection reset"), other]));
    }

    #[test]
    fn an_attempt_that_was_never_sent_does_not_count_as_completed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let unused = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port");
        let refused = runtime.block_on(async {
            let channel = Endpoint::from_shared(format!("http://{unused}")).expect("an address").connect_lazy();
            let mut dispatcher = client(Remote::new(unused.to_string()).link(channel));
            dispatcher.cancel_job(CancelJobRequest::default()).await.expect_err("the port is closed")
        });
        assert_eq!(to_error(&refused, "").kind(), ErrorKind::Unavailable, "the caller retries");
        let call = NonIdempotentCall::new(ErrorKind::NotFound);
        let gone = || to_status(&Error::new(ErrorKind::NotFound, "there is no job"));
        assert!(call.outcome::<()>(Err(refused)).is_err());
        assert!(call.outcome::<()>(Err(gone())).is_err(), "no attempt reached a dispatcher");
        let broken = Status::from_error(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
        assert!(call.outcome::<()>(Err(broken)).is_err());
        assert!(call.outcome::<()>(Err(gone())).is_ok(), "the second attempt may have reached the leader");
    }
}
