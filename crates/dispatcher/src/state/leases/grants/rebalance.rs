//! Moves splits that wait at one worker to another worker that is idle.
//!
//! A worker holds a few splits ahead of its computation, so that none waits for a grant. If splits take seconds, that
//! leaves the end of an epoch uneven: one worker has three to go while others are done. And a new worker would get only
//! splits behind those of all others; instead it takes some of their splits first. A split moves if the saved wait is
//! worth it (see `stragglers`); short splits never move. The split that is needed first moves first, because consumers
//! take them in order.
//!
//! Invariants: a split that its worker computes stays there, as far as heartbeats show, and so does a split that was
//! preempted a moment ago. A worker that takes a split had no work, so a split cannot go back and forth.

use std::cmp::Reverse;
use std::time::Duration;

use forebay_core::Ticks;

use crate::records::SplitKey;
use crate::state::effect::Effect;
use crate::state::leases::machine::Leases;
use crate::state::leases::workers::worker::{RunOrder, Worker};

/// The shortest time between two rebalances for new workers: ten thousand may come at a time.
const NEWCOMER_EVERY: Duration = Duration::from_millis(10);

impl Leases {
    /// A worker without leases has come: it takes splits that others hold before it gets later ones.
    pub(in crate::state::leases) fn rebalance_for_newcomer(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        if std::mem::take(&mut self.has_newcomer) && now - self.clock.newcomer_rebalanced >= NEWCOMER_EVERY {
            self.clock.newcomer_rebalanced = now;
            self.rebalance(now, out);
        }
    }

    /// Moves a split that waits elsewhere to each idle worker. Runs before any grant, periodically and when a worker
    /// comes.
    pub(in crate::state::leases) fn rebalance(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let is_idle = |w: &Worker| w.has_room() && !w.slow && w.at_work().next().is_none();
        let mut idle: Vec<_> = self.workers.iter().filter(|(_, w)| is_idle(w)).map(|(id, _)| *id).collect();
        if idle.is_empty()
            || idle.len() == self.workers.len()
            || self.workers.values().all(|w| self.waits(now, w).is_none())
        {
            return;
        }
        let reserved = self.reserved();
        idle.retain(|id| !reserved.contains(id));
        idle.sort_by_key(|id| self.is_local(*id));
        for id in idle {
            let longest =
                self.workers.values().filter_map(|w| self.waits(now, w)).filter(|w| self.may_back_up(now, w.1, id));
            let Some((_, key)) = longest.max_by_key(|(rounds, key)| (*rounds, Reverse(*key))) else { continue };
            let dropped = self.consumer_mut(key.0).map(|c| c.release(key.1)).unwrap_or_default();
            self.revoke_all(key.0, dropped, out);
            self.grant(now, key.0, key.1, id, out);
            self.count_second_lease(key);
        }
    }

    /// Returns the first split that waits at a worker, and how many rounds of its threads come before the last one, if
    /// moving is worth it. Returns the last waiting split instead if the first one may have begun since the last
    /// heartbeat.
    fn waits(&self, now: Ticks, worker: &Worker) -> Option<(u32, SplitKey)> {
        let RunOrder { begun, waiting } =
            worker.run_order(|key| self.jobs.get(&key.0.0).map_or(0, |job| job.record.priority));
        let rounds = (begun.len() + waiting.len()).checked_sub(1)? as u32 / worker.threads.max(1);
        let by_now = begun.iter().filter_map(|(_, token)| worker.begun.get(token)).map(|begun| now - *begun).max()?;
        let job_of = |(_, token): &(u32, u64)| self.jobs.get(&worker.leases.get(token)?.0.0);
        let first = waiting.first()?;
        let may_be_begun = job_of(first)?.split_durations.may_end_within(self.timing.heartbeat, by_now);
        let chosen = if may_be_begun { waiting.last()? } else { first };
        let (job, (_, token)) = (job_of(chosen)?, chosen);
        let key = *worker.leases.get(token)?;
        let consumer = self.consumer(key.0)?;
        let alone = !worker.begun.contains_key(token) && !consumer.backups().contains_key(&key.1);
        // Moving a preempted split would lose its progress.
        let gives_way = worker
            .gives_way_for(now, *token)
            .is_some_and(|since| job.split_durations.median().is_none_or(|m| since < m));
        let untroubled = !consumer.trouble.contains_key(&key.1) && consumer.attached.is_some() && !job.streamed;
        (alone && !gives_way && untroubled && job.split_durations.is_worth_moving(rounds, by_now))
            .then_some((rounds, key))
    }
}
