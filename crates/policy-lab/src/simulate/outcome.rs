//! The outcome of a simulation, and its price.

use serde::Serialize;

use forebay_policy::placement::{Placement, Prices};

/// A change of the requested placement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Seconds since the simulation began.
    pub at_s: f64,
    /// Windows of the job that had ended by then.
    pub window: u64,
    /// The requested placement.
    #[serde(flatten)]
    pub to: Placement,
}

/// The outcome of one job. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobOutcome {
    /// Its name.
    pub name: String,
    /// The time at which it began.
    pub began_s: f64,
    /// How long it took.
    pub took_s: f64,
    /// How long its trainer waited.
    pub waited_s: f64,
    /// Windows with a decision; a fixed number of workers has none.
    pub windows: u64,
    /// The longest time from the job's beginning, or from a change of its step, to the last change of its placement
    /// after that.
    pub settled_s: f64,
    /// The requested placements: at first, and at each change.
    pub changes: Vec<Change>,
}

/// The outcome of the workers of a type.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindOutcome {
    /// The type.
    pub kind: String,
    /// Whether the cloud may take them back at any time.
    pub spot: bool,
    /// The price of one for an hour.
    pub price: f64,
    /// Paid seconds of them.
    pub worker_s: f64,
    /// Workers lost.
    pub lost: u64,
    /// (seconds, workers): the number of paid workers from then on.
    pub workers: Vec<(f64, u32)>,
}

/// The outcome of all jobs under a policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The policy.
    pub policy: String,
    /// When the last job ended, in seconds.
    pub ended_s: f64,
    /// Paid seconds of all workers.
    pub worker_s: f64,
    /// Workers lost.
    pub lost: u64,
    /// (seconds, workers): the number of paid workers from then on.
    pub workers: Vec<(f64, u32)>,
    /// The same by type, if there are types, in the scenario's order.
    pub kinds: Vec<KindOutcome>,
    /// Each job, in the scenario's order.
    pub jobs: Vec<JobOutcome>,
}

impl Outcome {
    /// Returns the seconds of all trainers.
    pub fn trainer_s(&self) -> f64 {
        self.jobs.iter().map(|job| job.took_s).sum()
    }

    /// Returns the share of the trainers' time in which they waited, 0 to 1.
    pub fn waited(&self) -> f64 {
        self.jobs.iter().map(|job| job.waited_s).sum::<f64>() / self.trainer_s()
    }

    /// Returns the number of changes of requested placements.
    pub fn changes(&self) -> usize {
        self.jobs.iter().map(|job| job.changes.len().saturating_sub(1)).sum()
    }

    /// Returns the seconds until the last job had its workers: see [`JobOutcome::settled_s`].
    pub fn settled_s(&self) -> f64 {
        self.jobs.iter().map(|job| job.settled_s).fold(0.0, f64::max)
    }

    /// Returns the price of the simulation. Workers of a type have the price of that type.
    pub fn price(&self, prices: &Prices) -> f64 {
        let of_kinds = || self.kinds.iter().map(|kind| kind.worker_s * kind.price).sum();
        let workers = if self.kinds.is_empty() { self.worker_s * prices.worker } else { of_kinds() };
        (self.trainer_s() * prices.trainer + workers) / 3600.0
    }
}

/// Returns the history of the paid workers of all types together.
pub(super) fn together(kinds: &[KindOutcome]) -> Vec<(f64, u32)> {
    let mut times: Vec<_> = kinds.iter().flat_map(|kind| kind.workers.iter().map(|change| change.0)).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    let at = |history: &[(f64, u32)], time: f64| match history.partition_point(|change| change.0 <= time) {
        0 => 0,
        next => history[next - 1].1,
    };
    let mut sums: Vec<(f64, u32)> =
        times.iter().map(|&time| (time, kinds.iter().map(|kind| at(&kind.workers, time)).sum())).collect();
    sums.dedup_by_key(|change| change.1);
    sums
}
