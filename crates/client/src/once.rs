//! Calls that cannot be done twice, made again because their answer was lost.
//!
//! Whoever asks again for what was done already is refused for that very reason. It is then done, as it was asked for; unless nobody can
//! have done it before: somebody answered that it does not lead, and who does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_core::ErrorKind;
use forebay_proto::{leader, to_error};
use tonic::{Response, Status};

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
            if error.kind() == ErrorKind::Unavailable && leader(&error).flatten().is_none() {
                self.lost.store(true, Ordering::Relaxed);
            }
            Err(status)
        })
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::Error;
    use forebay_proto::{not_leader, to_status};

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
}
