//! Whose cost it is that workers do nothing: of the jobs that are read, by how many workers each wants. What there is while no job is read is
//! nobody's.
//!
//! What a worker did is told a heartbeat later: until then it is taken for idle, so a busy one is charged for as much too much, once.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::Ticks;

use crate::state::{Job, State};

/// Whom workers serve, their kind, and whether they may be taken back.
type Group = (Option<Arc<str>>, Arc<str>, bool);

impl State {
    /// Charges for the time since this was last done. Workers are summed up first: there may be thousands, and as many jobs.
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
