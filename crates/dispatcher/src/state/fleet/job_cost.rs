//! The cost of each job, and the price of workers.
//!
//! A job is charged for the time that threads spent on it, as a share of their worker, and for its share of idle time
//! (see `idle_cost`). Bounds: at most [`TYPES_MAX`] types per job; further ones count as [`OTHERS`]. Totals are since
//! process start and are not persisted.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_policy::placement::Objective;
use forebay_proto::{Spent, Worked};

use super::worker_types::{OTHERS, TYPES_MAX, WorkerType};

/// The work of workers for a job, by type and whether they are spot workers.
#[derive(Debug, Default)]
pub(in crate::state) struct JobCost(BTreeMap<(Arc<str>, bool), Sums>);

/// Seconds of workers, and their cost.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    worked: (f64, f64),
    idle: (f64, f64),
}

impl JobCost {
    /// Adds the time that a worker spent on the job.
    pub(in crate::state) fn add(&mut self, worker_type: &WorkerType, threads: u32, spent: &Spent) {
        let seconds = spent.compute_us as f64 / 1e6 / f64::from(threads.max(1));
        let sums = self.sums(worker_type.name(), worker_type.is_spot());
        sums.worked = (sums.worked.0 + seconds, sums.worked.1 + seconds / 3600.0 * worker_type.price());
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

/// Returns the objective with the mean price that workers report. If none reports a price, the configured one holds.
pub(in crate::state) fn priced<'a>(objective: Objective, types: impl Iterator<Item = &'a WorkerType>) -> Objective {
    let prices = types.map(WorkerType::price).filter(|price| *price > 0.0);
    let (sum, count) = prices.fold((0.0, 0u32), |(sum, count), price| (sum + price, count + 1));
    if count == 0 { objective } else { objective.with_worker(sum / f64::from(count)) }
}

#[cfg(test)]
mod tests {
    use forebay_policy::placement::Prices;

    use super::*;

    fn worker_type(kind: &str, price: f64, spot: bool) -> WorkerType {
        WorkerType::new(kind, price, spot).expect("a kind")
    }

    #[test]
    fn a_job_costs_what_workers_of_each_type_took_for_it() {
        let mut cost = JobCost::default();
        let hour = Spent { job: 1, compute_us: 2 * 3_600_000_000, rows: 1 };
        cost.add(&worker_type("big", 4.0, false), 2, &hour);
        cost.add(&worker_type("big", 4.0, false), 2, &hour);
        cost.add(&worker_type("big", 1.0, true), 2, &hour);
        cost.add(&worker_type("", 0.0, false), 2, &hour);
        let status: Vec<_> = cost.status().into_iter().map(|w| (w.kind, w.spot, w.seconds, w.cost)).collect();
        let of = |kind: &str, spot, seconds, cost| (kind.to_owned(), spot, seconds, cost);
        assert_eq!(
            status,
            [of("big", false, 7200.0, 8.0), of("big", true, 3600.0, 1.0), of("fleet", false, 3600.0, 0.0)]
        );
        (0..50).for_each(|n| cost.add(&worker_type(&format!("kind-{n}"), 1.0, false), 2, &hour));
        let status = cost.status();
        assert_eq!(status.len(), TYPES_MAX + 1);
        assert_eq!(status.iter().map(|w| w.seconds).sum::<f64>(), 54.0 * 3600.0, "nothing is lost");
    }

    #[test]
    fn prices_are_those_of_the_workers_that_there_are() {
        let cost = Objective::Cost(Prices { trainer: 30.0, worker: 1.0 });
        let of = |types: &[WorkerType]| priced(cost, types.iter()).prices().worker;
        assert_eq!(of(&[worker_type("a", 0.0, false)]), 1.0, "none says");
        assert_eq!(of(&[worker_type("a", 3.0, false), worker_type("b", 1.0, true), worker_type("c", 0.0, false)]), 2.0);
        assert_eq!(priced(Objective::Time, [worker_type("a", 3.0, false)].iter()), Objective::Time);
    }
}
