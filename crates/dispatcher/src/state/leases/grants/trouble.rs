//! The failures of a split: failed fetches, and workers that were lost while they computed it.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_core::{Ticks, WorkerId};

/// Workers that a split may end.
pub(in crate::state::leases) const DEATHS_MAX: usize = 3;

/// The failures of a split so far.
#[derive(Debug, Clone, Default)]
pub(in crate::state::leases) struct Trouble {
    /// How often the consumer could not fetch the split.
    pub(in crate::state::leases) failures: u32,
    /// How often a worker answered the fetch, and refused it.
    pub(in crate::state::leases) refusals: u32,
    /// Since when the consumer can reach no worker for this split.
    pub(in crate::state::leases) unreached: Option<Ticks>,
    /// Workers that were lost while they computed the split, and did not come back.
    pub(in crate::state::leases) deaths: Vec<Death>,
    /// The worker where the split failed last, and when.
    pub(in crate::state::leases) avoid: Option<(WorkerId, Ticks)>,
    /// The workers that cannot read a file of the split.
    pub(in crate::state::leases) unreadable_at: BTreeSet<WorkerId>,
}

/// A worker that was lost, and when.
#[derive(Debug, Clone)]
pub(in crate::state::leases) struct Death {
    pub(in crate::state::leases) worker: WorkerId,
    pub(in crate::state::leases) address: Arc<str>,
    pub(in crate::state::leases) at: Ticks,
}

impl Trouble {
    /// Returns whether the split may have ended as many workers as are allowed. It is not granted until it is known
    /// whether these are dead.
    pub(in crate::state::leases) fn is_held(&self) -> bool {
        self.deaths.len() >= DEATHS_MAX
    }

    /// Returns whether the split failed at a worker: at the last one, or because the worker could not read a file.
    pub(in crate::state::leases) fn failed_at(&self, worker: WorkerId) -> bool {
        self.avoid.is_some_and(|(id, _)| id == worker) || self.unreadable_at.contains(&worker)
    }

    /// Returns whether the split may end workers. A single death is taken for an accident.
    pub(in crate::state::leases) fn is_suspect(&self) -> bool {
        self.deaths.len() > 1
    }
}
