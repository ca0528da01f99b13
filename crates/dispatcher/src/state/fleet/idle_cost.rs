//! Charges idle worker time to the jobs that have consumers, in proportion to the workers they want. While no job has
//! consumers, it is charged to none.
//!
//! Workers report their work one heartbeat late. Until then it counts as idle, so a busy worker's first interval is
//! overcharged, once.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::Ticks;

use super::job_cost::JobCost;
use super::worker_types::WorkerType;

/// The idle time of one worker.
#[derive(Debug)]
pub(in crate::state) struct IdleTime {
    /// Start of the unbilled idle interval, and busy microseconds that were reported but not yet subtracted from it:
    /// reports lag one heartbeat.
    since: Ticks,
    unbilled_us: u64,
}

impl IdleTime {
    pub(in crate::state) fn new(now: Ticks) -> Self {
        Self { since: now, unbilled_us: 0 }
    }

    /// Notes that the worker's threads were busy for `micros` microseconds.
    pub(in crate::state) fn note_spent(&mut self, micros: u64) {
        self.unbilled_us = self.unbilled_us.saturating_add(micros);
    }

    /// Returns the idle seconds since the last call, averaged over the worker's threads; `None` if there were none.
    fn take(&mut self, now: Ticks, threads: u32) -> Option<f64> {
        let all = ((now - self.since).as_micros() as u64).saturating_mul(threads.into());
        self.since = now;
        let idle = all.saturating_sub(self.unbilled_us);
        self.unbilled_us = self.unbilled_us.saturating_sub(all);
        (idle > 0).then(|| idle as f64 / 1e6 / f64::from(threads.max(1)))
    }
}

/// The tenant that workers serve, their type, and whether they are spot workers.
type Group = (Option<Arc<str>>, Arc<str>, bool);

/// Idle seconds of workers, and their cost, by group: there may be thousands of workers, and as many jobs.
#[derive(Debug, Default)]
pub(in crate::state) struct IdleSums(BTreeMap<Group, (f64, f64)>);

impl IdleSums {
    /// Adds the idle time of a worker since the last call.
    pub(in crate::state) fn add(
        &mut self,
        now: Ticks,
        (serves, threads): (Option<&Arc<str>>, u32),
        worker_type: &WorkerType,
        idle: &mut IdleTime,
    ) {
        let Some(seconds) = idle.take(now, threads) else { return };
        let group = (serves.cloned(), worker_type.name().into(), worker_type.is_spot());
        let sums = self.0.entry(group).or_default();
        *sums = (sums.0 + seconds, sums.1 + seconds / 3600.0 * worker_type.price());
    }

    /// Charges the sums to jobs: to each its cost, its tenant, and how many workers it wants.
    pub(in crate::state) fn charge(self, read: &mut [(&mut JobCost, &str, f64)]) {
        for ((serves, kind, spot), (seconds, cost)) in self.0 {
            let is_served = |tenant: &str| serves.as_deref().is_none_or(|serves| serves == tenant);
            let all: f64 = read.iter().filter(|(_, tenant, _)| is_served(tenant)).map(|(.., wants)| wants).sum();
            for (job, _, wants) in read.iter_mut().filter(|(_, tenant, _)| is_served(tenant) && all > 0.0) {
                let share = *wants / all;
                job.add_idle(&kind, spot, seconds * share, cost * share);
            }
        }
    }
}
