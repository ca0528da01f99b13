//! Builds the actor and the services from a ledger, at a start and at the begin of each term.

#![expect(clippy::disallowed_methods, reason = "numbers and secrets of this term")]

use std::sync::Arc;

use forebay_core::{Clock, Result};
use forebay_policy::fleet::Offer;

use crate::actor::Actor;
use crate::actor::handle::Handle;
use crate::gc::BlobGc;
use crate::indexing::Indexer;
use crate::jobs::{Opener, splits};
use crate::leader::leadership::Leading;
use crate::leader::term::Term;
use crate::options::{Retention, Scaling, Timing};
use crate::records::Ledger;
use crate::state::State;
use crate::store::{BlobStore, Committer};

/// Everything that does not depend on the ledger.
pub(crate) struct Recovery {
    pub(crate) timing: Timing,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) indexer: Arc<dyn Indexer>,
    /// Whether jobs have keys, and workers have keys for each other: they do if there are tokens.
    pub(crate) with_keys: bool,
    /// The scaling policy.
    pub(crate) scaling: Scaling,
    /// The types of workers that can be started.
    pub(crate) offers: Arc<[Offer]>,
    /// How long jobs that are over are kept.
    pub(crate) retention: Retention,
    /// The sources that pipelines may read.
    pub(crate) sources: Arc<[String]>,
}

impl Recovery {
    /// Must be called within a runtime.
    ///
    /// # Errors
    /// Data when a job of the ledger cannot be planned.
    pub(crate) fn begin(
        &self,
        ledger: &Ledger,
        committer: Committer,
        blobs: BlobStore,
        term: Arc<Term>,
    ) -> Result<(Actor, Leading)> {
        let mut recovered = Vec::new();
        let mut state = State::recover(self.timing, self.clock.now(), ledger, splits, &mut recovered)?;
        state.set_scaling(self.scaling.clone());
        state.set_offers(self.offers.clone());
        state.set_retention(self.retention);
        // A consumer names its job by number, also to a dispatcher whose ledger was lost or is an older copy.
        state.pass_job_numbers(uuid::Uuid::new_v4().as_u128() as u32);
        if self.with_keys {
            state.set_secret(uuid::Uuid::new_v4().into_bytes());
        }
        let (handle, inbox) = Handle::new();
        let actor = Actor::new(state, recovered, self.clock.clone(), inbox, committer, term.clone());
        let (indexer, clock, grace) = (self.indexer.clone(), self.clock.clone(), self.retention.blobs);
        let (with_keys, sources) = (self.with_keys, self.sources.clone());
        let opener = Opener::new(handle.clone(), blobs.clone(), indexer, clock.clone(), with_keys, sources);
        tokio::spawn(BlobGc { actor: handle.clone(), blobs: blobs.clone(), term: term.clone(), clock, grace }.run());
        Ok((actor, Leading { term, actor: handle, blobs, opener: Arc::new(opener) }))
    }
}
