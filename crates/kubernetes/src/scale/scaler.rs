//! Decides when to change the replicas of a workload, and what to log. Its caller passes the time.

use std::time::Duration;

use forebay_core::{Error, Result, Ticks};
use forebay_policy::provision::{Action, Reconciler, WorkerCounts};

use super::workload::{Workload, WorkloadClient};

/// Most pods that may be starting, or terminating, at the same time.
pub(crate) const CONCURRENT_STARTS: u32 = 16;
/// Time that pods have to become ready before the cause is logged.
const START_MAX: Duration = Duration::from_secs(60);

/// The outcome of a step.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The replicas stay.
    Unchanged,
    /// The replicas were set.
    Scaled { from: u32, to: u32 },
    /// Pods are not ready after [`START_MAX`]. Returned once, until all pods are ready.
    PodsMissing { missing: u32, why: String },
    /// Kubernetes rejected a request, or did not answer; the next request waits for `pause`.
    Failed { error: Error, pause: Duration },
}

/// Returns the replicas that a workload should have now: applies the reconciler's actions until it keeps the number.
pub(crate) fn plan(reconciler: &mut Reconciler, now: Ticks, wanted: u32, there: &Workload) -> u32 {
    let mut replicas = there.replicas;
    loop {
        let observed = WorkerCounts {
            starting: replicas.saturating_sub(there.ready),
            running: replicas.min(there.ready),
            leaving: there.present.saturating_sub(replicas),
        };
        match reconciler.next(now, Some(wanted), observed) {
            Action::Keep => return replicas,
            Action::StartOne => replicas += 1,
            Action::EndOne => replicas -= 1,
        }
    }
}

/// Scales a workload to the wanted number.
pub(crate) struct Scaler {
    pub(crate) workload: WorkloadClient,
    reconciler: Reconciler,
    /// End of the backoff.
    until: Ticks,
    /// Start of missing pods, and whether they are reported.
    missing: Option<(Ticks, bool)>,
}

impl Scaler {
    /// `workers_min` may be 0 for a worker type.
    pub(crate) fn new(workload: WorkloadClient, workers_min: u32, workers_max: u32) -> Self {
        let reconciler = Reconciler::new(workers_min, workers_max, CONCURRENT_STARTS);
        Self { workload, reconciler, until: Ticks::default(), missing: None }
    }

    /// Reads the workload and scales it. Without a wanted number, it sends no request.
    pub(crate) async fn step(&mut self, now: Ticks, wanted: Option<u32>) -> Outcome {
        let Some(wanted) = wanted.filter(|_| now >= self.until) else { return Outcome::Unchanged };
        self.reconcile(now, wanted).await.unwrap_or_else(|error| {
            let pause = self.reconciler.failed(now);
            self.until = now + pause;
            Outcome::Failed { error, pause }
        })
    }

    async fn reconcile(&mut self, now: Ticks, wanted: u32) -> Result<Outcome> {
        let there = self.workload.read().await?;
        let (from, to) = (there.replicas, plan(&mut self.reconciler, now, wanted, &there));
        if from != to {
            self.workload.scale(to).await?;
        }
        // The requests succeeded, so the backoff is reset.
        self.reconciler.lives(now);
        if from != to {
            return Ok(Outcome::Scaled { from, to });
        }
        Ok(match self.overdue(now, &there) {
            Some(missing) => Outcome::PodsMissing { missing, why: self.workload.why(&there).await },
            None => Outcome::Unchanged,
        })
    }

    /// Returns the number of missing pods if it is due to be reported.
    fn overdue(&mut self, now: Ticks, there: &Workload) -> Option<u32> {
        let missing = there.replicas.saturating_sub(there.ready);
        if missing == 0 {
            self.missing = None;
            return None;
        }
        let (since, is_reported) = self.missing.get_or_insert((now, false));
        if *is_reported || now - *since < START_MAX {
            return None;
        }
        *is_reported = true;
        Some(missing)
    }
}
