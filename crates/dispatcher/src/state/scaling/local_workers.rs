//! Local workers: each computes for one consumer alone, on that consumer's host, with cores that the trainer leaves
//! idle.
//!
//! A local worker is like any other, and so is its loss, with these differences:
//! - It gets splits of its consumer only. Both show the same key, which proves that the consumer started it. The
//!   tenant's quota does not apply.
//! - It is not counted among the workers that are there, wanted and paid for.
//! - The time of its threads is not used to estimate other workers, because they yield to the trainer.
//! - It gets a split that may end workers only if there is no other worker.
//! - The number of its threads changes while it runs. Without threads it is paused: it gets nothing, and its waiting
//!   splits go to others.
//!
//! The thread count is set by the user or, with `local="auto"`, by the scaling policy (`scale`): for all consumers of a
//! job together, dealt by what each host can spare. Each consumer watches for a shortage itself, and may use fewer
//! threads.

use std::collections::HashMap;

use forebay_core::{Result, Ticks, WorkerId};
use forebay_policy::scaling::{Claim, share};
use forebay_proto::{ConsumerHeartbeat, Spare};

use crate::records::{ConsumerKey, SplitKey};
use crate::state::leases::consumer::Holder;
use crate::state::leases::consumers::no_job;
use crate::state::leases::worker::Worker;
use crate::state::limits::MILLICORES_MAX;
use crate::state::{Effect, Job, SessionId, State};

/// How many threads a consumer's local worker should have.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::state) struct LocalThreads {
    /// What its host has to spare; `None` if the consumer asks for no threads.
    spare: Option<Spare>,
    /// `None` before the first decision.
    wanted: Option<u32>,
}

impl LocalThreads {
    /// Takes a heartbeat; returns the wanted threads. If no other worker computes for this consumer (`is_alone`), it
    /// does not wait for a decision.
    pub(in crate::state) fn take_heartbeat(&mut self, said: &ConsumerHeartbeat, is_alone: bool) -> u32 {
        let Some(spare) = said.spare.filter(|spare| spare.asks) else {
            *self = Self::default();
            return 0;
        };
        let [millicores, limit_millicores] =
            [spare.millicores, spare.limit_millicores].map(|of| of.min(MILLICORES_MAX));
        let spare = Spare { millicores, limit_millicores, ..spare };
        self.spare = Some(spare);
        let wanted = self.wanted.unwrap_or(spare.threads);
        if is_alone { wanted.max(spare.millicores.div_ceil(1000)) } else { wanted }
    }

    pub(in crate::state) fn is_asked_for(&self) -> bool {
        self.spare.is_some()
    }
}

impl Job {
    /// Deals threads to the consumers that ask for some, by what each has to spare. Consumers on one host share that.
    pub(in crate::state) fn deal_threads(&mut self, threads: u32) {
        let asking = || self.consumers.iter().filter_map(|c| c.local.spare);
        let mut per_host: HashMap<u64, u32> = HashMap::new();
        asking().filter(|spare| spare.machine != 0).for_each(|spare| *per_host.entry(spare.machine).or_default() += 1);
        let claim = |spare: Spare| {
            let sharing = per_host.get(&spare.machine).copied().unwrap_or(1);
            let wanted = spare.limit_millicores.div_ceil(1000).div_ceil(sharing);
            Claim { priority: 0, wanted, weight: f64::from(spare.millicores) / f64::from(sharing) }
        };
        let mut dealt = share(threads, &asking().map(claim).collect::<Vec<_>>()).into_iter();
        for local in self.consumers.iter_mut().map(|c| &mut c.local).filter(|local| local.is_asked_for()) {
            local.wanted = dealt.next();
        }
    }
}

impl State {
    /// Checks that the consumer of a local worker exists and is the tenant's own.
    ///
    /// # Errors
    /// NotFound.
    pub(in crate::state) fn check_local_worker(&self, serves: Option<&str>, only: Option<ConsumerKey>) -> Result<()> {
        let Some(key) = only else { return Ok(()) };
        let own = self.jobs.get(&key.0).is_some_and(|job| serves.is_none_or(|serves| serves == job.record.tenant));
        if own && self.consumer(key).is_some() { Ok(()) } else { Err(no_job(key.0)) }
    }

    /// Says whether a local worker shows the key of its consumer, which proves that the consumer started it. Anyone
    /// with a token of the tenant may claim to compute for a consumer; without the key he gets nothing.
    pub(in crate::state) fn is_started_by_its_consumer(&self, worker: &Worker) -> bool {
        let attached = worker.only.and_then(|key| self.consumer(key)?.attached);
        attached.is_some_and(|attached| {
            !attached.local_key.is_none() && worker.local_key.opens(&attached.local_key.to_vec())
        })
    }

    /// Says whether a session belongs to a local worker that its consumer did not start.
    pub(in crate::state) fn is_foreign(&self, session: SessionId) -> bool {
        let worker = self.worker_sessions.get(&session).and_then(|id| self.workers.get(id));
        worker.is_some_and(|worker| worker.is_local() && !self.is_started_by_its_consumer(worker))
    }

    /// Another process attached to a consumer: releases the leases of local workers that the previous process started.
    pub(in crate::state) fn revoke_from_foreign(&mut self, key: ConsumerKey, out: &mut Vec<Effect>) {
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

    pub(in crate::state) fn is_local(&self, id: WorkerId) -> bool {
        self.workers.get(&id).is_some_and(|w| w.is_local())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(millicores: u32, threads: u32) -> ConsumerHeartbeat {
        let spare = Spare { millicores, limit_millicores: 8000, threads, asks: true, ..Spare::default() };
        ConsumerHeartbeat { spare: Some(spare), ..ConsumerHeartbeat::default() }
    }

    #[test]
    fn before_anything_is_decided_what_there_is_stays_and_somebody_begins() {
        let mut local = LocalThreads::default();
        assert_eq!(local.take_heartbeat(&said(2500, 2), false), 2, "a dispatcher that restarted knows nothing");
        assert_eq!(local.take_heartbeat(&said(2500, 0), true), 3);
        local.wanted = Some(1);
        assert_eq!((local.take_heartbeat(&said(2500, 2), false), local.take_heartbeat(&said(500, 2), true)), (1, 1));
        assert_eq!(
            local.take_heartbeat(&said(u32::MAX, 2), true),
            MILLICORES_MAX.div_ceil(1000),
            "no machine has more"
        );
        let silent = Spare { asks: false, ..said(2500, 2).spare.expect("said") };
        for spare in [None, Some(silent)] {
            local.wanted = Some(1);
            let heartbeat = ConsumerHeartbeat { spare, ..ConsumerHeartbeat::default() };
            assert_eq!(
                (local.take_heartbeat(&heartbeat, true), local.is_asked_for()),
                (0, false),
                "who does not ask is told none"
            );
            assert_eq!(local.take_heartbeat(&said(2500, 2), false), 2, "and begins anew");
        }
    }
}
