//! When to change how many replicas there should be, and what to tell. Reads no clock: the time comes in.

use std::time::Duration;

use forebay_core::{Error, Result, Ticks};
use forebay_policy::provision::{Action, Reconciler, WorkerCounts};

use super::workload::{Workload, WorkloadClient};

/// Pods that may be starting, or leaving, at the same time: a cluster starts them beside each other.
pub(crate) const CONCURRENT_STARTS: u32 = 16;
/// How long pods may take to be ready until it is told why they are not.
const START_MAX: Duration = Duration::from_secs(60);

/// What came of a look.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// There is nothing to do, or nothing is to be done now.
    Unchanged,
    /// The replicas were set.
    Scaled { from: u32, to: u32 },
    /// Pods have not become ready for a while. Told once, until all are.
    PodsMissing { missing: u32, why: String },
    /// Kubernetes refused, or did not answer.
    Failed { error: Error, pause: Duration },
}

/// Returns how many replicas a workload should have now, one step of the reconciler after the other.
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

/// Brings a workload to what is wanted.
pub(crate) struct Scaler {
    pub(crate) workload: WorkloadClient,
    reconciler: Reconciler,
    /// Nothing is asked before.
    until: Ticks,
    /// Since when pods are missing, and whether that was told.
    missing: Option<(Ticks, bool)>,
}

impl Scaler {
    /// Where there are other kinds of workers, `workers_min` may be 0.
    pub(crate) fn new(workload: WorkloadClient, workers_min: u32, workers_max: u32) -> Self {
        let reconciler = Reconciler::new(workers_min, workers_max, CONCURRENT_STARTS);
        Self { workload, reconciler, until: Ticks::default(), missing: None }
    }

    /// Looks, and does what is to be done. Without a wanted number, nothing is.
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
        // Nothing was refused: pauses begin anew.
        self.reconciler.lives(now);
        if from != to {
            return Ok(Outcome::Scaled { from, to });
        }
        Ok(match self.overdue(now, &there) {
            Some(missing) => Outcome::PodsMissing { missing, why: self.workload.why(&there).await },
            None => Outcome::Unchanged,
        })
    }

    /// Returns how many pods are missing, if that is to be told.
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
