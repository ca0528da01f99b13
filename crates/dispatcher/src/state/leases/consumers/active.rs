//! The active consumers: those with a session, leases or trouble.
//!
//! A job may have 65,536 consumers without a process. Ticks, heartbeats and grants look at active consumers only,
//! so such a job costs nothing. A consumer becomes active when a process attaches to it, or with its leases from the
//! ledger. The next tick without anything left removes it. Without a session the dispatcher grants nothing and suspects
//! no split.

use crate::records::ConsumerKey;
use crate::state::leases::consumers::consumer::Consumer;
use crate::state::leases::machine::Leases;

impl Consumer {
    /// Returns whether nothing is to be done for this consumer.
    pub(in crate::state::leases) fn is_inactive(&self) -> bool {
        self.attached.is_none() && self.leases().is_empty() && self.backups().is_empty() && self.trouble.is_empty()
    }
}

impl Leases {
    /// Returns the active consumers.
    pub(in crate::state::leases) fn active_consumers(&self) -> impl Iterator<Item = (ConsumerKey, &Consumer)> {
        self.active.iter().filter_map(|key| Some((*key, self.consumer(*key)?)))
    }

    /// Returns the active consumers of one job.
    pub(in crate::state::leases) fn active_consumers_of(
        &self,
        job: u64,
    ) -> impl Iterator<Item = (ConsumerKey, &Consumer)> {
        self.active.range((job, 0)..=(job, u32::MAX)).filter_map(|key| Some((*key, self.consumer(*key)?)))
    }

    /// Removes the consumers that became inactive, and those whose job is gone.
    pub(in crate::state::leases) fn drop_inactive(&mut self) {
        let jobs = &self.jobs;
        let consumer = |key: &ConsumerKey| jobs.get(&key.0)?.consumers.get(key.1 as usize);
        self.active.retain(|key| consumer(key).is_some_and(|consumer| !consumer.is_inactive()));
    }
}
