//! The scheduler: splits in order, consumers by fair share, workers by least load.
//!
//! Among the consumers that could use a split, the one with the fewest leases for its job's weight is served first, so
//! a slow consumer cannot take the workers from a fast one. A job of a higher priority comes before all jobs of a lower
//! one: it gets the workers' room as other splits end. Ties go by number, so the schedule is deterministic.
//!
//! If no worker has room, a consumer for which no worker computes takes places of waiting splits (see `make_way`).
//!
//! - A split that failed at a worker waits a little for another worker, or for that worker to recover.
//! - A worker that a consumer cannot reach, or that cannot read the job's files, gets none of the consumer's splits for
//!   longer and longer, while there are other workers.
//! - A slow worker comes after all others (see `speculation`).
//! - A worker whose caches hold the rows of one of the next splits gets that split, and so does one that computes the
//!   splits beside it (see `affinity`).

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use forebay_core::{Ticks, WorkerId};
use forebay_proto::{Lease, worker_event};

use crate::records::{ConsumerKey, Grant, Position, Update};
use crate::state::effect::Effect;
use crate::state::leases::consumers::consumer::{Consumer, Holder};
use crate::state::leases::durable::Durable;
use crate::state::leases::events::assigned_event;
use crate::state::leases::grants::hints::{HintEvent, Lookahead};
use crate::state::leases::grants::trouble::Trouble;
use crate::state::leases::job::Job;
use crate::state::leases::jobs::tenants::EligibleWorkers;
use crate::state::leases::machine::Leases;
use crate::state::leases::workers::worker::{LOAD_OF_ONE, Worker};

/// Half the pause before a split is tried again at the only worker; each further pause is twice as long.
const PAUSE: Duration = Duration::from_millis(125);

/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(4);

/// Where the other workers cannot read a split, it waits for so long for the successor of a lost worker.
const REPLACED_IN: Duration = Duration::from_secs(60);

/// The dispatcher may grant one of this many splits, from a consumer's first free one on, before the splits in front of
/// it. If the job's hints are strict, it may grant any split that the consumer may have leased.
pub(in crate::state) const LOOKAHEAD: u128 = 16;

/// A consumer's leases relative to its job's weight. The scheduler serves the smallest share of the highest priority.
#[derive(Debug, Clone, Copy)]
struct Share {
    priority: u32,
    leases: u64,
    weight: u32,
}

impl Share {
    fn more(self) -> Self {
        Self { leases: self.leases + 1, ..self }
    }
}

impl Ord for Share {
    /// The higher priority first, then the smaller leases / weight. Among equals the larger weight is served first.
    fn cmp(&self, other: &Self) -> Ordering {
        let (ours, theirs) = (self.leases * u64::from(other.weight), other.leases * u64::from(self.weight));
        let by_weight = ours.cmp(&theirs).then(other.weight.cmp(&self.weight));
        other.priority.cmp(&self.priority).then(by_weight)
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Share {}

/// The split that a hint prefers, and a worker for it.
enum Preference<W> {
    At(Position, W),
    /// The workers that the hints name get the splits when they have room.
    Later,
    /// Any worker may have any split.
    No,
}

/// Workers with room, by load.
type Room = BTreeSet<(usize, WorkerId)>;

impl Leases {
    /// Grants splits until workers or consumers have no more room. After heartbeats alone it returns at once: ten
    /// thousand workers send as many a second.
    pub(in crate::state) fn schedule(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        self.join_sharing_groups(now, out);
        self.rebalance_for_newcomer(now, out);
        self.clear_reserved(out);
        self.grant_room(now, out);
        if self.make_way(now, out) {
            // A split that lost its place may go to a worker that has no other room.
            self.grant_room(now, out);
        }
    }

    /// Grants splits until no worker that has room may compute for a consumer that has room.
    fn grant_room(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let has_room = self.workers.iter().filter(|(_, w)| w.has_room());
        let mut room: Room = has_room.map(|(id, w)| (w.load(), *id)).collect();
        if room.is_empty() {
            return;
        }
        let mut ready = self.ready();
        let mut reserved = self.reserved();
        while let Some((share, key)) = ready.pop_first() {
            let Some((position, worker)) = self.pick(now, key, &room, &reserved) else { continue };
            room.remove(&worker);
            if self.is_suspect(key, position) {
                reserved.insert(worker.1);
            }
            if self.grant(now, key, position, worker.1, out) {
                room.insert((worker.0 + LOAD_OF_ONE, worker.1));
            }
            if self.join_group_of(now, key, out) {
                room.retain(|(_, id)| self.workers.get(id).is_some_and(Worker::has_room));
            }
            if room.is_empty() {
                return;
            }
            ready.insert((share.more(), key));
        }
    }

    /// Returns the consumers with a session, in the order in which the scheduler serves them.
    fn ready(&self) -> BTreeSet<(Share, ConsumerKey)> {
        let of_job = |(id, job): (&u64, &Job)| {
            let (id, priority, weight) = (*id, job.record.priority, job.record.weight.max(1));
            let share = move |c: &Consumer| Share { priority, leases: c.leases().len() as u64, weight };
            let read = self.active_consumers_of(id).filter(|(_, c)| c.attached.is_some());
            read.map(move |(key, c)| (share(c), key)).collect::<Vec<_>>()
        };
        self.jobs.iter().flat_map(of_job).collect()
    }

    pub(in crate::state::leases) fn is_suspect(&self, key: ConsumerKey, position: Position) -> bool {
        self.consumer(key).and_then(|c| c.trouble.get(&position)).is_some_and(Trouble::is_suspect)
    }

    fn pick(
        &self,
        now: Ticks,
        key: ConsumerKey,
        room: &Room,
        reserved: &BTreeSet<WorkerId>,
    ) -> Option<(Position, (usize, WorkerId))> {
        let (consumer, eligible) = (self.consumer(key)?, self.eligible_workers(key));
        let reachable = |id: WorkerId| !consumer.avoided.has(now, id);
        // A consumer that avoids all workers may try any.
        let some = self.workers.iter().any(|(id, w)| w.is_live() && eligible.has(*id, w) && reachable(*id));
        let is_eligible = |id: &WorkerId| self.workers.get(id).is_some_and(|w| eligible.has(*id, w));
        let room: Vec<_> = room.iter().filter(|(_, id)| is_eligible(id) && (reachable(*id) || !some)).collect();
        let at_preferred = |preferred: Option<WorkerId>| {
            let fits = |id: WorkerId| {
                let is_fit = preferred.is_none_or(|preferred| preferred == id);
                is_fit && self.may_take(id, false, reserved)
            };
            room.iter().find(|(_, id)| fits(*id)).map(|worker| **worker)
        };
        let is_usable = |id: &WorkerId| {
            let worker = self.workers.get(id).filter(|worker| worker.is_live() && !worker.slow);
            worker.is_some_and(|worker| eligible.may_use(*id, worker)) && (reachable(*id) || !some)
        };
        match self.preferred(key, consumer, is_usable, at_preferred) {
            Preference::At(position, worker) => return Some((position, worker)),
            Preference::Later => return None,
            Preference::No => {}
        }
        consumer.free().find_map(|p| {
            let fits = self.fits(now, consumer, p, &eligible, reserved);
            room.iter().find(|(_, worker)| fits(*worker)).map(|worker| (p, **worker))
        })
    }

    /// Returns a check of whether a worker may get this split. The check regards the split's earlier failures, and not
    /// the worker's room.
    pub(in crate::state::leases) fn fits<'a>(
        &'a self,
        now: Ticks,
        consumer: &'a Consumer,
        p: Position,
        eligible: &EligibleWorkers<'_>,
        reserved: &'a BTreeSet<WorkerId>,
    ) -> impl Fn(WorkerId) -> bool + use<'a> {
        let trouble = consumer.trouble.get(&p);
        let avoided = trouble.and_then(|t| self.avoided(now, t, eligible));
        let is_suspect = trouble.is_some_and(Trouble::is_suspect);
        let shy = trouble.is_some_and(|t| !t.deaths.is_empty()) && eligible.has_others(&self.workers);
        let unreadable_at = trouble.and_then(|t| self.unreadable_at(now, consumer, t, eligible));
        move |id| {
            Some(id) != avoided
                && !unreadable_at.is_some_and(|workers| workers.contains(&id))
                && !(shy && self.is_local(id))
                && self.may_take(id, is_suspect, reserved)
        }
    }

    /// Returns the first of a consumer's next splits whose hinted worker may have it, or that has no hint and any worker
    /// may have. A worker that is not usable is no hint. `may_have` finds room at a worker, or at any.
    fn preferred<W>(
        &self,
        key: ConsumerKey,
        consumer: &Consumer,
        is_usable: impl Fn(&WorkerId) -> bool,
        may_have: impl Fn(Option<WorkerId>) -> Option<W>,
    ) -> Preference<W> {
        // A split in trouble is placed by its trouble, and not passed over.
        let is_in_trouble = |p: &Position| consumer.trouble.contains_key(p);
        let first = consumer.free().next().filter(|first| self.affinity.knows(key.0) && !is_in_trouble(first));
        let Some(first) = first else { return Preference::No };
        let is_strict = self.affinity.is_strict(key.0);
        let most =
            if is_strict { consumer.window().min(consumer.splits_left()) } else { consumer.window().min(LOOKAHEAD) };
        let workers = self.workers.keys().filter(|id| is_usable(id)).take(most as usize).count() as u64;
        let lookahead = Lookahead { splits: most as u64, workers };
        // If the hints are strict, workers that no hint names go on with the next epoch.
        let is_near = |p: &Position| {
            (is_strict || p.epoch == first.epoch) && consumer.distance(*p) - consumer.distance(first) < most
        };
        for position in consumer.free().take_while(|p| is_near(p) && !is_in_trouble(p)) {
            let hinted = self.affinity.worker(key, position, lookahead).filter(&is_usable);
            match (hinted, may_have(hinted)) {
                (_, Some(worker)) => return Preference::At(position, worker),
                // No worker has room for a split that any may have.
                (None, None) => return Preference::No,
                (Some(_), None) => {}
            }
        }
        let may_wait = is_strict && !consumer.needs_next(first);
        if may_wait { Preference::Later } else { Preference::No }
    }

    /// Returns the worker that must not get this split now because the split failed there: another worker may have room
    /// soon, or this one may recover after a pause.
    fn avoided(&self, now: Ticks, trouble: &Trouble, eligible: &EligibleWorkers<'_>) -> Option<WorkerId> {
        let (worker, at) = trouble.avoid?;
        let others = self.workers.iter().any(|(id, w)| *id != worker && w.is_live() && eligible.has(*id, w));
        let pause =
            if others { self.timing.lease } else { (PAUSE * 2u32.saturating_pow(trouble.failures)).min(PAUSE_MAX) };
        (now - at < pause).then_some(worker)
    }

    /// Returns the workers that cannot read a file of this split; `None` if no other worker may compute it, and none was
    /// lost that may come back: then the consumer gets the error from one of them.
    fn unreadable_at<'a>(
        &self,
        now: Ticks,
        consumer: &Consumer,
        trouble: &'a Trouble,
        eligible: &EligibleWorkers<'_>,
    ) -> Option<&'a BTreeSet<WorkerId>> {
        let workers = Some(&trouble.unreadable_at).filter(|workers| !workers.is_empty())?;
        let is_other = |id: &WorkerId, w: &Worker| !workers.contains(id) && w.is_live() && eligible.may_use(*id, w);
        let may_come_back = consumer.worker_lost.is_some_and(|at| now - at < REPLACED_IN);
        (may_come_back || self.workers.iter().any(|(id, w)| is_other(id, w))).then_some(workers)
    }

    /// Leases a split; a split that is leased already gets a backup lease. Returns whether the worker has room for
    /// more.
    pub(in crate::state::leases) fn grant(
        &mut self,
        now: Ticks,
        key: ConsumerKey,
        position: Position,
        id: WorkerId,
        out: &mut Vec<Effect>,
    ) -> bool {
        let skipped = self.skipped_of(key, position);
        let (Some(job), Some(worker)) = (self.jobs.get_mut(&key.0), self.workers.get_mut(&id)) else { return false };
        let ops = job.ops_on_worker(worker.is_local());
        let (Some(consumer), Some(session)) = (job.consumers.get_mut(key.1 as usize), worker.session) else {
            return false;
        };
        let token = self.next_token;
        self.next_token += 1;
        self.counts.splits_granted += 1;
        let grant = Grant { token, worker: id, address: worker.address.clone() };
        let holder = Holder { token, worker: id };
        let first = consumer.leases().get(&position).map(|first| first.token);
        match first {
            None => consumer.lease(position, holder),
            Some(_) => consumer.lease_backup(position, holder),
        }
        worker.leases.insert(token, (key, position));
        if worker.jobs.insert(key.0) {
            out.push(Effect::Worker(session, worker_event::Event::Job(job.record.definition())));
        }
        let event = assigned_event(position, &grant, first.unwrap_or(0));
        let assigned = consumer.attached.map(|r| Effect::Consumer(r.session, event));
        out.push(Effect::Persist(Durable::new(match first {
            None => Update::Grant((key, position), grant),
            Some(_) => Update::Token(token),
        })));
        out.extend(skipped.map(|skipped| Effect::Worker(session, skipped)));
        let (epoch, ordinal) = (position.epoch, position.ordinal);
        let lease = Lease { job: key.0, epoch, consumer: key.1, ordinal, token, ops };
        out.push(Effect::Worker(session, worker_event::Event::Lease(lease)));
        out.extend(assigned);
        worker.take_room();
        let (has_room, is_local) = (worker.has_room(), worker.is_local());
        self.note_granted(now, id, token);
        if !is_local {
            self.hint(&HintEvent::Granted(key, position, id));
        }
        has_room
    }
}
