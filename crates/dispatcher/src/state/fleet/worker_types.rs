//! Worker types, their prices, and the cost of each job.
//!
//! A job is charged for the time that threads spent on it, as a share of their worker, and for its share of idle time
//! (see `idle_cost`). A type is a name that workers report. Bounds: at most [`TYPES_MAX`] types per job, and as many
//! labels; further ones count as [`OTHERS`]. Totals are since process start and are not persisted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_policy::placement::{Objective, PRICE_MAX};
use forebay_proto::{Spent, Worked};

use crate::state::leases::worker::Worker;
use crate::state::{SessionId, State};

const TYPES_MAX: usize = 16;
const NAME_BYTES_MAX: usize = 63;
/// The type of workers that report none.
const UNNAMED: &str = "fleet";
/// The type of local workers.
const LOCAL: &str = "local";
/// All types beyond the first [`TYPES_MAX`].
const OTHERS: &str = "others";

/// Checks the name of a worker type; an empty name is allowed and means none.
///
/// # Errors
/// Invalid, with a hint on what names are allowed.
pub fn check_worker_type(name: &str) -> Result<()> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if name.len() <= NAME_BYTES_MAX && name.bytes().all(is_plain) && ![UNNAMED, LOCAL, OTHERS].contains(&name) {
        return Ok(());
    }
    let hint = format!("use 1 to {NAME_BYTES_MAX} letters, digits, -, _ and ., but not {UNNAMED}, {LOCAL} or {OTHERS}");
    Err(Error::invalid(format!("{name:?} is no kind of workers")).hint(hint))
}

/// Checks the price of a worker per hour; 0 means unknown.
///
/// # Errors
/// Invalid, with a hint on what prices are allowed.
pub fn check_price(price: f64) -> Result<()> {
    if (0.0..=PRICE_MAX).contains(&price) {
        return Ok(());
    }
    Err(Error::invalid(format!("{price} is no price of a worker")).hint(format!("use a number from 0 to {PRICE_MAX}")))
}

/// The type that a worker reports.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct WorkerType {
    name: Arc<str>,
    /// Per hour; 0 if unknown.
    price: f64,
    spot: bool,
}

impl WorkerType {
    /// Takes what a worker reports.
    ///
    /// # Errors
    /// Those of [`check_worker_type`] and [`check_price`].
    pub(crate) fn new(name: &str, price: f64, spot: bool) -> Result<Self> {
        check_worker_type(name)?;
        check_price(price)?;
        Ok(Self { name: name.into(), price, spot })
    }

    pub(in crate::state) fn name(&self) -> &str {
        if self.name.is_empty() { UNNAMED } else { &self.name }
    }

    pub(in crate::state) fn price(&self) -> f64 {
        self.price
    }

    pub(in crate::state) fn is_spot(&self) -> bool {
        self.spot
    }
}

/// What workers computed for a job, by type and whether they are spot workers.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct JobCost(BTreeMap<(Arc<str>, bool), Sums>);

/// Seconds of workers, and their cost.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    worked: (f64, f64),
    idle: (f64, f64),
}

impl JobCost {
    /// Adds the time that a worker spent on the job.
    pub(in crate::state) fn add(&mut self, worker: &Worker, spent: &Spent) {
        let seconds = spent.compute_us as f64 / 1e6 / f64::from(worker.threads.max(1));
        let sums = self.sums(worker.worker_type.name(), worker.worker_type.spot);
        sums.worked = (sums.worked.0 + seconds, sums.worked.1 + seconds / 3600.0 * worker.worker_type.price);
    }

    /// Adds idle seconds of workers of a type, and their cost.
    pub(in crate::state) fn add_idle(&mut self, kind: &str, spot: bool, seconds: f64, cost: f64) {
        let sums = self.sums(kind, spot);
        sums.idle = (sums.idle.0 + seconds, sums.idle.1 + cost);
    }

    fn sums(&mut self, kind: &str, spot: bool) -> &mut Sums {
        let key = (Arc::from(kind), spot);
        let is_known = self.0.contains_key(&key) || self.0.len() < TYPES_MAX;
        let key = if is_known { key } else { (Arc::from(OTHERS), spot) };
        self.0.entry(key).or_default()
    }

    pub(in crate::state) fn status(&self) -> Vec<Worked> {
        let status = |((kind, spot), sums): (&(Arc<str>, bool), &Sums)| Worked {
            kind: kind.to_string(),
            spot: *spot,
            seconds: sums.worked.0,
            cost: sums.worked.1,
            idle_seconds: sums.idle.0,
            idle_cost: sums.idle.1,
        };
        self.0.iter().map(status).collect()
    }
}

/// The labels of the present types: the first names in sorted order.
#[derive(Debug, Default)]
pub(in crate::state) struct Labels(BTreeSet<Arc<str>>);

impl Labels {
    pub(in crate::state) fn of<'a>(workers: impl Iterator<Item = &'a Worker>) -> Self {
        let mut names = BTreeSet::new();
        for worker in workers.filter(|w| !w.is_local()) {
            names.insert(Arc::from(worker.worker_type.name()));
            if names.len() > TYPES_MAX {
                names.pop_last();
            }
        }
        Self(names)
    }

    pub(in crate::state) fn label(&self, worker: &Worker) -> Arc<str> {
        match self.0.get(worker.worker_type.name()) {
            _ if worker.is_local() => LOCAL.into(),
            Some(name) => name.clone(),
            None => OTHERS.into(),
        }
    }
}

impl State {
    /// Notes the type that a worker reported.
    pub(in crate::state) fn note_worker_type(&mut self, session: SessionId, worker_type: WorkerType) {
        if let Some(worker) = self.worker_sessions.get(&session).and_then(|id| self.workers.get_mut(id)) {
            worker.worker_type = worker_type;
        }
    }
}

/// Returns the objective with the mean price that workers report. If none reports a price, the configured one holds.
pub(in crate::state) fn priced<'a>(objective: Objective, workers: impl Iterator<Item = &'a Worker>) -> Objective {
    let prices = workers.map(|w| w.worker_type.price).filter(|price| *price > 0.0);
    let (sum, count) = prices.fold((0.0, 0u32), |(sum, count), price| (sum + price, count + 1));
    if count == 0 { objective } else { objective.with_worker(sum / f64::from(count)) }
}

#[cfg(test)]
mod tests {
    use forebay_core::Ticks;
    use forebay_policy::placement::Prices;

    use super::*;

    fn worker(kind: &str, price: f64, spot: bool) -> Worker {
        let worker_type = WorkerType::new(kind, price, spot).expect("a kind");
        let mut worker = Worker::absent("worker:1".into(), Ticks(0), Ticks(0));
        (worker.threads, worker.worker_type) = (2, worker_type);
        worker
    }

    #[test]
    fn an_invalid_type_or_price_is_refused() {
        for name in ["", "n2-standard-8", "c5.large", "A_1"] {
            assert!(WorkerType::new(name, 0.5, true).is_ok(), "{name}");
        }
        for name in ["local", "fleet", "others", "a b", "a/b", "é", &"x".repeat(64)] {
            assert!(WorkerType::new(name, 0.5, true).is_err(), "{name}");
        }
        assert!(
            [-1.0, f64::NAN, f64::INFINITY, 1.1 * PRICE_MAX]
                .iter()
                .all(|price| WorkerType::new("a", *price, false).is_err())
        );
    }

    #[test]
    fn a_job_costs_what_workers_of_each_type_took_for_it() {
        let mut cost = JobCost::default();
        let hour = Spent { job: 1, compute_us: 2 * 3_600_000_000, rows: 1 };
        cost.add(&worker("big", 4.0, false), &hour);
        cost.add(&worker("big", 4.0, false), &hour);
        cost.add(&worker("big", 1.0, true), &hour);
        cost.add(&worker("", 0.0, false), &hour);
        let status: Vec<_> = cost.status().into_iter().map(|w| (w.kind, w.spot, w.seconds, w.cost)).collect();
        let of = |kind: &str, spot, seconds, cost| (kind.to_owned(), spot, seconds, cost);
        assert_eq!(
            status,
            [of("big", false, 7200.0, 8.0), of("big", true, 3600.0, 1.0), of("fleet", false, 3600.0, 0.0)]
        );
        (0..50).for_each(|n| cost.add(&worker(&format!("kind-{n}"), 1.0, false), &hour));
        let status = cost.status();
        assert_eq!(status.len(), TYPES_MAX + 1);
        assert_eq!(status.iter().map(|w| w.seconds).sum::<f64>(), 54.0 * 3600.0, "nothing is lost");
    }

    #[test]
    fn labels_are_bounded_and_prices_are_those_of_the_workers_that_there_are() {
        let workers: Vec<_> = (10..40).map(|n| worker(&format!("kind-{n}"), 0.0, false)).collect();
        let labels = Labels::of(workers.iter());
        let of: BTreeSet<_> = workers.iter().map(|w| labels.label(w)).collect();
        assert_eq!((of.len(), of.contains(OTHERS), &*labels.label(&workers[0])), (TYPES_MAX + 1, true, "kind-10"));
        let cost = Objective::Cost(Prices { trainer: 30.0, worker: 1.0 });
        let of = |workers: &[Worker]| priced(cost, workers.iter()).prices().worker;
        assert_eq!(of(&workers), 1.0, "none says");
        assert_eq!(of(&[worker("a", 3.0, false), worker("b", 1.0, true), worker("c", 0.0, false)]), 2.0);
        assert_eq!(priced(Objective::Time, [worker("a", 3.0, false)].iter()), Objective::Time);
    }
}
