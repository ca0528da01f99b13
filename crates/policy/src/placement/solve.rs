//! The best placement: tries every cut, and for each only the numbers of workers at which something changes.
//!
//! For a given cut and number of the reader's threads, the rate is a concave, piecewise linear function of the workers.
//! So the price of a batch, a linear function over it, has its minimum at one end of a piece: the trainer has enough,
//! the wire or the threads are full, or at a bound. Threads cost nothing, so `solve` tries as many as allowed, and
//! removes those threads from the result that bring nothing. The number of candidates for each cut has a bound that
//! does not depend on the bounds given.
//! Of cuts with the same price, `solve` returns the latest if threads finish, because it needs the fewest; if the
//! reader's process finishes, it returns the cut with the least work on both sides, and then with the fewest bytes.

use std::cmp::Ordering;

use super::{Cut, Finishing, Manners, Model, Objective, Placement};

/// The difference that rounding alone makes between equal figures.
const ROUNDING: f64 = 1e-6;

/// The placements that are allowed.
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
    /// Makes bounds that leave the cut open.
    pub fn new(workers: (u32, u32), local: u32) -> Self {
        Self { workers, local, cuts: (1, u32::MAX) }
    }
}

/// A placement, its time for a batch, and the price.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    at: Placement,
    time: f64,
    price: f64,
    /// Seconds of threads on both sides, and bytes, if these choose between two cuts.
    work: f64,
    bytes: f64,
}

/// Returns the placement that is best for an objective. The demand of the trainer is raised by `margin`, as a share of
/// it. If no placement makes any batch, returns the most workers, with all ops on them.
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

    /// Returns the cheaper; at the same price, the one with fewer workers, then fewer threads, less work, fewer bytes,
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

/// Compares two figures; a difference within rounding is none.
fn about(one: f64, other: f64) -> Ordering {
    if (one - other).abs() > ROUNDING * one.abs() { one.total_cmp(&other) } else { Ordering::Equal }
}

/// Returns the most threads that are of use.
fn threads(model: &Model, bounds: Bounds) -> u32 {
    let is_polite = model.machine.is_some_and(|machine| machine.manners == Manners::SpareOnly);
    // The last thread may get only a part of a core.
    let spare = (model.spare() - ROUNDING).ceil() as u32;
    if is_polite { bounds.local.min(spare) } else { 0 }
}

/// Returns the numbers of workers at which something changes.
fn counts(model: &Model, cut: u32, local: u32, bounds: Bounds, margin: f64) -> impl Iterator<Item = u32> {
    let Cut { after, bytes, .. } = model.cut(Placement { workers: 1, local, cut });
    let one = model.supply(model.cut(Placement { workers: 1, local, cut }));
    let (wanted, threads, whole) = ((1.0 + margin) / model.step, f64::from(local), model.whole());
    let (spare, receive) = (model.spare(), model.wire.receive * bytes);
    // The time of a thread that a batch from a worker takes, and the time of a core besides.
    let (of_thread, besides) = match model.finishing {
        Finishing::Threads => (after, receive),
        Finishing::Reader => (0.0, after + receive),
    };
    // Batches a second from workers at which: the trainer has enough (threads or cores bound the rest); the wire is
    // full; threads or cores are full; cores are the shortage, and no longer threads.
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
        // A rate beyond any number saturates; NaN is ignored.
        [(workers + ROUNDING).floor(), (workers - ROUNDING).ceil()].map(|n| if n.is_nan() { least } else { n as u32 })
    };
    rates.into_iter().flat_map(near).chain([least, most]).map(move |n| n.clamp(least, most.max(least)))
}

/// Removes the threads that bring nothing.
fn trim(model: &Model, at: Placement, margin: f64) -> Placement {
    let time =
        |local| model.step(Placement { local, ..at }).max((1.0 + margin) / model.capacity(Placement { local, ..at }));
    let enough = time(at.local) * (1.0 + ROUNDING);
    // More threads never bring less, so bisection finds the fewest.
    let (mut few, mut many) = (0, at.local);
    while few < many {
        let middle = few + (many - few) / 2;
        if time(middle) <= enough { many = middle } else { few = middle + 1 }
    }
    Placement { local: many, ..at }
}
