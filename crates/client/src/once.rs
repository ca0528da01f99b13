//! Calls that cannot be done twice, made again because their answer was lost.
//!
//! Whoever asks again for what was done already is refused for that very reason. It is then done, as it was asked for; unless nobody can
//! have done it before: somebody answered that it does not lead, and who does; or there was no connection to ask over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_core::ErrorKind;
use forebay_proto::{leader, to_error};
use tonic::{ConnectError, Response, Status};

/// One such call, through all its tries. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Once {
    /// How a try is refused after one that was done.
    done: ErrorKind,
    /// Whether an answer was lost.
    lost: Arc<AtomicBool>,
}

impl Once {
    pub(crate) fn new(done: ErrorKind) -> Self {
        Self { done, lost: Arc::default() }
    }

    /// Takes the answer to a try; returns what it means.
    ///
    /// # Errors
    /// What was answered, unless an earlier try was done.
    pub(crate) fn answer<T: Default>(&self, answer: Result<Response<T>, Status>) -> Result<Response<T>, Status> {
        answer.or_else(|status| {
            let error = to_error(&status, "");
            if error.kind() == self.done && self.lost.load(Ordering::Relaxed) {
                return Ok(Response::new(T::default()));
            }
            if error.kind() == ErrorKind::Unavailable && leader(&error).flatten().is_none() && may_have_come(&status) {
                self.lost.store(true, Ordering::Relaxed);
            }
            Err(status)
        })
    }
}

/// Says whether the request may have come to a dispatcher: a connection was there when it was sent.
fn may_have_come(status: &Status) -> bool {
    let first = std::error::Error::source(status);
    !std::iter::successors(first, |error| error.source()).any(|error| error.is::<ConnectError>())
}

#[cfg(test)]
mod tests {
    use forebay_core::Error;
    use forebay_proto::{CancelJobRequest, Remote, client, not_leader, to_status};
    use tonic::transport::Endpoint;

    use super::*;

    /// Returns whether the last of these answers, each an error, is taken as success.
    fn is_done(answers: &[Error]) -> bool {
        let once = Once::new(ErrorKind::NotFound);
        let all: Vec<_> = answers.iter().map(|error| once.answer::<()>(Err(to_status(error))).is_ok()).collect();
        assert!(all.iter().rev().skip(1).all(|is_ok| !is_ok), "{all:?}");
        all.last() == Some(&true)
    }

    #[test]
    fn what_is_refused_as_done_is_done_where_an_answer_was_lost() {
        let gone = || Error::new(ErrorKind::NotFound, "there is no job");
        let other = Error::new(ErrorKind::Conflict, "it goes on");
        assert!(is_done(&[Error::unavailable("connection reset"), gone()]));
        assert!(is_done(&[not_leader("the dispatcher is stopping", ""), not_leader("waits", "b:1"), gone()]));
        assert!(!is_done(&[gone()]), "there never was one");
        assert!(!is_done(&[not_leader("waits", "b:1"), gone()]), "nobody has done anything");
        assert!(!is_done(&[Error::unavailable("connection reset"), other]));
    }

    #[test]
    fn what_was_never_sent_is_not_taken_for_done() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let unused = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port");
        let refused = runtime.block_on(async {
            let channel = Endpoint::from_shared(format!("http://{unused}")).expect("an address").connect_lazy();
            let mut dispatcher = client(Remote::new(unused.to_string()).link(channel));
            dispatcher.cancel_job(CancelJobRequest::default()).await.expect_err("nobody listens")
        });
        assert_eq!(to_error(&refused, "").kind(), ErrorKind::Unavailable, "it is tried again");
        let once = Once::new(ErrorKind::NotFound);
        let gone = || to_status(&Error::new(ErrorKind::NotFound, "there is no job"));
        assert!(once.answer::<()>(Err(refused)).is_err());
        assert!(once.answer::<()>(Err(gone())).is_err(), "nobody can have done it");
        let broken = Status::from_error(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
        assert!(once.answer::<()>(Err(broken)).is_err());
        assert!(once.answer::<()>(Err(gone())).is_ok(), "somebody may have heard it");
    }
}
