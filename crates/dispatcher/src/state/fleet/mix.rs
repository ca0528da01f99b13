//! The wanted number of workers of each type, if the dispatcher has a list of types that can be started.
//!
//! The policy is `policy::fleet`. This module feeds it: the threads that jobs want, the present workers of each type,
//! and how fast threads of each type are. Nothing is persisted: a dispatcher that starts takes the present workers for
//! the mix.
//! Bounds: the offers; in a window, one entry for each job and each offered type that spent time on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::Ticks;
use forebay_policy::fleet::{
    Mix, Need, Observation, Offer, Previous, Unit, Wanted, Worked, decide, first, learn, parts,
};
use forebay_policy::scaling::Claim;
use forebay_proto::{KindWanted, Spent};

use super::worker_types::WorkerType;
use crate::state::load::job_load::Workforce;

/// How long one measurement of workers' speed takes.
const WINDOW: Duration = Duration::from_secs(2);

/// The present workers.
#[derive(Debug, Default)]
struct Present {
    /// By offer.
    types: Vec<u32>,
    /// Workers of no offered type, and their threads.
    others: u32,
    others_threads: f64,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(in crate::state) struct FleetMix {
    offers: Arc<[Offer]>,
    paces: Vec<f64>,
    previous: Option<Previous>,
    wanted: Option<Vec<Wanted>>,
    /// When the window began, and the work of each type's workers for each job in it.
    began: Ticks,
    window: BTreeMap<(u64, usize), Worked>,
}

impl FleetMix {
    pub(in crate::state) fn new(offers: Arc<[Offer]>) -> Self {
        Self { paces: vec![1.0; offers.len()], offers, ..Self::default() }
    }

    /// Returns the index of a worker's offer.
    fn offer_of(&self, worker_type: &WorkerType) -> Option<usize> {
        self.offers.iter().position(|offer| offer.kind == worker_type.name() && offer.spot == worker_type.is_spot())
    }

    /// Returns whether the dispatcher decides how many workers there are of each type.
    pub(in crate::state) fn decides(&self) -> bool {
        !self.offers.is_empty()
    }

    /// Returns an empty mix.
    pub(in crate::state) fn none(&self) -> Mix {
        Mix::none(self.offers.len())
    }

    pub(in crate::state) fn add(&self, mix: &mut Mix, worker_type: &WorkerType, threads: u32) {
        mix.add(self.offer_of(worker_type), f64::from(threads));
    }

    /// Returns the share of these workers' time that each job can count on, by the number of units that it wants; all
    /// of it if that is unknown.
    pub(in crate::state) fn parts(&self, mix: &Mix, claims: &[(Claim, Option<&Unit>)]) -> Vec<f64> {
        let of = |(claim, unit): &(Claim, Option<&Unit>)| Need {
            threads: unit.map_or(mix.capacity(&self.paces), |unit| self.need(claim.wanted, unit)),
            priority: claim.priority,
            weight: claim.weight,
        };
        parts(mix, &self.paces, &claims.iter().map(of).collect::<Vec<_>>())
    }

    /// Converts a number of units to threads of pace 1.
    fn need(&self, wanted: u32, unit: &Unit) -> f64 {
        f64::from(wanted) * unit.capacity(&self.paces)
    }

    /// Returns the workforce of a job that has a `part` of these workers' time, in units that the job counts in, and
    /// the unit. `wants` is the number that the job wants, if the dispatcher decides on types and that is known.
    pub(in crate::state) fn workforce(&self, mix: &Mix, part: f64, wants: Option<(u32, &Unit)>) -> (Workforce, Unit) {
        let first = || first(&self.offers, &self.paces).and_then(|mix| mix.mean());
        let (workers, unit) = match wants.filter(|_| self.decides()) {
            Some((wanted, unit)) => mix.count(part, wanted, unit, &self.paces),
            None => (mix.workers, mix.mean().or_else(first).unwrap_or_default()),
        };
        let [threads, each] = [&mix.threads[..], unit.threads()].map(|threads| threads.iter().sum());
        (Workforce { workers, each, threads, local: 0 }, unit)
    }

    /// Notes the work of a worker for a job.
    pub(in crate::state) fn spend(&mut self, worker_type: &WorkerType, spent: &Spent) {
        if let Some(kind) = self.offer_of(worker_type) {
            let worked = self.window.entry((spent.job, kind)).or_insert(Worked { kind, ..Worked::default() });
            worked.rows += spent.rows as f64;
            worked.seconds += spent.compute_us as f64 / 1e6;
        }
    }

    /// Updates the paces from the window, and begins another one.
    fn learn(&mut self) {
        let mut by_job: BTreeMap<u64, Vec<Worked>> = BTreeMap::new();
        for ((job, _), worked) in std::mem::take(&mut self.window) {
            by_job.entry(job).or_default().push(worked);
        }
        by_job.values().for_each(|window| learn(&mut self.paces, window));
    }

    fn count<'a>(&self, workers: impl Iterator<Item = (&'a WorkerType, u32)>) -> Present {
        let mut present = Present { types: vec![0; self.offers.len()], ..Present::default() };
        for (worker_type, threads) in workers {
            match self.offer_of(worker_type) {
                Some(kind) => present.types[kind] += 1,
                None => {
                    present.others += 1;
                    present.others_threads += f64::from(threads);
                }
            }
        }
        present
    }

    /// Measures workers' speed, and decides on worker types if there are offers. `wants` has the number that each job
    /// wants, and `workers` the present workers with their threads.
    pub(in crate::state) fn tick<'a, 'b>(
        &mut self,
        now: Ticks,
        workers_max: u32,
        mut wants: impl Iterator<Item = Option<(u32, &'a Unit)>>,
        workers: impl Iterator<Item = (&'b WorkerType, u32)>,
    ) {
        if !self.decides() {
            return;
        }
        if now - self.began >= WINDOW {
            self.began = now;
            self.learn();
        }
        let need = |wants: Option<(u32, &Unit)>| wants.map(|(wanted, unit)| self.need(wanted, unit));
        let need = wants.try_fold(0.0, |sum, wants| Some(sum + need(wants)?));
        let Present { types: present, others_threads: others, .. } = self.count(workers);
        let paces = self.paces.clone();
        self.decide(&Observation { at: now, need, others, there: present, paces, workers_max });
    }

    /// Returns how many workers of each type are wanted, for the provisioner, and how many present workers are of no
    /// offered type.
    pub(in crate::state) fn wanted<'a>(
        &self,
        workers: impl Iterator<Item = (&'a WorkerType, u32)>,
    ) -> (Vec<KindWanted>, u32) {
        let present = self.count(workers);
        let of = |(i, offer): (usize, &Offer)| {
            let wanted = self.wanted.as_ref().map(|types| types[i]);
            KindWanted {
                kind: offer.kind.clone(),
                price: offer.price,
                spot: offer.spot,
                threads: offer.threads,
                max: offer.max,
                wanted: wanted.map(|wanted| wanted.workers),
                workers: present.types[i],
                pace: self.paces[i],
                reason: wanted.map(|wanted| wanted.reason.to_string()).unwrap_or_default(),
            }
        };
        (self.offers.iter().enumerate().map(of).collect(), present.others)
    }

    /// Decides, and logs the changes.
    fn decide(&mut self, seen: &Observation) {
        let before = self.previous.take().unwrap_or_else(|| Previous::of(&self.offers, &seen.there));
        let (wanted, next) = decide(&self.offers, seen, &before);
        for (i, offer) in self.offers.iter().enumerate() {
            let of = |wanted: &Option<Vec<Wanted>>| wanted.as_ref().map(|types| types[i]);
            if let Some(now) = of(&wanted).filter(|now| of(&self.wanted).is_none_or(|was| was.workers != now.workers)) {
                let (kind, present, before) = (&offer.kind, seen.there[i], of(&self.wanted).map(|was| was.workers));
                tracing::info!(
                    kind,
                    spot = offer.spot,
                    there = present,
                    before,
                    wanted = now.workers,
                    "{}",
                    now.reason
                );
            }
        }
        (self.wanted, self.previous) = (wanted, Some(next));
    }
}
