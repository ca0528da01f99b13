//! Garbage collection of blobs: removes blobs that no job needs, while this process leads.
//!
//! Clients upload blobs before they open the job that needs them, and do not upload blobs that exist. So a blob is
//! removed only if for a whole grace period no job needed it, and no client requested it, uploaded it or began to open
//! a job with it.

#![expect(clippy::disallowed_methods, reason = "blobs are collected now and then")]

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Clock, Result};
use forebay_plan::Graph;

use crate::actor::handle::Handle;
use crate::leader::term::Term;
use crate::records::JobRecord;
use crate::store::{BlobKey, BlobStore};

/// The shortest and the longest time between two runs; in between, two runs in a grace period.
const LOOK_MIN: Duration = Duration::from_millis(50);
const LOOK_MAX: Duration = Duration::from_secs(300);

/// Collects the garbage of one term.
pub(crate) struct BlobGc {
    pub(crate) actor: Handle,
    pub(crate) blobs: BlobStore,
    pub(crate) term: Arc<Term>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) grace: Duration,
}

impl BlobGc {
    /// Runs until the term is over, or the actor is gone.
    pub(crate) async fn run(self) {
        let every = (self.grace / 2).clamp(LOOK_MIN, LOOK_MAX);
        loop {
            tokio::select! {
                () = self.term.ended() => return,
                () = tokio::time::sleep(every) => {}
            }
            let Ok(jobs) = self.actor.records().await else { return };
            let (blobs, term, now, grace) = (self.blobs.clone(), self.term.clone(), self.clock.now(), self.grace);
            let collect = move || blobs.collect_garbage(&needed(&jobs)?, now, grace, &term);
            match tokio::task::spawn_blocking(collect).await {
                Ok(Ok(0)) => {}
                Ok(Ok(removed)) => tracing::info!(removed, "removed blobs that no job needs"),
                // The next run tries again.
                Ok(Err(error)) => {
                    tracing::warn!(%error, "could not remove blobs that no job needs; trying again later")
                }
                Err(_) => return,
            }
        }
    }
}

/// Returns the blobs that jobs need.
///
/// # Errors
/// Data when a job cannot be read: then no blob is known to be garbage.
fn needed(jobs: &[Arc<JobRecord>]) -> Result<HashSet<BlobKey>> {
    let mut needed = HashSet::new();
    for job in jobs {
        let graph = Graph::from_json(&job.graph)?;
        let ids = graph.blobs().into_iter().map(|id| id.0.clone()).chain([job.index.clone()]);
        needed.extend(ids.map(|id| (job.tenant.clone(), id)));
    }
    Ok(needed)
}
