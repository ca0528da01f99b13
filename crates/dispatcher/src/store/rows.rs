//! The ledger as rows of JSON, for etcd and for display.
//!
//! A row is one change. A document is the rows of a batch and a last line with their number, so that a truncated
//! document is noticed.
//! Invariant: `Batch::from_rows(batch.rows())` is the batch, and a ledger equals the batch that makes it from an empty
//! one. Names and meanings of rows belong to the format of the store: without a new format, a row may only gain a field
//! with a default.

use std::sync::Arc;

use forebay_core::{Error, Result, WorkerId};
use serde::{Deserialize, Serialize};

use crate::records::{Batch, Grant, JobRecord, Ledger, Position, ProfileRecord, Update};

/// One change of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Row {
    /// A job ends, with everything that belongs to it.
    JobGone {
        job: u64,
    },
    Job(Arc<JobRecord>),
    Frontier {
        job: u64,
        consumer: u32,
        epoch: u64,
        ordinal: u64,
    },
    /// `worker` in hexadecimal.
    Grant {
        job: u64,
        consumer: u32,
        epoch: u64,
        ordinal: u64,
        token: u64,
        worker: String,
        address: Arc<str>,
    },
    Released {
        job: u64,
        consumer: u32,
        epoch: u64,
        ordinal: u64,
    },
    /// `error` is JSON.
    #[serde(rename = "lost")]
    Skipped {
        job: u64,
        consumer: u32,
        epoch: u64,
        ordinal: u64,
        sample: u64,
        repetition: u64,
        error: Arc<str>,
    },
    #[serde(rename = "learned")]
    Profile(Arc<ProfileRecord>),
    #[serde(rename = "forgotten")]
    ProfileGone {
        tenant: String,
        dataset: String,
    },
    NextToken(u64),
    NextJob(u64),
    /// The last line of a document: the number of rows before it.
    End(usize),
}

impl Batch {
    /// Returns the changes, in the order in which they apply.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let gone = self.jobs.iter().filter(|(_, job)| job.is_none()).map(|(id, _)| Row::JobGone { job: *id });
        let jobs = self.jobs.values().flatten().cloned().map(Row::Job);
        let frontiers = self.frontiers.iter().map(|((job, consumer), p)| Row::Frontier {
            job: *job,
            consumer: *consumer,
            epoch: p.epoch,
            ordinal: p.ordinal,
        });
        let grants = self.grants.iter().map(|(((job, consumer), p), grant)| {
            let (job, consumer, epoch, ordinal) = (*job, *consumer, p.epoch, p.ordinal);
            match grant {
                Some(Grant { token, worker, address }) => {
                    let worker = format!("{:x}", worker.0);
                    Row::Grant { job, consumer, epoch, ordinal, token: *token, worker, address: address.clone() }
                }
                None => Row::Released { job, consumer, epoch, ordinal },
            }
        });
        let skipped = self.skipped.iter().map(|(((job, consumer), p, sample, repetition), error)| Row::Skipped {
            job: *job,
            consumer: *consumer,
            epoch: p.epoch,
            ordinal: p.ordinal,
            sample: *sample,
            repetition: *repetition,
            error: error.clone(),
        });
        let profiles = self.profiles.iter().map(|((tenant, dataset), profile)| match profile {
            Some(profile) => Row::Profile(profile.clone()),
            None => Row::ProfileGone { tenant: tenant.clone(), dataset: dataset.clone() },
        });
        let next = self.next_token.map(Row::NextToken).into_iter().chain(self.next_job.map(Row::NextJob));
        gone.chain(jobs).chain(frontiers).chain(grants).chain(skipped).chain(profiles).chain(next).collect()
    }

    /// Returns the batch of these rows.
    ///
    /// # Errors
    /// Data when a worker's id is no number.
    pub(crate) fn from_rows(rows: impl IntoIterator<Item = Row>) -> Result<Self> {
        let mut batch = Self::default();
        rows.into_iter().try_for_each(|row| batch.take(row))?;
        Ok(batch)
    }

    fn take(&mut self, row: Row) -> Result<()> {
        self.add(match row {
            Row::JobGone { job } => Update::JobGone(job),
            Row::Job(job) => Update::Job(job),
            Row::Frontier { job, consumer, epoch, ordinal } => {
                Update::Frontier((job, consumer), Position::new(epoch, ordinal))
            }
            Row::Grant { job, consumer, epoch, ordinal, token, worker, address } => {
                let number = u128::from_str_radix(&worker, 16);
                let number = number.map_err(|_| Error::data(format!("{worker:?} is no worker's number")))?;
                let grant = Grant { token, worker: WorkerId(number), address };
                Update::Grant(((job, consumer), Position::new(epoch, ordinal)), grant)
            }
            Row::Released { job, consumer, epoch, ordinal } => {
                Update::Released(((job, consumer), Position::new(epoch, ordinal)))
            }
            Row::Skipped { job, consumer, epoch, ordinal, sample, repetition, error } => {
                Update::Skipped(((job, consumer), Position::new(epoch, ordinal), sample, repetition), error)
            }
            Row::Profile(profile) => Update::Profile(profile),
            Row::ProfileGone { tenant, dataset } => Update::ProfileGone((tenant, dataset)),
            Row::NextToken(token) => {
                self.next_token = self.next_token.max(Some(token));
                return Ok(());
            }
            Row::NextJob(job) => {
                self.next_job = self.next_job.max(Some(job));
                return Ok(());
            }
            Row::End(_) => return Ok(()),
        });
        Ok(())
    }
}

impl Ledger {
    /// Returns the batch that makes this ledger from an empty one.
    pub(crate) fn to_batch(&self) -> Batch {
        Batch {
            jobs: self.jobs.iter().map(|(id, job)| (*id, Some(job.clone()))).collect(),
            frontiers: self.frontiers.clone(),
            grants: self.grants.iter().map(|(key, grant)| (*key, Some(grant.clone()))).collect(),
            skipped: self.skipped.clone(),
            profiles: self.profiles.iter().map(|(key, profile)| (key.clone(), Some(profile.clone()))).collect(),
            next_token: Some(self.next_token),
            next_job: Some(self.next_job),
        }
    }
}

/// Writes a batch as a document.
///
/// # Errors
/// Internal when a row cannot be JSON.
pub(crate) fn write(batch: &Batch) -> Result<Vec<u8>> {
    let rows = batch.rows();
    let end = Row::End(rows.len());
    let mut text = Vec::new();
    for row in rows.iter().chain([&end]) {
        serde_json::to_writer(&mut text, row).map_err(|e| Error::internal(format!("a row of the ledger: {e}")))?;
        text.push(b'\n');
    }
    Ok(text)
}

/// Reads a document.
///
/// # Errors
/// Data, with the line, when it is no document or not whole.
pub(crate) fn read(text: &[u8]) -> Result<Batch> {
    let mut rows = Vec::new();
    for (number, line) in text.split(|b| *b == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        let unreadable = |e| Error::data(format!("row {} cannot be read: {e}", number + 1));
        rows.push(serde_json::from_slice(line).map_err(unreadable)?);
    }
    match rows.pop() {
        Some(Row::End(count)) if count == rows.len() => Batch::from_rows(rows),
        _ => Err(Error::data("its last rows are missing")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::records::{At, OpRecord, SteadyStateRecord};
    use forebay_plan::OpCounters;
    use forebay_proto::JobKey;

    pub(crate) fn job(id: u64, name: &str) -> Arc<JobRecord> {
        Arc::new(JobRecord {
            id,
            name: name.to_owned(),
            dataset: "a dataset".to_owned(),
            graph: "{\"a\":\"ü\\n\"}".to_owned(),
            seed: u64::MAX,
            epochs: 3,
            consumers: 2,
            extent: "{}".to_owned(),
            sizing: "{}".to_owned(),
            index: "an index".to_owned(),
            even: true,
            coordinated: true,
            weight: 3,
            priority: 5,
            cancelled: false,
            read_before: 4,
            tenant: "a-tenant".to_owned(),
            key: JobKey::from_bytes(&[7; 16]),
            sources: Vec::new(),
            ending: forebay_plan::Ending::Drop,
            ends: vec![crate::records::EpochEnd { epoch: 1, steps: 17, more: 2 }],
            bits: std::collections::BTreeMap::new(),
        })
    }

    /// A dataset's profile.
    pub(crate) fn profile(number: u64) -> Arc<ProfileRecord> {
        let rest = r#"{"at":{"workers":5,"local":2,"cut":1},"efficiency":0.75,"based":[4.5,15],"based_spare":3.25,
            "too_few":{"at":{"workers":4,"local":2,"cut":1},"load":4.25,"demand":20.5,"remote":16.125}}"#;
        let rest = serde_json::from_str(rest).expect("a place of rest");
        let sums =
            OpCounters { rows_in: 9, rows_out: 8, rows_found: 1, timed: 3, nanos: 7000, bytes_in: 30, bytes_out: 60 };
        Arc::new(ProfileRecord {
            tenant: "a-tenant".to_owned(),
            dataset: format!("dataset {number}"),
            number,
            ops: vec![OpRecord { at: At::Workers, places: vec![0, 2], sums, row_ns: 2333.1 }],
            steady_states: vec![SteadyStateRecord { consumers: 2, objective: "time".to_owned(), state: rest }],
            step: Some(0.25),
            epochs_read: 6.5,
        })
    }

    /// A batch that has every kind of row.
    pub(crate) fn every_kind() -> Batch {
        let grant = Grant { token: 7, worker: WorkerId(u128::MAX), address: "host:1".into() };
        let mut batch = Batch::default();
        batch.add(Update::JobGone(2));
        batch.add(Update::Job(job(3, "three")));
        batch.add(Update::Frontier((3, 1), Position::new(2, 5)));
        batch.add(Update::Grant(((3, 1), Position::new(2, 6)), grant));
        batch.add(Update::Released(((3, 0), Position::new(0, 1))));
        batch.add(Update::Skipped(((3, 1), Position::new(2, 5), 17, 2), "{\"kind\":\"data\"}".into()));
        batch.add(Update::Profile(profile(7)));
        batch.add(Update::ProfileGone(profile(8).key()));
        batch
    }

    #[test]
    fn a_batch_and_a_ledger_come_back_whole_and_never_in_part() -> Result<()> {
        let batch = every_kind();
        let text = write(&batch)?;
        assert_eq!(read(&text)?, batch);
        let mut ledger = Ledger::default();
        ledger.apply(&batch);
        let mut again = Ledger::default();
        again.apply(&read(&write(&ledger.to_batch())?)?);
        assert_eq!(again, ledger);
        for end in 0..text.len() - 1 {
            assert!(read(&text[..end]).is_err(), "{end} of {} bytes", text.len());
        }
        Ok(())
    }
}
