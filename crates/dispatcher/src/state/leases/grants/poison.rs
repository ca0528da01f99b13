//! Poison splits: splits that end the workers that compute them.
//!
//! Why a worker died is unknown, so every split that it was computing is suspected. A single death is an accident, and
//! costs a new lease only. From the second death on, a split is computed alone, by a worker without other work, so that
//! the next death has one cause only. After [`DEATHS_MAX`] deaths it is never tried again: the ledger records that, the
//! consumer gets an error with the split's rows and the dead workers, and the other jobs have their workers back.
//!
//! A lost worker may not be dead: the network may be broken. A worker that comes back acquits its splits. A split is
//! convicted only after all its workers have stayed away for [`Timing::presumed_dead`](crate::Timing); it is not
//! granted meanwhile.
//!
//! A consumer notices a death before the dispatcher does. A split that it cannot fetch is suspected at once, and
//! acquitted if the worker sends something a heartbeat later. Otherwise a poison split and its neighbours would move
//! from worker to worker together, faster than lost workers are noticed, and all of them would be convicted of one
//! split's deaths.

use std::collections::BTreeSet;

use forebay_core::{ConsumerIndex, Epoch, Error, Ordinal, Result, Ticks, WorkerId};

use crate::records::{ConsumerKey, JobRecord, SplitKey, Update};
use crate::state::effect::Effect;
use crate::state::leases::consumers::consumer::{Consumer, Holder, WHOLE_SPLIT};
use crate::state::leases::durable::Durable;
use crate::state::leases::grants::trouble::{DEATHS_MAX, Death, Trouble};
use crate::state::leases::machine::Leases;
use crate::state::leases::workers::worker::Worker;

/// Rows that an error names.
const NAMED_MAX: usize = 16;

impl Leases {
    /// A worker was lost while it computed a split, or a consumer could not fetch the split from it.
    pub(in crate::state::leases) fn accuse(&mut self, key: SplitKey, death: Death) {
        if let Some(consumer) = self.consumer_mut(key.0) {
            let deaths = &mut consumer.trouble.entry(key.1).or_default().deaths;
            match deaths.iter_mut().find(|d| d.worker == death.worker) {
                Some(known) => *known = death,
                None => deaths.push(death),
            }
        }
    }

    /// A worker is alive: removes it from the deaths of all splits.
    pub(in crate::state::leases) fn acquit(&mut self, worker: WorkerId) {
        for trouble in self.jobs.values_mut().flat_map(|j| &mut j.consumers).flat_map(|c| c.trouble.values_mut()) {
            let before = trouble.deaths.len();
            trouble.deaths.retain(|death| death.worker != worker);
            self.changed |= trouble.deaths.len() < before;
        }
    }

    /// Gives up the splits that ended [`DEATHS_MAX`] workers.
    pub(in crate::state::leases) fn convict(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let certain = self.timing.presumed_dead;
        let is_dead = |death: &Death| now - death.at >= certain;
        let mut convicted = Vec::new();
        for (key, consumer) in self.active_consumers() {
            let held = consumer.trouble.iter().filter(|(p, t)| t.is_held() && consumer.poison(**p).is_none());
            convicted.extend(held.filter(|(_, t)| t.deaths.iter().all(is_dead)).map(|(p, _)| (key, *p)));
        }
        for key in convicted {
            self.poisoned(now, key, out);
        }
    }

    fn poisoned(&mut self, now: Ticks, key: SplitKey, out: &mut Vec<Effect>) {
        let Some(trouble) = self.consumer(key.0).and_then(|c| c.trouble.get(&key.1)) else { return };
        let workers: Vec<_> = trouble.deaths.iter().map(|d| format!("{:032x} at {}", d.worker.0, d.address)).collect();
        let Some(job) = self.jobs.get(&key.0.0) else { return };
        let error = Error::data(format!("split {} of job {:?} ended {DEATHS_MAX} workers", key.1, job.record.name))
            .with("fault", "poison")
            .with("split", key.1)
            .with("rows", rows(&job.record, key).unwrap_or_else(|e| e.message().to_owned()))
            .with("workers", workers.join(", "))
            .hint("look at the logs of these workers; leave the rows out, or cancel the job to have them tried again");
        tracing::error!(
            job = job.record.name,
            split = %key.1,
            "several workers ended while they computed this split; it is not tried again"
        );
        let json: std::sync::Arc<str> = error.to_json().into();
        self.add_skipped((key.0, key.1, WHOLE_SPLIT, 0), json.clone());
        out.push(Effect::Persist(Durable::new(Update::Skipped((key.0, key.1, WHOLE_SPLIT, 0), json))));
        self.end_at_poison(now, key.0, out);
    }

    /// Ends the session of a consumer whose frontier is a split that is never tried again.
    pub(in crate::state::leases) fn end_at_poison(&mut self, now: Ticks, key: ConsumerKey, out: &mut Vec<Effect>) {
        if let Some(error) = self.consumer(key).and_then(|c| c.poison(c.frontier())) {
            let error = Error::from_json(error);
            self.end_consumer(now, key, error, out);
        }
    }

    /// Returns whether a consumer with a session waits for a suspect.
    pub(in crate::state::leases) fn has_suspects(&self) -> bool {
        let mut consumers = self.active_consumers().filter(|(_, c)| c.attached.is_some());
        consumers.any(|(_, c)| c.trouble.values().any(Trouble::is_suspect))
    }

    /// Returns the workers that get no other splits now: workers that compute a suspect, and, while a suspect waits,
    /// the worker that is kept free for it.
    pub(in crate::state::leases) fn reserved(&self) -> BTreeSet<WorkerId> {
        if !self.has_suspects() {
            return BTreeSet::new();
        }
        let suspected = |key: &SplitKey| {
            let trouble = self.consumer(key.0).and_then(|c| c.trouble.get(&key.1));
            trouble.is_some_and(Trouble::is_suspect)
        };
        let mut reserved: BTreeSet<_> =
            self.workers.iter().filter(|(_, w)| w.unfinished().any(suspected)).map(|(id, _)| *id).collect();
        let is_waiting = |c: &Consumer| c.free().any(|p| c.trouble.get(&p).is_some_and(Trouble::is_suspect));
        let waiting = self.active_consumers().find(|(_, c)| c.attached.is_some() && is_waiting(c));
        if let Some(eligible) = waiting.map(|(key, _)| self.eligible_workers(key)) {
            let fits = |id: &WorkerId, w: &Worker| w.is_live() && eligible.has(*id, w) && !reserved.contains(id);
            let others = self.workers.iter().filter(|(id, w)| fits(id, w));
            // A suspect runs on a trainer's host only if there is no other worker.
            let least = others.min_by_key(|(id, w)| (w.is_local(), w.unfinished().count(), **id)).map(|(id, _)| *id);
            reserved.extend(least);
        }
        reserved
    }

    /// Releases the splits of held-up jobs at a worker that is kept for a suspect: it would never become free
    /// otherwise.
    pub(in crate::state::leases) fn clear_reserved(&mut self, out: &mut Vec<Effect>) {
        let is_suspect = |key: &SplitKey| self.is_suspect(key.0, key.1);
        let waits = |w: &&Worker| w.at_work().next().is_none() && !w.unfinished().any(is_suspect);
        let kept: Vec<_> =
            self.reserved().into_iter().filter_map(|id| Some((id, self.workers.get(&id).filter(waits)?))).collect();
        let under_way = |(id, w): (WorkerId, &Worker)| {
            let leases = w.leases.iter().filter(|(token, _)| !w.finished.contains(token));
            leases.map(|(token, key)| (*key, Holder { token: *token, worker: id })).collect::<Vec<_>>()
        };
        let held_up: Vec<_> = kept.into_iter().flat_map(under_way).collect();
        for (key, holder) in held_up {
            self.drop_lease(key, holder.token, out);
            self.revoke_from_worker(holder, out);
        }
    }

    /// Returns whether a worker may get a split. A suspect needs a worker without other work; a reserved worker gets
    /// nothing else.
    pub(in crate::state::leases) fn may_take(
        &self,
        id: WorkerId,
        is_suspect: bool,
        reserved: &BTreeSet<WorkerId>,
    ) -> bool {
        let idle = || self.workers.get(&id).is_some_and(|w| w.unfinished().next().is_none());
        if is_suspect { idle() } else { !reserved.contains(&id) }
    }
}

/// Names the rows of a split by their numbers in the source.
fn rows(record: &JobRecord, (key, at): SplitKey) -> Result<String> {
    let plan = record.plan()?;
    let consumer = ConsumerIndex(key.1);
    if !plan.knows_rows() || plan.lane_layout().is_some() {
        return Ok("those of the split, which a shuffle over windows chose".to_owned());
    }
    let mut rows = Vec::new();
    for morsel in plan.morsels(consumer, Ordinal(at.ordinal)) {
        plan.places(Epoch(at.epoch), consumer, morsel, |row, _| rows.push(row));
    }
    let named: Vec<_> = rows.iter().take(NAMED_MAX).map(u64::to_string).collect();
    let more = rows.len().saturating_sub(NAMED_MAX);
    Ok(match (rows.len(), more) {
        (0, _) => {
            format!(
                "those of source block {}",
                at.ordinal * record.sharding().parts() + record.sharding().part(consumer)
            )
        }
        (_, 0) => named.join(", "),
        _ => format!("{} and {more} more", named.join(", ")),
    })
}
