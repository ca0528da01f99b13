//! What came of a simulation, and what it costs.

use serde::Serialize;

use forebay_policy::placement::{Placement, Prices};

/// Another placement that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Seconds since the simulation began.
    pub at_s: f64,
    /// Windows of the job that had ended by then.
    pub window: u64,
    /// What was asked for.
    #[serde(flatten)]
    pub to: Placement,
}

/// What came of one job. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobOutcome {
    /// What it is called.
    pub name: String,
    /// When it began.
    pub began_s: f64,
    /// How long it took.
    pub took_s: f64,
    /// How long its trainer waited.
    pub waited_s: f64,
    /// Windows that were decided on; a fixed number of workers has none.
    pub windows: u64,
    /// From its beginning, or the last change of its step before, to the last change of its placement: the longest of these.
    pub settled_s: f64,
    /// What was asked for: at first, and at each change.
    pub changes: Vec<Change>,
}

/// What became of the workers of a kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindOutcome {
    /// Which.
    pub kind: String,
    /// Whether they may be taken back at any time.
    pub spot: bool,
    /// What one costs for an hour.
    pub price: f64,
    /// Seconds of them that are paid.
    pub worker_s: f64,
    /// How many were lost.
    pub lost: u64,
    /// (seconds, workers): how many were paid from when on.
    pub workers: Vec<(f64, u32)>,
}

/// What came of all jobs under a policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The policy.
    pub policy: String,
    /// When the last job ended, in seconds.
    pub ended_s: f64,
    /// Seconds of all workers that are paid.
    pub worker_s: f64,
    /// Workers that were lost.
    pub lost: u64,
    /// (seconds, workers): how many were paid from when on.
    pub workers: Vec<(f64, u32)>,
    /// The same for each kind, where there are kinds, in the scenario's order.
    pub kinds: Vec<KindOutcome>,
    /// Each job, in the scenario's order.
    pub jobs: Vec<JobOutcome>,
}

impl Outcome {
    /// Returns the seconds of all trainers.
    pub fn trainer_s(&self) -> f64 {
        self.jobs.iter().map(|job| job.took_s).sum()
    }

    /// Returns the share of the trainers' time that they waited, 0 to 1.
    pub fn waited(&self) -> f64 {
        self.jobs.iter().map(|job| job.waited_s).sum::<f64>() / self.trainer_s()
    }

    /// Returns how often another placement was asked for.
    pub fn changes(&self) -> usize {
        self.jobs.iter().map(|job| job.changes.len().saturating_sub(1)).sum()
    }

    /// Returns what it took until the last job had its workers, in seconds: see [`JobOutcome::settled_s`].
    pub fn settled_s(&self) -> f64 {
        self.jobs.iter().map(|job| job.settled_s).fold(0.0, f64::max)
    }

    /// Returns what it costs. Workers of a kind have that one's price.
    pub fn price(&self, prices: &Prices) -> f64 {
        let of_kinds = || self.kinds.iter().map(|kind| kind.worker_s * kind.price).sum();
        let workers = if self.kinds.is_empty() { self.worker_s * prices.worker } else { of_kinds() };
        (self.trainer_s() * prices.trainer + workers) / 3600.0
    }
}

/// Returns how many workers of all kinds were paid from when on.
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
