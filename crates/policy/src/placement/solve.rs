//! The best placement: every cut, and for each only the numbers of workers at which something changes.
//!
//! With a cut and the reader's threads given, what is made is a concave, piecewise linear function of the workers, so the price of
//! a batch, a linear function over it, has its least at one end of a piece: where the trainer has enough, where the wire or
//! the threads have no more room, or at a bound. Threads cost nothing, so as many are tried as may be had, and
//! those that bring nothing are taken away from what was chosen. A bound number of candidates for each cut, whatever the bounds.
//! Of cuts that come to the same, where threads finish, the latest, which needs the fewest; where the reader's process does, the one
//! with the least work on both sides, and then with the fewest bytes.

use std::cmp::Ordering;

use super::{Cut, Finishing, Manners, Model, Objective, Placement};

/// What rounding alone makes of equal figures.
const ROUNDING: f64 = 1e-6;

/// What may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The fewest and the most workers.
    pub workers: (u32, u32),
    /// The most threads on the reader's machine.
    pub local: u32,
    /// The first and the last cut.
    pub cuts: (u32, u32),
}

impl Bounds {
    /// Bounds that leave the cut open.
    pub fn new(workers: (u32, u32), local: u32) -> Self {
        Self { workers, local, cuts: (1, u32::MAX) }
    }
}

/// A placement, what a batch takes with it, and what that costs.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    at: Placement,
    time: f64,
    price: f64,
    /// Seconds of threads on both sides, and bytes, where these say which of two cuts it is.
    work: f64,
    bytes: f64,
}

/// Returns the placement that is best for an objective. The trainer is taken to want `margin` more than it does, as a share of it.
/// Where nothing brings anything, the most workers, and all ops on them.
pub fn solve(model: &Model, objective: &Objective, bounds: Bounds, margin: f64) -> Placement {
    let local = threads(model, bounds);
    let (first, last) = (bounds.cuts.0.clamp(1, model.ops()), bounds.cuts.1.clamp(1, model.ops()));
    let all = || {
        let of_cut = |cut| {
            let numbers = move |local| counts(model, cut, local, bounds, margin).map(move |workers| (workers, local));
            [0, local].into_iter().flat_map(numbers).map(move |(workers, local)| Placement { workers, local, cut })
        };
        let asked = (first..=last).flat_map(of_cut).filter(|at| first == last || model.leaves_cores(*at));
        asked.map(|at| Candidate::new(model, objective, at, margin))
    };
    let shortest = all().map(|of| of.time).fold(f64::INFINITY, f64::min);
    let allowed = shortest * objective.slack() * (1.0 + ROUNDING);
    let best = all().filter(|of| of.time.is_finite() && of.time <= allowed).reduce(Candidate::better);
    let none = Placement { workers: bounds.workers.1, local: 0, cut: last };
    best.map_or(none, |of| trim(model, of.at, margin))
}

impl Candidate {
    fn new(model: &Model, objective: &Objective, at: Placement, margin: f64) -> Self {
        let time = model.step(at).max((1.0 + margin) / model.capacity(at));
        let cut = model.cut(at);
        let (work, bytes) = match model.finishing {
            Finishing::Threads => (0.0, 0.0),
            Finishing::Reader => (model.work(cut), cut.bytes),
        };
        Self { at, time, price: time * objective.prices().hour(at.workers), work, bytes }
    }

    /// The cheaper; of two that cost the same, the one with fewer workers, with fewer threads, with less work and fewer bytes, with
    /// more ops on the workers.
    fn better(self, other: Self) -> Self {
        let numbers = |of: &Self| (of.at.workers, of.at.local);
        let order = about(self.price, other.price)
            .then(numbers(&self).cmp(&numbers(&other)))
            .then(about(self.work, other.work))
            .then(about(self.bytes, other.bytes))
            .then(other.at.cut.cmp(&self.at.cut));
        if order.is_le() { self } else { other }
    }
}

/// Compares two figures, of which rounding may have made two.
fn about(one: f64, other: f64) -> Ordering {
    if (one - other).abs() > ROUNDING * one.abs() { one.total_cmp(&other) } else { Ordering::Equal }
}

/// The most threads that are of use.
fn threads(model: &Model, bounds: Bounds) -> u32 {
    let is_polite = model.machine.is_some_and(|machine| machine.manners == Manners::SpareOnly);
    // The last may have to do with a part of a core.
    let spare = (model.spare() - ROUNDING).ceil() as u32;
    if is_polite { bounds.local.min(spare) } else { 0 }
}

/// The numbers of workers at which something changes.
fn counts(model: &Model, cut: u32, local: u32, bounds: Bounds, margin: f64) -> impl Iterator<Item = u32> {
    let Cut { after, bytes, .. } = model.cut(Placement { workers: 1, local, cut });
    let one = model.supply(model.cut(Placement { workers: 1, local, cut }));
    let (wanted, threads, whole) = ((1.0 + margin) / model.step, f64::from(local), model.whole());
    let (spare, receive) = (model.spare(), model.wire.receive * bytes);
    // What of a thread a batch from a worker takes, and what of a core besides.
    let (of_thread, besides) = match model.finishing {
        Finishing::Threads => (after, receive),
        Finishing::Reader => (0.0, after + receive),
    };
    // Batches a second from workers at which: the trainer has enough (threads or cores being what bounds the rest); the wire
    // is full; threads or cores have no room for more; cores, and no longer threads, are what is short.
    let rates = [
        wanted,
        (wanted * whole - threads) / (whole - of_thread),
        (wanted * whole - spare) / (whole - after - receive),
        model.wire.bandwidth.map_or(f64::NAN, |limit| limit / bytes),
        model.shared_limit.unwrap_or(f64::NAN),
        threads / of_thread,
        spare / (after + receive),
        (spare - threads) / besides,
    ];
    let (least, most) = bounds.workers;
    let near = move |rate: f64| {
        let workers = rate / one;
        // Beyond any number it saturates; what is no number is none.
        [(workers + ROUNDING).floor(), (workers - ROUNDING).ceil()].map(|n| if n.is_nan() { least } else { n as u32 })
    };
    rates.into_iter().flat_map(near).chain([least, most]).map(move |n| n.clamp(least, most.max(least)))
}

/// Takes away the threads that bring nothing.
fn trim(model: &Model, at: Placement, margin: f64) -> Placement {
    let time =
        |local| model.step(Placement { local, ..at }).max((1.0 + margin) / model.capacity(Placement { local, ..at }));
    let enough = time(at.local) * (1.0 + ROUNDING);
    // More threads never bring less: the fewest are found by halving.
    let (mut few, mut many) = (0, at.local);
    while few < many {
        let middle = few + (many - few) / 2;
        if time(middle) <= enough { many = middle } else { few = middle + 1 }
    }
    Placement { local: many, ..at }
}
