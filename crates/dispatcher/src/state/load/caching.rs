//! The cache of each worker for a job with `cache()` or `autocache()`, as last reported: for display. No decision here
//! depends on it.
//!
//! Bounds: one text of at most [`JSON_BYTES_MAX`] for each connected worker.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::WorkerId;
use forebay_proto::WorkerCaching;

/// The longest text that is accepted.
const JSON_BYTES_MAX: usize = 64 << 10;

/// By worker, as JSON.
#[derive(Debug, Default)]
pub(in crate::state) struct CachingReports(BTreeMap<WorkerId, Arc<str>>);

impl CachingReports {
    pub(in crate::state) fn note(&mut self, worker: WorkerId, json: &str) {
        if json.len() <= JSON_BYTES_MAX {
            self.0.insert(worker, Arc::from(json));
        }
    }

    /// Forgets the rows that a lost worker had in memory.
    pub(in crate::state) fn forget(&mut self, worker: WorkerId) {
        self.0.remove(&worker);
    }

    pub(in crate::state) fn status(&self) -> Vec<WorkerCaching> {
        let told = |(id, json): (&WorkerId, &Arc<str>)| WorkerCaching {
            worker: format!("{:032x}", id.0),
            json: json.to_string(),
        };
        self.0.iter().map(told).collect()
    }
}
