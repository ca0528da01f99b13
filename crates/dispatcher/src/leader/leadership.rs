//! Who answers requests: this process while it leads, and otherwise an error that says who does.
//!
//! Invariant: whatever a request is given to belongs to a term that holds at that moment.

use std::sync::{Arc, PoisonError, RwLock};

use forebay_core::Result;
use forebay_proto::not_leader;

use crate::handle::Handle;
use crate::jobs::Opener;
use crate::leader::term::Term;
use crate::store::BlobStore;

/// What answers requests while this process leads.
pub(crate) struct Leading {
    pub(crate) term: Arc<Term>,
    pub(crate) actor: Handle,
    pub(crate) blobs: BlobStore,
    pub(crate) opener: Arc<Opener>,
}

enum Is {
    Leader(Arc<Leading>),
    /// Of whom, as far as is known.
    Follower(Option<String>),
}

/// Whether this process leads or follows.
pub(crate) struct Leadership(RwLock<Is>);

impl Leadership {
    /// Nobody is known to lead.
    pub(crate) fn new() -> Self {
        Self(RwLock::new(Is::Follower(None)))
    }

    /// This process leads.
    pub(crate) fn lead(&self, leading: Leading) {
        self.set(Is::Leader(Arc::new(leading)));
    }

    /// Another process leads, or nobody.
    pub(crate) fn follow(&self, leader: Option<&str>) {
        self.set(Is::Follower(leader.map(str::to_owned)));
    }

    fn set(&self, is: Is) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = is;
    }

    /// Returns what answers.
    ///
    /// # Errors
    /// Unavailable, with who leads (see [`not_leader`]), when this process does not.
    pub(crate) fn leading(&self) -> Result<Arc<Leading>> {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            Is::Leader(leading) if leading.term.holds() => Ok(leading.clone()),
            Is::Leader(_) | Is::Follower(None) => Err(not_leader("this dispatcher waits for one to be elected", "")),
            Is::Follower(Some(leader)) => Err(not_leader("this dispatcher does not lead", leader)),
        }
    }
}
