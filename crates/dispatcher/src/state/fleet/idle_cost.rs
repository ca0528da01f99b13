//! Charges idle worker time to the jobs that are being read, in proportion to the workers they want. While no job is
//! read, it is charged to none.
//!
//! Workers report their work one heartbeat late. Until then it counts as idle, so a busy worker's first interval is
//! overcharged, once.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::Ticks;

use crate::state::{Job, State};

/// The tenant that workers serve, their type, and whether they are spot workers.
type Group = (Option<Arc<str>>, Arc<str>, bool);

impl State {
    /// Charges for the time since the last call. Workers are summed up first: there may be thousands of them, and as
    /// many jobs.
    pub(in crate::state) fn charge_idle(&mut self, now: Ticks) {
        let mut idle: BTreeMap<Group, (f64, f64)> = BTreeMap::new();
        for worker in self.workers.values_mut().filter(|w| w.is_of_fleet()) {
            let Some(seconds) = worker.idle(now) else { continue };
            let kind = &worker.worker_type;
            let sums = idle.entry((worker.serves.clone(), kind.name().into(), kind.is_spot())).or_default();
            *sums = (sums.0 + seconds, sums.1 + seconds / 3600.0 * kind.price());
        }
        let mut read: Vec<_> = self.jobs.values_mut().filter(|job| job.is_read()).collect();
        let wants = |job: &Job| f64::from(job.scale.wanted().unwrap_or(1));
        for ((serves, kind, spot), (seconds, cost)) in idle {
            let is_served = |job: &Job| serves.as_deref().is_none_or(|tenant| tenant == job.record.tenant);
            let all: f64 = read.iter().filter(|job| is_served(job)).map(|job| wants(job)).sum();
            for job in read.iter_mut().filter(|job| is_served(job) && all > 0.0) {
                let share = wants(job) / all;
                job.cost.add_idle(&kind, spot, seconds * share, cost * share);
            }
        }
    }
}
