//! What people see of the state, and what tests check.

use forebay_core::Ticks;
use forebay_proto::{ConsumerStatus, JobStatus, WorkerStatus};

use super::{Job, State};

impl State {
    /// Lists the jobs, the oldest first.
    pub(crate) fn list_jobs(&self) -> Vec<JobStatus> {
        self.jobs.values().map(|job| self.job_status(job)).collect()
    }

    fn job_status(&self, job: &Job) -> JobStatus {
        let read = |c: &super::Consumer| c.reader.is_some();
        let state = match job {
            _ if job.record.cancelled => "cancelled",
            _ if job.is_finished() => "finished",
            _ if !job.consumers.iter().any(read) => "no consumer",
            _ if !self.workers.values().any(|w| w.session.is_some()) => "waiting for workers",
            _ => "running",
        };
        let consumer = |(i, c): (usize, &super::Consumer)| ConsumerStatus {
            consumer: i as u32,
            attached: read(c),
            epoch: c.frontier().epoch,
            ordinal: c.frontier().ordinal,
            splits: c.splits().unwrap_or(0),
            leased: c.leases().len() as u32,
            skipped: c.lost().len() as u64,
        };
        JobStatus {
            name: job.record.name.clone(),
            dataset: job.record.dataset.clone(),
            state: state.to_owned(),
            epochs: job.record.epochs,
            consumers: job.consumers.iter().enumerate().map(consumer).collect(),
            seed: job.record.seed,
        }
    }

    /// Lists the workers.
    pub(crate) fn list_workers(&self, now: Ticks) -> Vec<WorkerStatus> {
        let status = |(id, w): (&forebay_core::WorkerId, &super::Worker)| WorkerStatus {
            worker: format!("{:032x}", id.0),
            address: w.address.to_string(),
            threads: w.threads,
            state: match w {
                _ if w.session.is_none() => "lost",
                _ if w.leaving => "leaving",
                _ if w.leases.is_empty() => "idle",
                _ => "working",
            }
            .to_owned(),
            leases: w.leases.len() as u32,
            splits_done: w.splits_done,
            rows_done: w.rows_done,
            silent_ms: (now - w.heard).as_millis() as u64,
        };
        self.workers.iter().map(status).collect()
    }

    /// Returns what a ledger that has kept up with this state holds.
    #[cfg(test)]
    pub(crate) fn ledger(&self) -> crate::records::Ledger {
        use crate::records::{Grant, Ledger, Position};
        let mut ledger = Ledger { next_token: self.next_token, next_job: self.next_job, ..Ledger::default() };
        for (id, job) in &self.jobs {
            ledger.jobs.insert(*id, job.record.clone());
            for (i, consumer) in job.consumers.iter().enumerate() {
                let key = (*id, i as u32);
                if consumer.frontier() != Position::default() {
                    ledger.frontiers.insert(key, consumer.frontier());
                }
                let lost = consumer.lost().iter();
                ledger.lost.extend(lost.map(|((p, sample, time), error)| ((key, *p, *sample, *time), error.clone())));
                for (position, holder) in consumer.leases() {
                    let address = self.workers.get(&holder.worker).map(|w| w.address.clone()).unwrap_or_default();
                    let grant = Grant { token: holder.token, worker: holder.worker, address };
                    ledger.grants.insert((key, *position), grant);
                }
            }
        }
        ledger
    }

    /// Checks the invariants of the module's documentation.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let mut tokens = std::collections::BTreeSet::new();
        for (id, job) in &self.jobs {
            for (i, consumer) in job.consumers.iter().enumerate() {
                for (position, holder) in consumer.leases() {
                    let key = ((*id, i as u32), *position);
                    assert!(tokens.insert(holder.token), "SP-1: token {} twice", holder.token);
                    let worker =
                        self.workers.get(&holder.worker).unwrap_or_else(|| panic!("SP-1: {key:?} is held by nobody"));
                    assert_eq!(worker.leases.get(&holder.token), Some(&key), "SP-1");
                    assert!(holder.token < self.next_token, "SP-2: {} of {}", holder.token, self.next_token);
                    assert!(*position >= consumer.frontier(), "SP-3: {position} before {}", consumer.frontier());
                    if let Some(reader) = consumer.reader {
                        assert!(consumer.distance(*position) < u128::from(reader.window), "SP-4: {position}");
                    }
                }
            }
        }
        let held: usize = self.workers.values().map(|w| w.leases.len()).sum();
        assert_eq!(held, tokens.len(), "SP-1: a worker holds what no consumer leased");
    }
}
