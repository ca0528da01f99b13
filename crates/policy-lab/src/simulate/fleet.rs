//! The workers of a pool: all alike, or of types whose numbers the [`fleet`](forebay_policy::fleet) policy decides.
//!
//! Invariant: if all are alike, there are as many as wanted; the fleet policy is not called.

use forebay_core::Ticks;
use forebay_core::rng::SampleRng;

use super::workers::Workers;
use super::{Kind, KindOutcome, Pool};
use forebay_policy::fleet::{Mix, Need, Observation, Offer, Previous, Unit, Worked, decide, first, learn, parts};
use forebay_policy::scaling::{Claim, share};

/// Seconds of workers in one measurement of paces, and rows that a thread of pace 1 makes in a second (any number would
/// do).
const WATCHED: f64 = 2.0;
const ROWS: f64 = 100.0;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Fleet {
    kinds: Vec<Kind>,
    workers: Vec<Workers>,
    /// Whether the fleet policy decides how many of each type there are.
    is_mixed: bool,
    offers: Vec<Offer>,
    previous: Previous,
    /// The paces of the threads of each type, as far as the policy has learned them.
    paces: Vec<f64>,
    max: u32,
}

impl Fleet {
    pub(super) fn new(pool: Pool, kinds: &[Kind]) -> Self {
        let alike = || Kind {
            startup: pool.startup,
            lost_every: pool.lost_every,
            ..Kind::new(Offer { kind: String::new(), price: 0.0, threads: pool.threads, max: pool.max, spot: false })
        };
        let is_mixed = !kinds.is_empty();
        let kinds = if is_mixed { kinds.to_vec() } else { vec![alike()] };
        Self {
            workers: kinds.iter().map(|kind| Workers::new(kind.startup)).collect(),
            is_mixed,
            offers: kinds.iter().map(|kind| kind.offer.clone()).collect(),
            previous: Previous::default(),
            paces: vec![1.0; kinds.len()],
            max: pool.max,
            kinds,
        }
    }

    pub(super) fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    /// Returns the number of ready workers.
    pub(super) fn ready(&self) -> u32 {
        self.workers.iter().map(Workers::ready).sum()
    }

    fn mix(&self) -> Mix {
        let threads = |(kind, workers): (&Kind, &Workers)| f64::from(workers.ready()) * f64::from(kind.offer.threads);
        let threads = self.kinds.iter().zip(&self.workers).map(threads).chain([0.0]).collect();
        Mix { workers: self.ready(), threads }
    }

    /// Returns the unit of a job without a decision: the mean of the ready workers, or without any, one worker of the
    /// first type.
    pub(super) fn unit(&self) -> Unit {
        let first = || first(&self.offers, &self.paces).and_then(|mix| mix.mean());
        self.mix().mean().or_else(first).unwrap_or_default()
    }

    /// Returns the threads of so many units, by the learned paces.
    pub(super) fn need(&self, wanted: u32, unit: &Unit) -> f64 {
        f64::from(wanted) * unit.capacity(&self.paces)
    }

    /// Divides the ready workers among jobs by their claims; returns the number and the unit of each.
    pub(super) fn deal(&self, claims: &[(Claim, &Unit)]) -> Vec<(u32, Unit)> {
        if !self.is_mixed {
            let plain: Vec<_> = claims.iter().map(|(claim, _)| *claim).collect();
            let wanted = plain.iter().fold(0u32, |sum, claim| sum.saturating_add(claim.wanted));
            let is_short = wanted > self.ready();
            let given = if is_short { share(self.ready(), &plain) } else { plain.iter().map(|c| c.wanted).collect() };
            return given.into_iter().zip(claims).map(|(workers, (_, unit))| (workers, (*unit).clone())).collect();
        }
        let need = |(claim, unit): &(Claim, &Unit)| Need {
            threads: self.need(claim.wanted, unit),
            priority: claim.priority,
            weight: claim.weight,
        };
        let mix = self.mix();
        let parts = parts(&mix, &self.paces, &claims.iter().map(need).collect::<Vec<_>>());
        let counted = |((claim, unit), part): (&(Claim, &Unit), f64)| mix.count(part, claim.wanted, unit, &self.paces);
        claims.iter().zip(parts).map(counted).collect()
    }

    /// Returns the true speed of a unit, in threads of pace 1.
    pub(super) fn strength(&self, unit: &Unit) -> f64 {
        self.kinds.iter().zip(unit.threads()).map(|(kind, threads)| threads * kind.pace).sum()
    }

    /// Returns the mean price of a ready worker for an hour; `None` if the objective has the price.
    pub(super) fn price(&self) -> Option<f64> {
        let cost = |(kind, workers): (&Kind, &Workers)| f64::from(workers.ready()) * kind.offer.price;
        let sum: f64 = self.kinds.iter().zip(&self.workers).map(cost).sum();
        (self.is_mixed && sum > 0.0).then(|| sum / f64::from(self.ready()))
    }

    /// Requests workers with so many threads; returns the times at which new workers will be ready, the first of each
    /// type.
    pub(super) fn want(&mut self, at: f64, need: f64) -> Vec<f64> {
        let wanted = self.wanted(at, need);
        let all = self.kinds.iter().zip(&mut self.workers).zip(wanted);
        all.filter_map(|((kind, workers), wanted)| workers.want(at, wanted.min(kind.to_be_had(at)))).collect()
    }

    fn wanted(&mut self, at: f64, need: f64) -> Vec<u32> {
        if !self.is_mixed {
            return vec![(need / f64::from(self.offers[0].threads)).round().min(f64::from(self.max)) as u32];
        }
        let seen = Observation {
            at: Ticks((at * 1000.0) as u64),
            need: Some(need),
            others: 0.0,
            there: self.workers.iter().map(Workers::ready).collect(),
            paces: self.paces.clone(),
            workers_max: self.max,
        };
        let (wanted, next) = decide(&self.offers, &seen, &self.previous);
        self.previous = next;
        wanted.map_or(seen.there, |wanted| wanted.iter().map(|kind| kind.workers).collect())
    }

    /// Learns paces from a job that was watched for a while, if several types worked for it.
    pub(super) fn watch(&mut self) {
        let of = |(i, (kind, workers)): (usize, (&Kind, &Workers))| {
            let seconds = f64::from(workers.ready()) * f64::from(kind.offer.threads) * WATCHED;
            Worked { kind: i, rows: seconds * kind.pace * ROWS, seconds }
        };
        let worked: Vec<_> = self.kinds.iter().zip(&self.workers).enumerate().map(of).collect();
        learn(&mut self.paces, &worked);
    }

    /// Counts the workers that are ready by now.
    pub(super) fn come(&mut self, at: f64) {
        self.workers.iter_mut().for_each(|workers| workers.come(at));
    }

    /// Returns the mean number of workers lost in a second.
    pub(super) fn losses(&self) -> f64 {
        self.rates().sum()
    }

    fn rates(&self) -> impl Iterator<Item = f64> {
        let rate =
            |(kind, workers): (&Kind, &Workers)| kind.lost_every.map_or(0.0, |mean| f64::from(workers.ready()) / mean);
        self.kinds.iter().zip(&self.workers).map(rate)
    }

    /// Loses a worker, drawn by the loss rates; returns the time at which its replacement will be ready.
    pub(super) fn lose(&mut self, at: f64, dice: &mut SampleRng) -> Option<f64> {
        let mut drawn = if self.workers.len() > 1 { dice.unit() * self.losses() } else { 0.0 };
        let mut last = None;
        for (i, rate) in self.rates().enumerate().filter(|(_, rate)| *rate > 0.0) {
            last = Some(i);
            if drawn < rate {
                break;
            }
            drawn -= rate;
        }
        self.workers[last?].lose(at)
    }

    /// Takes back all workers of a type.
    pub(super) fn take_back(&mut self, at: f64, kind: usize) {
        self.workers[kind].lose_all(at);
    }

    /// Returns the outcome of each type.
    pub(super) fn end(self, at: f64) -> Vec<KindOutcome> {
        let of = |(kind, workers): (Kind, Workers)| {
            let (worker_s, lost, workers) = workers.end(at);
            let Offer { kind, price, spot, .. } = kind.offer;
            KindOutcome { kind, spot, price, worker_s, lost, workers }
        };
        self.kinds.into_iter().zip(self.workers).map(of).collect()
    }
}
