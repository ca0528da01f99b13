//! Takes places at full workers for a consumer of which no worker computes anything.
//!
//! Workers hold more splits than they compute. With long splits, a new consumer would otherwise wait until a split of
//! another job ends. Instead it takes the places of other consumers' waiting splits, until it has its fair share of
//! places (see `fair_share`). A split that loses its place is granted again later, so no computed row is lost. If no
//! split waits, a consumer without a lease gets one split beyond the room of a worker that computes.
//!
//! Splits that wait for their consumer may fill the memory of all workers. If the worker of the split that the consumer
//! needs next is lost then, no worker requests this split. So the dispatcher grants it in place of the consumer's last
//! split: the consumer would otherwise wait for ever.
//!
//! The threads of a worker serve consumers in turn, morsel by morsel, so the consumer's first split begins within one
//! morsel of other jobs' work.
//!
//! Invariants: a split that its worker may have begun keeps its place, and so does a streamed split, because a worker
//! may have begun any number of streamed splits. A consumer takes no place from jobs of a higher priority. Bounds:
//! [`PLACES_MAX`] places at a time, [`BESIDE_MAX`] unfinished splits at a worker, and one search every [`LOOK_EVERY`],
//! or less often if a search examines more than [`LOOKS`] workers.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_core::{Ticks, WorkerId};

use crate::records::{ConsumerKey, Position, SplitKey};
use crate::state::effect::Effect;
use crate::state::leases::consumers::consumer::{Consumer, Holder};
use crate::state::leases::grants::fair_share::{Claim, may_take_from};
use crate::state::leases::machine::Leases;
use crate::state::leases::workers::worker::Worker;

/// The most places that a consumer takes at a time.
const PLACES_MAX: usize = 16;
/// A worker with this many unfinished splits gets none beyond its room.
const BESIDE_MAX: usize = 32;
/// The shortest time between two searches: ten thousand workers may be full for long.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// For each `LOOKS` workers that a search examines, over all consumers, the pause before the next search is one
/// [`LOOK_EVERY`] longer: a thousand consumers without a place must not use up the dispatcher's time.
const LOOKS: usize = 20_000;

/// A split that waits at a worker, and whose place another consumer may take.
#[derive(Debug, Clone, Copy)]
struct WaitingSplit {
    worker: WorkerId,
    token: u64,
    split: SplitKey,
}

/// Returns the time from a search over `consumers` and `workers` to the next one.
fn pause(consumers: usize, workers: usize) -> Duration {
    let more = consumers.saturating_mul(workers) / LOOKS;
    LOOK_EVERY.saturating_mul(u32::try_from(more).unwrap_or(u32::MAX).saturating_add(1))
}

impl Leases {
    /// Grants splits of consumers for which no worker computes, if all workers that may compute for them are full.
    /// Returns whether a split lost its place.
    pub(in crate::state::leases) fn make_way(&mut self, now: Ticks, out: &mut Vec<Effect>) -> bool {
        if now < self.clock.make_way_due {
            return false;
        }
        let mut idle: Vec<_> =
            self.active_consumers().filter(|(_, c)| self.is_idle(c) || self.is_stuck(c)).map(|(key, _)| key).collect();
        idle.sort_by_key(|key| (std::cmp::Reverse(self.claim(*key, 0).priority), *key));
        if idle.is_empty() {
            return false;
        }
        let before = self.counts.splits_gave_way;
        self.clock.make_way_due = now + pause(idle.len(), self.workers.len());
        for key in idle {
            self.make_way_for(now, key, out);
        }
        self.counts.splits_gave_way > before
    }

    /// Returns whether a consumer with a session wants a split, and no worker has an unfinished split of it.
    fn is_idle(&self, consumer: &Consumer) -> bool {
        consumer.attached.is_some()
            && consumer.backups().is_empty()
            && self.has_finished_leases(consumer)
            && self.next_untroubled(consumer).is_some()
    }

    /// Returns whether a consumer with a session waits for a split without a lease, and workers have computed all splits
    /// that they hold for it.
    fn is_stuck(&self, consumer: &Consumer) -> bool {
        consumer.attached.is_some()
            && consumer.backups().is_empty()
            && !consumer.leases().is_empty()
            && self.has_finished_leases(consumer)
            && consumer.free().next().is_some_and(|p| consumer.needs_next(p))
    }

    /// Returns whether workers have computed all splits that they hold for a consumer.
    fn has_finished_leases(&self, consumer: &Consumer) -> bool {
        let is_finished = |holder: &Holder| {
            let worker = self.workers.get(&holder.worker);
            worker.is_some_and(|worker| worker.finished.contains(&holder.token))
        };
        consumer.leases().values().all(is_finished)
    }

    fn next_untroubled(&self, consumer: &Consumer) -> Option<Position> {
        consumer.free().find(|p| !consumer.trouble.contains_key(p))
    }

    /// Returns the workers that may compute for a consumer now, room or not, with their unfinished splits.
    fn takers(&self, now: Ticks, key: ConsumerKey, consumer: &Consumer) -> Vec<(WorkerId, &Worker)> {
        let (eligible, reserved) = (self.eligible_workers(key), self.reserved());
        let takes = |id: &WorkerId, worker: &Worker| {
            worker.is_of_fleet() && !worker.slow && !reserved.contains(id) && !consumer.avoided.has(now, *id)
        };
        let workers = self.workers.iter().map(|(id, worker)| (*id, worker));
        workers.filter(|(id, worker)| takes(id, worker) && eligible.has(*id, worker)).collect()
    }

    fn make_way_for(&mut self, now: Ticks, key: ConsumerKey, out: &mut Vec<Effect>) {
        let Some(consumer) = self.consumer(key) else { return };
        let has_lease = !consumer.leases().is_empty();
        let takers = self.takers(now, key, consumer);
        if takers.iter().any(|(_, worker)| worker.has_room()) {
            return;
        }
        // A worker without a split to compute has no room for another reason, such as its memory.
        let computing = takers.iter().map(|(id, worker)| (worker.unfinished().count(), *id));
        let least = computing.filter(|(unfinished, _)| (1..BESIDE_MAX).contains(unfinished)).min();
        let mut waiting: Vec<_> = takers.iter().flat_map(|(id, worker)| self.waiting_at(*id, worker)).collect();
        let mut unfinished: BTreeMap<ConsumerKey, u64> = BTreeMap::new();
        for split in self.workers.values().flat_map(Worker::unfinished) {
            *unfinished.entry(split.0).or_default() += 1;
        }
        let mut taken: BTreeMap<WorkerId, usize> = BTreeMap::new();
        for number in 0..PLACES_MAX as u64 {
            let ours = self.claim(key, number);
            let theirs = |of: &WaitingSplit| self.claim(of.split.0, unfinished.get(&of.split.0).copied().unwrap_or(0));
            let may = |of: &&WaitingSplit| of.split.0 != key && may_take_from(ours, theirs(of));
            // From the consumer with the most, its last split, at the worker where this consumer has the fewest.
            let rank = |of: &&WaitingSplit| {
                (std::cmp::Reverse(taken.get(&of.worker).copied().unwrap_or(0)), theirs(of).rank(), of.token)
            };
            let Some(found) = waiting.iter().filter(may).max_by_key(rank).copied() else { break };
            let Some(position) = self.consumer(key).and_then(|c| self.next_untroubled(c)) else { break };
            // The grant comes before the revocation: otherwise the worker would request a split for its free place.
            self.grant(now, key, position, found.worker, out);
            let dropped = self.consumer_mut(found.split.0).map(|c| c.release(found.split.1)).unwrap_or_default();
            self.revoke_all(found.split.0, dropped, out);
            self.counts.splits_gave_way += 1;
            waiting.retain(|of| of.token != found.token);
            unfinished.entry(found.split.0).and_modify(|n| *n -= 1);
            *taken.entry(found.worker).or_default() += 1;
        }
        let beside = least.filter(|_| taken.is_empty() && !has_lease);
        let position = self.consumer(key).and_then(|c| self.next_untroubled(c));
        match (beside, position) {
            (Some((_, worker)), Some(position)) => _ = self.grant(now, key, position, worker, out),
            _ if taken.is_empty() => self.last_gives_way(now, key, out),
            _ => {}
        }
    }

    /// Grants the split that a stuck consumer needs next, in place of the consumer's last split at the same worker.
    fn last_gives_way(&mut self, now: Ticks, key: ConsumerKey, out: &mut Vec<Effect>) {
        let Some((next, last, worker)) = self.next_and_last(now, key) else { return };
        self.grant(now, key, next, worker, out);
        let dropped = self.consumer_mut(key).map(|c| c.release(last)).unwrap_or_default();
        self.revoke_all(key, dropped, out);
        self.counts.splits_gave_way += 1;
    }

    /// Returns the split that a stuck consumer needs next, the last split that workers without other work hold for it,
    /// and the worker that holds the last split.
    fn next_and_last(&self, now: Ticks, key: ConsumerKey) -> Option<(Position, Position, WorkerId)> {
        let consumer = self.consumer(key).filter(|consumer| self.is_stuck(consumer))?;
        let next = consumer.free().next()?;
        let (eligible, reserved) = (self.eligible_workers(key), self.reserved());
        let fits = self.fits(now, consumer, next, &eligible, &reserved);
        let last = |(id, worker): (WorkerId, &Worker)| {
            let own = worker.leases.iter().filter(|(_, split)| split.0 == key);
            own.map(|(token, split)| (split.1, *token, id)).max()
        };
        let takers = self.takers(now, key, consumer).into_iter();
        let idle = takers.filter(|(id, worker)| worker.unfinished().next().is_none() && fits(*id));
        let (position, token, worker) = idle.filter_map(last).max()?;
        self.may_be_released(worker, token, (key, position)).then_some((next, position, worker))
    }

    /// Returns the claim of a consumer with `splits` unfinished splits.
    fn claim(&self, key: ConsumerKey, splits: u64) -> Claim {
        let (priority, weight) = self.jobs.get(&key.0).map_or((0, 1), |job| (job.record.priority, job.record.weight));
        Claim { priority, weight: weight.max(1).into(), splits }
    }

    /// Returns the splits at a worker that it has certainly not begun. Its threads compute the splits of each consumer
    /// in order, so it may have begun as many splits of each consumer as it has threads.
    fn waiting_at(&self, id: WorkerId, worker: &Worker) -> Vec<WaitingSplit> {
        let mut before: BTreeMap<ConsumerKey, usize> = BTreeMap::new();
        let mut waiting = Vec::new();
        for (token, split) in worker.leases.iter().filter(|(token, _)| !worker.finished.contains(token)) {
            let before = before.entry(split.0).or_default();
            *before += 1;
            let may_be_begun = *before <= worker.threads.max(1) as usize || worker.begun.contains_key(token);
            if !may_be_begun && self.may_be_released(id, *token, *split) {
                waiting.push(WaitingSplit { worker: id, token: *token, split: *split });
            }
        }
        waiting
    }

    /// Returns whether the place of a waiting split may go to another consumer.
    fn may_be_released(&self, id: WorkerId, token: u64, (key, position): SplitKey) -> bool {
        let (Some(job), Some(consumer)) = (self.jobs.get(&key.0), self.consumer(key)) else { return false };
        let is_only_lease = consumer.leases().get(&position).is_some_and(|h| h.token == token && h.worker == id)
            && !consumer.backups().contains_key(&position);
        // A split that another job of its sharing group holds would be granted at this worker again at once.
        is_only_lease
            && !job.streamed
            && !self.sharing.knows(key.0)
            && !consumer.trouble.contains_key(&position)
            && consumer.attached.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_takes_the_same_share_of_the_time_however_many_wait() {
        assert_eq!(pause(1, 10_000), LOOK_EVERY);
        for (consumers, workers) in [(65_536, 10), (1_000, 1_000), (1_000, 10_000)] {
            let looks_per_pause = consumers * workers * LOOK_EVERY.as_millis() as usize;
            assert!(looks_per_pause / pause(consumers, workers).as_millis() as usize <= LOOKS);
        }
        assert!(pause(usize::MAX, usize::MAX) > Duration::from_secs(3600));
    }
}
