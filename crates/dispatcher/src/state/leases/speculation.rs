//! Races: a split that is late is given to a second worker, too, and the reader takes each chunk from whoever has it first.
//!
//! Both leases have tokens of their own, and both are good until one worker has finished, has let go, or the split is
//! consumed. The first lease stays the one that the ledger knows: of a race only the token is durable, so a dispatcher
//! that comes back has never heard of it, takes the second copy from its worker, and may begin another one. When to race
//! is decided in `pace`.
//!
//! Whoever was late is slow until it finishes a split like the others: what waits there goes to the others at once, and
//! it is given one split at a time, after all of them (`Worker::is_slow`).

use std::time::Duration;

use forebay_core::{Ticks, WorkerId};

use super::consumer::{AfterDrop, Holder};
use super::stragglers::{RunningSplit, to_back_up};
use crate::records::{Grant, Position, SplitKey, Update};
use crate::state::{Effect, State, assigned_event, revoke_event};

impl State {
    /// Begins races for splits that are late. Called before anything is granted, so that the room that is left by then
    /// is room that nothing else wants.
    pub(in crate::state) fn speculate(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let mut idle: Vec<_> =
            self.workers.iter().filter(|(_, w)| w.has_room() && !w.slow).map(|(id, _)| *id).collect();
        if idle.is_empty() || self.workers.len() < 2 {
            return;
        }
        let reserved = self.reserved();
        idle.retain(|id| !reserved.contains(id));
        // The one with the most room is likely to be the first to begin; a local one may have to give way.
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

    /// Returns the splits that are under way and may be raced.
    fn running_splits(&self, now: Ticks) -> Vec<RunningSplit<SplitKey>> {
        let mut running_splits = Vec::new();
        for (id, job) in &self.jobs {
            // A split of unknown length is as slow as its reader.
            let late_after =
                [false, true].map(|is_slow| job.split_durations.late_after(is_slow).filter(|_| !job.streamed));
            let [Some(late), Some(late_if_slow)] = late_after else { continue };
            for (key, consumer) in self.active_consumers_of(*id) {
                let Some(attached) = consumer.attached else { continue };
                // One that was held when a worker was lost is not tried on two at a time.
                let may = |p: &Position| {
                    let lost = consumer.trouble.get(p).is_some_and(|t| !t.deaths.is_empty());
                    !lost && !consumer.backups().contains_key(p)
                };
                let leases = consumer.leases().iter().filter(|(p, _)| may(p));
                running_splits.extend(leases.filter_map(|(p, holder)| {
                    let worker = self.workers.get(&holder.worker)?;
                    // One that waits behind others is not late by itself.
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

    /// Says whether a worker may be given a split that another one has.
    pub(in crate::state) fn may_back_up(&self, now: Ticks, key: SplitKey, id: WorkerId) -> bool {
        let is_of_team = self.workers.get(&id).is_some_and(|worker| self.team(key.0).has(id, worker));
        is_of_team
            && self.consumer(key.0).is_some_and(|consumer| {
                let trouble = consumer.trouble.get(&key.1);
                let avoided = trouble.and_then(|t| t.avoid).is_some_and(|(worker, _)| worker == id);
                let first = consumer.leases().get(&key.1).map(|holder| holder.worker);
                !avoided && first != Some(id) && !consumer.is_unreached(now, id)
            })
    }

    /// The worker that is late with a split is slow: what it has not begun goes to others.
    fn mark_slow(&mut self, key: SplitKey, out: &mut Vec<Effect>) {
        let Some(holder) = self.consumer(key.0).and_then(|c| c.leases().get(&key.1)).copied() else { return };
        let Some(worker) = self.workers.get_mut(&holder.worker) else { return };
        worker.slow = true;
        self.release_unstarted(holder.worker, out);
    }

    /// What a worker holds and has not begun goes to others.
    pub(in crate::state) fn release_unstarted(&mut self, id: WorkerId, out: &mut Vec<Effect>) {
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

    /// A split goes to a second worker. The first may have begun with it since its last heartbeat.
    pub(in crate::state) fn count_second_lease(&mut self, key: SplitKey) {
        self.counts.splits_raced += 1;
        if let Some(job) = self.jobs.get_mut(&key.0.0) {
            job.second_leases += 1;
        }
    }

    /// A worker has finished a split: that ends its race, and says how fast splits are.
    pub(in crate::state) fn has_finished(&mut self, now: Ticks, id: WorkerId, token: u64, out: &mut Vec<Effect>) {
        let Some(key) = self.workers.get(&id).and_then(|w| w.leases.get(&token)).copied() else { return };
        let Some(holder) = self.consumer(key.0).and_then(|c| c.holder(key.1, token)) else { return };
        if let Some(took) = self.workers.get(&id).and_then(|w| w.split_duration(now, token, self.timing.heartbeat)) {
            self.note_duration(key, holder, took);
        }
        let loser = self.consumer(key.0).and_then(|c| c.other_holder(key.1, token));
        if let Some(loser) = loser {
            // Whoever lost may have room now.
            self.changed = true;
            self.drop_lease(key, loser.token, out);
            self.revoke_from_worker(loser, out);
        }
    }

    /// Notes how long a split took.
    pub(in crate::state) fn note_duration(&mut self, key: SplitKey, holder: Holder, took: Duration) {
        let Some(job) = self.jobs.get_mut(&key.0.0) else { return };
        if let Some(worker) = self.workers.get_mut(&holder.worker)
            && worker.slow
            && job.split_durations.is_usual(took)
        {
            worker.slow = false;
        }
        job.split_durations.note(took);
    }

    /// A worker does not hold a split any more: another one does where it was raced, and else it is free.
    pub(in crate::state) fn drop_lease(&mut self, key: SplitKey, token: u64, out: &mut Vec<Effect>) {
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

    /// Takes a lease from its worker.
    pub(in crate::state) fn revoke_from_worker(&mut self, holder: Holder, out: &mut Vec<Effect>) {
        let Some(worker) = self.workers.get_mut(&holder.worker) else { return };
        worker.leases.remove(&holder.token);
        if let Some(session) = worker.session {
            out.push(Effect::Worker(session, revoke_event(holder.token)));
        }
    }

    /// Tells a reader who holds a split.
    pub(in crate::state) fn send_assignments(&self, key: SplitKey, out: &mut Vec<Effect>) {
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

    pub(in crate::state) fn grant_record(&self, holder: Holder) -> Grant {
        let address = self.workers.get(&holder.worker).map(|w| w.address.clone()).unwrap_or_default();
        Grant { token: holder.token, worker: holder.worker, address }
    }
}
