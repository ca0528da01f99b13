//! Local workers: each computes for one consumer alone, on that consumer's host, with cores that the trainer leaves
//! idle.
//!
//! A local worker is like any other, and so is its loss, with these differences:
//! - It gets splits of its consumer only. Both show the same key, which proves that the consumer started it. The
//!   tenant's quota does not apply.
//! - It is not counted among the present, wanted and paid workers.
//! - The time of its threads is not used to estimate other workers, because they yield to the trainer.
//! - It gets a split that may end workers only if there is no other worker.
//! - The number of its threads changes while it runs (see `scaling::local_threads`). Without threads it is paused: it
//!   gets nothing, and its waiting splits go to others.

use std::collections::HashMap;

use forebay_core::{Result, Ticks, WorkerId};

use crate::records::{ConsumerKey, SplitKey};
use crate::state::effect::Effect;
use crate::state::input::SessionId;
use crate::state::leases::consumers::consumer::Holder;
use crate::state::leases::consumers::messages::no_job;
use crate::state::leases::machine::Leases;
use crate::state::leases::workers::worker::Worker;

impl Leases {
    /// Checks that the consumer of a local worker exists and is the tenant's own.
    ///
    /// # Errors
    /// NotFound.
    pub(in crate::state::leases) fn check_local_worker(
        &self,
        serves: Option<&str>,
        only: Option<ConsumerKey>,
    ) -> Result<()> {
        let Some(key) = only else { return Ok(()) };
        let own = self.jobs.get(&key.0).is_some_and(|job| serves.is_none_or(|serves| serves == job.record.tenant));
        if own && self.consumer(key).is_some() { Ok(()) } else { Err(no_job(key.0)) }
    }

    /// Returns whether a local worker shows the key of its consumer, which proves that the consumer started it. Any
    /// holder of a token of the tenant may claim to compute for a consumer, but gets nothing without the key.
    pub(in crate::state::leases) fn is_started_by_its_consumer(&self, worker: &Worker) -> bool {
        let attached = worker.only.and_then(|key| self.consumer(key)?.attached);
        attached.is_some_and(|attached| {
            !attached.local_key.is_none() && worker.local_key.opens(&attached.local_key.to_vec())
        })
    }

    /// Returns whether a session belongs to a local worker that its consumer did not start.
    pub(in crate::state) fn is_foreign(&self, session: SessionId) -> bool {
        let worker = self.worker_sessions.get(&session).and_then(|id| self.workers.get(id));
        worker.is_some_and(|worker| worker.is_local() && !self.is_started_by_its_consumer(worker))
    }

    /// Another process attached to a consumer: releases the leases of local workers that the previous process started.
    pub(in crate::state::leases) fn revoke_from_foreign(&mut self, key: ConsumerKey, out: &mut Vec<Effect>) {
        let foreign = self.workers.iter().filter(|(_, w)| w.only == Some(key) && !self.is_started_by_its_consumer(w));
        let leases = |(id, w): (&WorkerId, &Worker)| {
            let held = |(token, split): (&u64, &SplitKey)| (*split, Holder { token: *token, worker: *id });
            w.leases.iter().map(held).collect::<Vec<_>>()
        };
        let held: Vec<_> = foreign.flat_map(leases).collect();
        for (split, holder) in held {
            self.drop_lease(split, holder.token, out);
            self.revoke_from_worker(holder, out);
        }
    }

    /// Sets how many threads a local worker computes with.
    pub(in crate::state) fn set_threads(
        &mut self,
        now: Ticks,
        session: SessionId,
        threads: u32,
        out: &mut Vec<Effect>,
    ) {
        let Some(id) = self.worker_sessions.get(&session).copied() else { return };
        let Some(worker) = self.workers.get_mut(&id).filter(|w| w.is_local()) else { return };
        (worker.heard, worker.threads) = (now, threads);
        self.note_begun(now, id);
        if threads == 0 {
            self.release_unstarted(id, out);
        }
    }

    /// Returns the local threads that compute for each consumer.
    pub(in crate::state) fn local_threads(&self) -> HashMap<ConsumerKey, u32> {
        let mut threads = HashMap::new();
        for worker in self.workers.values().filter(|w| w.is_live() && self.is_started_by_its_consumer(w)) {
            if let Some(consumer) = worker.only {
                let sum: &mut u32 = threads.entry(consumer).or_default();
                *sum = sum.saturating_add(worker.threads);
            }
        }
        threads
    }

    pub(in crate::state::leases) fn is_local(&self, id: WorkerId) -> bool {
        self.workers.get(&id).is_some_and(|w| w.is_local())
    }
}
