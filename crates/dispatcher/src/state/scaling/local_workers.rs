//! Local workers: each computes for one reader alone, on that reader's machine, with cores that the trainer leaves idle.
//!
//! Such a worker is like any other, and its loss is any worker's loss. What differs: it is given splits of its reader only, which
//! vouches for it with a key that both say,
//! whatever the tenant's quota; it is not among the workers that are counted, wanted and paid for; what its threads took says
//! nothing of others, because they give way to the trainer; a split that may end workers is tried there last; and the number of
//! its threads changes while it runs. With none it rests: it is given nothing, and what waits there goes to others.
//!
//! How many threads it has says the user, or, where the reader asks for that, the policy that decides on workers, too (`scale`): for
//! all readers of a job together, dealt by what each can spare. What is short *now*, each reader looks itself; it may have fewer.

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

/// How many threads a reader's local worker should have.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::state) struct LocalThreads {
    /// What its machine has to spare; `None` where it does not ask for threads.
    spare: Option<Spare>,
    /// `None` while nothing is decided.
    wanted: Option<u32>,
}

impl LocalThreads {
    /// Takes a heartbeat; returns the threads that are wanted. `is_alone` says that nobody else computes for this reader: then
    /// it waits for no decision.
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
    /// Deals threads to the readers that ask for some, by what each has to spare. Those on one machine share what that has.
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
    /// Refuses a local worker of a reader that there is not, or that is another tenant's.
    ///
    /// # Errors
    /// NotFound.
    pub(in crate::state) fn check_local_worker(&self, serves: Option<&str>, only: Option<ConsumerKey>) -> Result<()> {
        let Some(key) = only else { return Ok(()) };
        let own = self.jobs.get(&key.0).is_some_and(|job| serves.is_none_or(|serves| serves == job.record.tenant));
        if own && self.consumer(key).is_some() { Ok(()) } else { Err(no_job(key.0)) }
    }

    /// Says whether a local worker shows the key that its reader says: then it was started by that one. Whoever has a token of the
    /// tenant may say that it computes for a reader, and is given nothing.
    pub(in crate::state) fn is_started_by_its_consumer(&self, worker: &Worker) -> bool {
        let attached = worker.only.and_then(|key| self.consumer(key)?.attached);
        attached.is_some_and(|attached| {
            !attached.local_key.is_none() && worker.local_key.opens(&attached.local_key.to_vec())
        })
    }

    /// Says whether a session is of a local worker that its reader did not start.
    pub(in crate::state) fn is_foreign(&self, session: SessionId) -> bool {
        let worker = self.worker_sessions.get(&session).and_then(|id| self.workers.get(id));
        worker.is_some_and(|worker| worker.is_local() && !self.is_started_by_its_consumer(worker))
    }

    /// Another reader has come: what local workers hold that an earlier one started goes to others.
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

    /// A local worker computes with so many threads from now on.
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

    /// Returns the threads that compute for each reader on its machine.
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
