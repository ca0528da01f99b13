//! The consumers that somebody has to look at: those with a reader, leases or trouble.
//!
//! A job may have 65,536 consumers of which none is read. What runs at each tick, heartbeat or grant looks at these alone, so that
//! such a job costs nothing. A consumer comes in when a reader attaches, or with its leases from the ledger, and goes at a tick
//! when nothing is left of it. Nothing is granted, and nobody accused, where there is no reader.

use super::consumer::Consumer;
use crate::records::ConsumerKey;
use crate::state::State;

impl Consumer {
    /// Says whether nothing is to be done for it.
    pub(in crate::state) fn is_inactive(&self) -> bool {
        self.attached.is_none() && self.leases().is_empty() && self.backups().is_empty() && self.trouble.is_empty()
    }
}

impl State {
    /// Returns the consumers that somebody has to look at.
    pub(in crate::state) fn active_consumers(&self) -> impl Iterator<Item = (ConsumerKey, &Consumer)> {
        self.active.iter().filter_map(|key| Some((*key, self.consumer(*key)?)))
    }

    /// The same, of one job.
    pub(in crate::state) fn active_consumers_of(&self, job: u64) -> impl Iterator<Item = (ConsumerKey, &Consumer)> {
        self.active.range((job, 0)..=(job, u32::MAX)).filter_map(|key| Some((*key, self.consumer(*key)?)))
    }

    /// Lets go of those that rest, and of those whose job is gone.
    pub(in crate::state) fn drop_inactive(&mut self) {
        let jobs = &self.jobs;
        let consumer = |key: &ConsumerKey| jobs.get(&key.0)?.consumers.get(key.1 as usize);
        self.active.retain(|key| consumer(key).is_some_and(|consumer| !consumer.is_inactive()));
    }
}
