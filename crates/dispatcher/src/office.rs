//! Who answers requests: this process while it leads, and otherwise an error that says who does.
//!
//! Invariant: whatever a request is given to belongs to a term that holds at that moment.

use std::sync::{Arc, PoisonError, RwLock};

use forebay_core::Result;
use forebay_proto::not_leader;

use crate::handle::Handle;
use crate::jobs::Opener;
use crate::store::BlobStore;
use crate::term::Term;

/// What answers requests while this process leads.
pub(crate) struct Seat {
    pub(crate) term: Arc<Term>,
    pub(crate) actor: Handle,
    pub(crate) blobs: BlobStore,
    pub(crate) opener: Arc<Opener>,
}

enum Is {
    Held(Arc<Seat>),
    /// By whom, as far as is known.
    Elsewhere(Option<String>),
}

/// The seat, and who holds it.
pub(crate) struct Office(RwLock<Is>);

impl Office {
    /// Nobody is known to lead.
    pub(crate) fn new() -> Self {
        Self(RwLock::new(Is::Elsewhere(None)))
    }

    /// This process leads.
    pub(crate) fn take(&self, seat: Seat) {
        self.set(Is::Held(Arc::new(seat)));
    }

    /// Another process leads, or nobody.
    pub(crate) fn leave(&self, leader: Option<&str>) {
        self.set(Is::Elsewhere(leader.map(str::to_owned)));
    }

    fn set(&self, is: Is) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = is;
    }

    /// Returns what answers.
    ///
    /// # Errors
    /// Unavailable, with who leads (see [`not_leader`]), when this process does not.
    pub(crate) fn seat(&self) -> Result<Arc<Seat>> {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            Is::Held(seat) if seat.term.holds() => Ok(seat.clone()),
            Is::Held(_) | Is::Elsewhere(None) => Err(not_leader("this dispatcher waits for one to be elected", "")),
            Is::Elsewhere(Some(leader)) => Err(not_leader("this dispatcher does not lead", leader)),
        }
    }
}
