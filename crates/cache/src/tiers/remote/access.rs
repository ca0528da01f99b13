//! Whether a remote place can be read or written now: its breaker, and the reason for messages.

use std::sync::Mutex;

use forebay_core::{Error, ErrorKind};

use crate::tiers::remote::breaker::Breaker;

/// Reading or writing, and whether it works now.
#[derive(Debug)]
pub(crate) struct Access {
    /// Its name in warnings.
    what: &'static str,
    pub(crate) breaker: Breaker,
    /// The reason why it is not used now.
    pub(crate) why: Option<String>,
    /// The last failure since a success.
    pub(crate) failure: Option<String>,
    warned: bool,
}

impl Access {
    pub(crate) fn new(what: &'static str) -> Mutex<Self> {
        Mutex::new(Self { what, breaker: Breaker::default(), why: None, failure: None, warned: false })
    }

    pub(crate) fn succeeded(&mut self) {
        if self.breaker.succeeded() {
            tracing::info!("the cache's store is {} again", self.what);
        }
        (self.why, self.failure) = (None, None);
    }

    pub(crate) fn failed(&mut self, uri: &str, error: &Error, now: u64) {
        self.failure = Some(error.to_string());
        let lasting = matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Exhausted | ErrorKind::Invalid);
        if self.breaker.failed(now, lasting) {
            self.why = Some(error.to_string());
            if !std::mem::replace(&mut self.warned, true) {
                tracing::warn!(
                    store = uri,
                    "the cache's store is not {} for a while, and tried again later; jobs go on without: {error}",
                    self.what
                );
            }
        }
    }
}
