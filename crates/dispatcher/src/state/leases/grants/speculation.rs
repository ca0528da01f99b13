//! Speculative execution: a late split is leased to a second worker, too, and the consumer takes each chunk from the
//! first that has it.
//!
//! Both leases have tokens of their own. Both are valid until one worker has finished or dropped the split, or the
//! split is consumed. The ledger records the first lease, and of the backup lease only its token. A dispatcher that
//! restarts has no record of the backup: it revokes it when the second worker says hello, and may grant another one.
//! `stragglers` decides which splits are late.
//!
//! A worker that was late is slow until it finishes a split in the usual time: the splits that wait there go to other
//! workers at once, and it gets one split at a time, after all other workers.

use std::time::Duration;

use forebay_core::{Ticks, WorkerId};

use crate::records::{Grant, Position, SplitKey, Update};
use crate::state::effect::Effect;
use crate::state::leases::consumers::consumer::{AfterDrop, Holder};
use crate::state::leases::events::assigned_event;
use crate::state::leases::grants::stragglers::{RunningSplit, to_back_up};
use crate::state::leases::machine::Leases;

impl Leases {
    /// Grants backup leases of late splits. The caller runs this before any other grant, so it uses room that nothing
    /// else wanted.
    pub(in crate::state::leases) fn speculate(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let mut idle: Vec<_> =
            self.workers.iter().filter(|(_, w)| w.has_room() && !w.slow).map(|(id, _)| *id).collect();
        if idle.is_empty() || self.workers.len() < 2 {
            return;
        }
        let reserved = self.reserved();
        idle.retain(|id| !reserved.contains(id));
        // The worker with the most credit is likely to start first; a local worker may have to yield its threads.
        idle.sort_by_key(|id| self.workers.get(id).map(|w| (w.is_local(), std::cmp::Reverse(w.credit()))));
        let consumers = || self.active_consumers().map(|(_, consumer)| consumer);
        let (leases, backups) =
            (consumers().map(|c| c.leases().len()).sum(), consumers().map(|c| c.backups().len()).sum());
        for key in to_back_up(self.running_splits(now), backups, leases) {
            let Some(place) = idle.iter().position(|id| self.may_back_up(now, key, *id)) else { continue };
            let worker = idle.remove(place);
            self.grant(now, key.0, key.1, worker, out);
            self.count_second_lease(key);
            self.mark_slow(key, out);
        }
    }

    /// Returns the running splits that may get a backup.
    fn running_splits(&self, now: Ticks) -> Vec<RunningSplit<SplitKey>> {
        let mut running_splits = Vec::new();
        for (id, job) in &self.jobs {
            // A split of unknown length is as slow as its consumer.
            let late_after =
                [false, true].map(|is_slow| job.split_durations.late_after(is_slow).filter(|_| !job.streamed));
            let [Some(late), Some(late_if_slow)] = late_after else { continue };
            for (key, consumer) in self.active_consumers_of(*id) {
                let Some(attached) = consumer.attached else { continue };
                // A split that was held when a worker was lost is not tried on two workers at a time.
                let may = |p: &Position| {
                    let lost = consumer.trouble.get(p).is_some_and(|t| !t.deaths.is_empty());
                    !lost && !consumer.backups().contains_key(p)
                };
                let leases = consumer.leases().iter().filter(|(p, _)| may(p));
                running_splits.extend(leases.filter_map(|(p, holder)| {
                    let worker = self.workers.get(&holder.worker)?;
                    // A split that waits behind others is not late by itself.
                    let begun = worker.begun.get(&holder.token).filter(|_| !worker.finished.contains(&holder.token))?;
                    Some(RunningSplit {
                        split: (key, *p),
                        before: consumer.distance(*p),
                        window: attached.window.into(),
                        age: now - *begun,
                        late_after: if worker.slow { late_if_slow } else { late },
                    })
                }));
            }
        }
        running_splits
    }

    /// Returns whether a worker may get a split that another one holds.
    pub(in crate::state::leases) fn may_back_up(&self, now: Ticks, key: SplitKey, id: WorkerId) -> bool {
        let is_eligible = self.workers.get(&id).is_some_and(|worker| self.eligible_workers(key.0).has(id, worker));
        is_eligible
            && self.consumer(key.0).is_some_and(|consumer| {
                let trouble = consumer.trouble.get(&key.1);
                let avoided = trouble.is_some_and(|t| t.failed_at(id));
                let first = consumer.leases().get(&key.1).map(|holder| holder.worker);
                !avoided && first != Some(id) && !consumer.avoided.has(now, id)
            })
    }

    /// Marks the worker of a late split as slow: the splits that it has not begun go to others.
    fn mark_slow(&mut self, key: SplitKey, out: &mut Vec<Effect>) {
        let Some(holder) = self.consumer(key.0).and_then(|c| c.leases().get(&key.1)).copied() else { return };
        let Some(worker) = self.workers.get_mut(&holder.worker) else { return };
        worker.slow = true;
        self.release_unstarted(holder.worker, out);
    }

    /// Releases the splits that a worker holds and has not begun.
    pub(in crate::state::leases) fn release_unstarted(&mut self, id: WorkerId, out: &mut Vec<Effect>) {
        let Some(worker) = self.workers.get(&id) else { return };
        let waiting = worker.leases.iter().filter(|(token, _)| !worker.finished.contains(token));
        let waiting = waiting.filter(|(token, _)| !worker.begun.contains_key(token));
        let waiting: Vec<_> = waiting.map(|(token, key)| (*token, *key)).collect();
        for (token, key) in waiting {
            let Some(consumer) = self.consumer_mut(key.0) else { continue };
            if consumer.backups().contains_key(&key.1) || consumer.leases().get(&key.1).is_none_or(|h| h.token != token)
            {
                continue;
            }
            let dropped = consumer.release(key.1);
            self.revoke_all(key.0, dropped, out);
            self.count_second_lease(key);
        }
    }

    /// Counts a split that goes to a second worker. The first one may have begun it since its last heartbeat.
    pub(in crate::state::leases) fn count_second_lease(&mut self, key: SplitKey) {
        self.counts.splits_raced += 1;
        if let Some(job) = self.jobs.get_mut(&key.0.0) {
            job.second_leases += 1;
        }
    }

    /// A worker has finished a split: revokes the other lease of the split, and notes its duration.
    pub(in crate::state::leases) fn has_finished(
        &mut self,
        now: Ticks,
        id: WorkerId,
        token: u64,
        out: &mut Vec<Effect>,
    ) {
        let Some(key) = self.workers.get(&id).and_then(|w| w.leases.get(&token)).copied() else { return };
        let Some(holder) = self.consumer(key.0).and_then(|c| c.holder(key.1, token)) else { return };
        if let Some(took) = self.workers.get(&id).and_then(|w| w.split_duration(now, token, self.timing.heartbeat)) {
            self.note_duration(key, holder, took);
        }
        let loser = self.consumer(key.0).and_then(|c| c.other_holder(key.1, token));
        if let Some(loser) = loser {
            // The other worker may have room now.
            self.changed = true;
            self.drop_lease(key, loser.token, out);
            self.revoke_from_worker(loser, out);
        }
    }

    /// Notes how long a split took.
    pub(in crate::state::leases) fn note_duration(&mut self, key: SplitKey, holder: Holder, took: Duration) {
        let Some(job) = self.jobs.get_mut(&key.0.0) else { return };
        if let Some(worker) = self.workers.get_mut(&holder.worker)
            && worker.slow
            && job.split_durations.is_usual(took)
        {
            worker.slow = false;
        }
        job.split_durations.note(took);
    }

    /// A worker no longer holds a split: the other lease remains if there is one, else the split is free.
    pub(in crate::state::leases) fn drop_lease(&mut self, key: SplitKey, token: u64, out: &mut Vec<Effect>) {
        match self.consumer_mut(key.0).map_or(AfterDrop::NotHeld, |c| c.drop_lease(key.1, token)) {
            AfterDrop::NotHeld => {}
            AfterDrop::Free => {
                self.counts.splits_recomputed += 1;
                out.push(Effect::Remember(Update::Released(key)));
            }
            AfterDrop::HeldBy(holder) => {
                out.push(Effect::Remember(Update::Grant(key, self.grant_record(holder))));
                self.send_assignments(key, out);
            }
        }
    }

    /// Sends a consumer the workers that hold a split.
    pub(in crate::state::leases) fn send_assignments(&self, key: SplitKey, out: &mut Vec<Effect>) {
        let Some((consumer, attached)) = self.consumer(key.0).and_then(|c| Some((c, c.attached?))) else { return };
        let Some(first) = consumer.leases().get(&key.1).copied() else { return };
        let second = consumer.backups().get(&key.1).copied();
        let told = std::iter::once((first, second.map_or(0, |s| s.token)));
        for (holder, other_token) in told.chain(second.map(|second| (second, first.token))) {
            out.push(Effect::Consumer(
                attached.session,
                assigned_event(key.1, &self.grant_record(holder), other_token),
            ));
        }
    }

    pub(in crate::state::leases) fn grant_record(&self, holder: Holder) -> Grant {
        let address = self.workers.get(&holder.worker).map(|w| w.address.clone()).unwrap_or_default();
        Grant { token: holder.token, worker: holder.worker, address }
    }
}
