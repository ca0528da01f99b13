//! Answers requests while this process leads; otherwise returns an error that names the leader.
//!
//! Invariant: a request only reaches parts of a term that holds at that moment.

use std::sync::{Arc, PoisonError, RwLock};

use forebay_core::Result;
use forebay_proto::not_leader;

use crate::actor::handle::Handle;
use crate::jobs::Opener;
use crate::leader::term::Term;
use crate::store::BlobStore;

/// The parts that answer requests while this process leads.
pub(crate) struct Leading {
    pub(crate) term: Arc<Term>,
    pub(crate) actor: Handle,
    pub(crate) blobs: BlobStore,
    pub(crate) opener: Arc<Opener>,
}

enum Role {
    Leader(Arc<Leading>),
    /// The leader's address, if that is known.
    Follower(Option<String>),
}

/// Whether this process leads or follows.
pub(crate) struct Leadership(RwLock<Role>);

impl Leadership {
    /// No leader is known yet.
    pub(crate) fn new() -> Self {
        Self(RwLock::new(Role::Follower(None)))
    }

    /// This process leads.
    pub(crate) fn lead(&self, leading: Leading) {
        self.set(Role::Leader(Arc::new(leading)));
    }

    /// Another process leads, or none does.
    pub(crate) fn follow(&self, leader: Option<&str>) {
        self.set(Role::Follower(leader.map(str::to_owned)));
    }

    fn set(&self, role: Role) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = role;
    }

    /// Returns the parts that answer requests.
    ///
    /// # Errors
    /// Unavailable, with the leader's address (see [`not_leader`]), when this process does not lead.
    pub(crate) fn leading(&self) -> Result<Arc<Leading>> {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            Role::Leader(leading) if leading.term.holds() => Ok(leading.clone()),
            Role::Leader(_) | Role::Follower(None) => {
                Err(not_leader("this dispatcher waits for one to be elected", ""))
            }
            Role::Follower(Some(leader)) => Err(not_leader("this dispatcher does not lead", leader)),
        }
    }
}
