//! Alarms: conditions of a service that need a person's attention.

use serde::Serialize;

use super::Snapshot;

/// The most alarms of an answer.
const ALARMS_MAX: usize = 50;
/// The shortest wait of a trainer that is an alarm, in milliseconds.
const WAIT_MS: u64 = 10_000;

/// An alarm in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alarm {
    /// "error" or "warning".
    pub level: &'static str,
    /// The fault, in words.
    pub text: String,
    /// The job's tenant and name; `null` if it concerns no single job.
    pub tenant: Option<String>,
    /// See `tenant`.
    pub job: Option<String>,
}

/// Returns the alarms of a snapshot, the worst first.
pub fn alarms(snapshot: &Snapshot) -> Vec<Alarm> {
    let mut found = Vec::new();
    let mut add = |level, text: String, job: Option<(&str, &str)>| {
        let (tenant, job) = job.map(|(tenant, name)| (tenant.to_owned(), name.to_owned())).unzip();
        found.push(Alarm { level, text, tenant, job });
    };
    for job in &snapshot.jobs {
        let of = Some((&*job.tenant, &*job.name));
        if job.state == "waiting for workers" {
            add("error", "no worker computes for this job".to_owned(), of);
        }
        let waits = job.consumers.iter().filter(|c| c.attached).map(|c| c.waiting_ms).max().unwrap_or(0);
        if waits >= WAIT_MS && job.state == "running" {
            add("error", format!("a trainer has waited {} s for a batch", waits / 1000), of);
        }
        let skipped: u64 = job.consumers.iter().map(|c| c.skipped).sum();
        if skipped > 0 && ["running", "waiting for workers", "no consumer"].contains(&&*job.state) {
            let plural = if skipped == 1 { " was" } else { "s were" };
            add("warning", format!("{skipped} sample{plural} skipped"), of);
        }
    }
    let count = |state: &str| snapshot.workers.iter().filter(|w| w.state == state).count();
    let workers = |n: usize| if n == 1 { "1 worker".to_owned() } else { format!("{n} workers") };
    let (lost, slow) = (count("lost"), count("slow"));
    if lost > 0 {
        add("warning", format!("{} lost in the last 10 minutes", workers(lost)), None);
    }
    if slow > 0 {
        add("warning", format!("{} late with splits: slow", workers(slow)), None);
    }
    let off = snapshot.workers.iter().filter(|w| !w.disk_off.is_empty()).count();
    if off > 0 {
        add("warning", format!("{} cannot write to the cache folder", workers(off)), None);
    }
    found.sort_by_key(|alarm| alarm.level);
    found.truncate(ALARMS_MAX);
    found
}
