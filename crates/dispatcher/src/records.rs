//! Everything that the dispatcher persists.
//!
//! A change is an [`Update`]. A [`Batch`] merges many updates, so the size of a write depends on how much is
//! outstanding, and not on how often it changed. A [`Ledger`] is everything that was written.
//! Invariant: `ledger.apply(batch)` does what the store does with a batch, so tests and the simulation replay without a
//! disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::{Error, Result, Seed, WorkerId};
use forebay_plan::{
    Ending, EpochPlan, Extent, Graph, NeededBits, OpCounters, Sharding, Sizing, Stages, check_planned_bits, needed_bits,
};
use forebay_policy::scaling::SteadyState;
use forebay_proto::{JobDefinition, JobKey};
use serde::{Deserialize, Serialize};

/// The position of a split in the order of a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub(crate) struct Position {
    pub(crate) epoch: u64,
    pub(crate) ordinal: u64,
}

impl Position {
    pub(crate) fn new(epoch: u64, ordinal: u64) -> Self {
        Self { epoch, ordinal }
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of epoch {}", self.ordinal, self.epoch)
    }
}

/// A consumer of a job.
pub(crate) type ConsumerKey = (u64, u32);
/// A split of a consumer.
pub(crate) type SplitKey = (ConsumerKey, Position);

/// A job as it was opened. Only `cancelled` and `ends` ever change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    pub(crate) id: u64,
    pub(crate) name: String,
    /// The dataset id.
    pub(crate) dataset: String,
    pub(crate) graph: String,
    pub(crate) seed: u64,
    pub(crate) epochs: u64,
    pub(crate) consumers: u32,
    pub(crate) extent: String,
    pub(crate) sizing: String,
    pub(crate) index: String,
    /// Whether consumers get equal shares.
    #[serde(default)]
    pub(crate) even: bool,
    /// Whether consumers get batches of the same bucket at each step.
    #[serde(default)]
    pub(crate) coordinated: bool,
    #[serde(default)]
    pub(crate) cancelled: bool,
    /// Its weight: the share of the workers that it gets beside other jobs.
    #[serde(default = "weight")]
    pub(crate) weight: u32,
    /// Jobs of a higher priority go first.
    #[serde(default)]
    pub(crate) priority: u32,
    /// Epochs of its dataset that other jobs had read when it was opened.
    #[serde(default)]
    pub(crate) read_before: u32,
    /// The tenant that owns it.
    #[serde(default)]
    pub(crate) tenant: String,
    /// The key that workers require from its consumers; none if the job was opened without tokens.
    #[serde(default)]
    pub(crate) key: JobKey,
    /// The sources that it may read; if empty, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sources: Vec<String>,
    /// How its consumers end epochs together.
    #[serde(default, skip_serializing_if = "is_apart")]
    pub(crate) ending: Ending,
    /// Where the last epochs ended for all consumers, in the order in which that was decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ends: Vec<EpochEnd>,
    /// The versions of the bits that it began with, of the ops, sources and functions that it uses; where it is not 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) bits: NeededBits,
}

/// Where an epoch ended for all consumers of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EpochEnd {
    pub(crate) epoch: u64,
    pub(crate) steps: u64,
    /// How many consumers had one step more.
    pub(crate) more: u32,
}

#[cfg(test)]
impl JobRecord {
    /// Returns a job of one epoch and one consumer; everything else is empty.
    pub(crate) fn empty() -> Self {
        let text = String::new;
        Self {
            id: 0,
            name: text(),
            dataset: text(),
            graph: text(),
            seed: 0,
            epochs: 1,
            consumers: 1,
            extent: text(),
            sizing: text(),
            index: text(),
            even: false,
            coordinated: false,
            weight: 1,
            priority: 0,
            read_before: 0,
            cancelled: false,
            tenant: text(),
            key: JobKey::default(),
            sources: Vec::new(),
            ending: Ending::Apart,
            ends: Vec::new(),
            bits: BTreeMap::new(),
        }
    }
}

impl JobRecord {
    /// Returns whether splits are source blocks of unknown length, each computed while its consumer takes it.
    pub(crate) fn is_streamed(&self) -> bool {
        serde_json::from_str::<Sizing>(&self.sizing).is_ok_and(|sizing| sizing.unit_rows == 0)
    }

    /// Returns the plan of its epochs.
    ///
    /// # Errors
    /// Data when a job of this version did not write the record; Version when it began with another order of rows;
    /// those of [`EpochPlan::new`].
    pub(crate) fn plan(&self) -> Result<EpochPlan> {
        check_planned_bits(&self.bits)?;
        let unreadable = |e: serde_json::Error| Error::data(format!("job {:?} cannot be read: {e}", self.name));
        let extent: Extent = serde_json::from_str(&self.extent).map_err(unreadable)?;
        let sizing: Sizing = serde_json::from_str(&self.sizing).map_err(unreadable)?;
        let stages = Stages::in_parts(&Graph::from_json(&self.graph)?, self.sharding().parts())?;
        EpochPlan::new(&stages, extent, Seed(self.seed), self.sharding(), Some(sizing))
    }

    /// Returns the versions of bits that its workers and consumers must compute. Nothing if its pipeline cannot be read.
    pub(crate) fn needed_bits(&self) -> NeededBits {
        Graph::from_json(&self.graph).map(|graph| needed_bits(&graph, &self.bits)).unwrap_or_default()
    }

    /// Returns how epochs are divided among consumers.
    pub(crate) fn sharding(&self) -> Sharding {
        Sharding { consumers: self.consumers, even: self.even, coordinated: self.coordinated }
    }

    pub(crate) fn definition(&self) -> JobDefinition {
        JobDefinition {
            job: self.id,
            name: self.name.clone(),
            graph: self.graph.clone(),
            seed: self.seed,
            epochs: self.epochs,
            consumers: self.consumers,
            extent: self.extent.clone(),
            sizing: self.sizing.clone(),
            index: self.index.clone(),
            even: self.even,
            tenant: self.tenant.clone(),
            key: self.key.to_vec(),
            coordinated: self.coordinated,
            weight: self.weight,
            priority: self.priority,
            read_before: self.read_before,
            sources: self.sources.clone(),
            ending: forebay_proto::Ending::from(self.ending).into(),
        }
    }
}

fn is_apart(ending: &Ending) -> bool {
    *ending == Ending::Apart
}

/// The weight of a job that names none.
fn weight() -> u32 {
    1
}

/// The worker that holds a split, and the fencing token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) token: u64,
    pub(crate) worker: WorkerId,
    pub(crate) address: Arc<str>,
}

/// A sample that a consumer left out: its split, its number, and which repetition of it.
pub(crate) type SkippedKey = (ConsumerKey, Position, u64, u64);

/// A dataset of a tenant.
pub(crate) type DatasetKey = (String, String);

/// Figures of the jobs on a dataset. It belongs to none of them, and outlives them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProfileRecord {
    pub(crate) tenant: String,
    pub(crate) dataset: String,
    /// Profiles with a lower number were written before, and are dropped before.
    pub(crate) number: u64,
    pub(crate) ops: Vec<OpRecord>,
    /// The most recent one is last.
    #[serde(rename = "rests")]
    pub(crate) steady_states: Vec<SteadyStateRecord>,
    /// Seconds that a trainer took per row, without its waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<f64>,
    /// Epochs that jobs have read; each of several consumers adds its part.
    #[serde(default)]
    pub(crate) epochs_read: f64,
}

impl ProfileRecord {
    pub(crate) fn key(&self) -> DatasetKey {
        (self.tenant.clone(), self.dataset.clone())
    }
}

/// The figures of one op.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpRecord {
    pub(crate) at: At,
    /// The places of the ops that are fused in it.
    pub(crate) places: Vec<u32>,
    pub(crate) sums: OpCounters,
    /// Nanoseconds per row: the last median.
    pub(crate) row_ns: f64,
}

/// The processes whose threads ran it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum At {
    Workers,
    Local,
    #[serde(rename = "reader")]
    Consumer,
}

/// The steady state of a job with so many consumers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SteadyStateRecord {
    pub(crate) consumers: u32,
    /// The objective in words: with another one the job was not steady.
    pub(crate) objective: String,
    #[serde(rename = "rest")]
    pub(crate) state: SteadyState,
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Update {
    Job(Arc<JobRecord>),
    JobGone(u64),
    Frontier(ConsumerKey, Position),
    Grant(SplitKey, Grant),
    Released(SplitKey),
    /// A token was given out that no grant records: that of a backup lease.
    Token(u64),
    /// A sample was left out, with its error as JSON. The record stays as long as the job.
    Skipped(SkippedKey, Arc<str>),
    /// The profile of a dataset has changed.
    Profile(Arc<ProfileRecord>),
    /// The profile of a dataset made room for another one.
    ProfileGone(DatasetKey),
}

/// Many updates, merged.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Batch {
    /// `None` removes the job with everything that belongs to it, before anything else of the batch is written.
    pub(crate) jobs: BTreeMap<u64, Option<Arc<JobRecord>>>,
    pub(crate) frontiers: BTreeMap<ConsumerKey, Position>,
    pub(crate) grants: BTreeMap<SplitKey, Option<Grant>>,
    pub(crate) skipped: BTreeMap<SkippedKey, Arc<str>>,
    pub(crate) profiles: BTreeMap<DatasetKey, Option<Arc<ProfileRecord>>>,
    /// One more than the highest token of the batch.
    pub(crate) next_token: Option<u64>,
    /// One more than the highest job number.
    pub(crate) next_job: Option<u64>,
}

impl Batch {
    pub(crate) fn add(&mut self, update: Update) {
        match update {
            Update::Job(job) => {
                self.next_job = self.next_job.max(Some(job.id + 1));
                self.jobs.insert(job.id, Some(job));
            }
            Update::JobGone(id) => {
                self.frontiers.retain(|(job, _), _| *job != id);
                self.grants.retain(|((job, _), _), _| *job != id);
                self.skipped.retain(|((job, _), ..), _| *job != id);
                self.jobs.insert(id, None);
            }
            Update::Frontier(key, position) => {
                self.frontiers.insert(key, position);
            }
            Update::Grant(key, grant) => {
                self.next_token = self.next_token.max(Some(grant.token + 1));
                self.grants.insert(key, Some(grant));
            }
            Update::Released(key) => {
                self.grants.insert(key, None);
            }
            Update::Token(token) => self.next_token = self.next_token.max(Some(token + 1)),
            Update::Skipped(key, error) => {
                self.skipped.insert(key, error);
            }
            Update::Profile(record) => {
                self.profiles.insert(record.key(), Some(record));
            }
            Update::ProfileGone(key) => {
                self.profiles.insert(key, None);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let of_jobs = self.frontiers.is_empty() && self.grants.is_empty() && self.skipped.is_empty();
        self.jobs.is_empty() && of_jobs && self.profiles.is_empty() && self.next_token.is_none()
    }
}

/// Everything that has been written.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Ledger {
    pub(crate) jobs: BTreeMap<u64, Arc<JobRecord>>,
    pub(crate) frontiers: BTreeMap<ConsumerKey, Position>,
    pub(crate) grants: BTreeMap<SplitKey, Grant>,
    pub(crate) skipped: BTreeMap<SkippedKey, Arc<str>>,
    pub(crate) profiles: BTreeMap<DatasetKey, Arc<ProfileRecord>>,
    pub(crate) next_token: u64,
    pub(crate) next_job: u64,
}

impl Ledger {
    /// Applies a batch, as the store does.
    pub(crate) fn apply(&mut self, batch: &Batch) {
        for (id, job) in &batch.jobs {
            match job {
                Some(job) => drop(self.jobs.insert(*id, job.clone())),
                None => {
                    self.jobs.remove(id);
                    self.frontiers.retain(|(job, _), _| job != id);
                    self.grants.retain(|((job, _), _), _| job != id);
                    self.skipped.retain(|((job, _), ..), _| job != id);
                }
            }
        }
        self.frontiers.extend(batch.frontiers.iter().map(|(k, v)| (*k, *v)));
        for (key, grant) in &batch.grants {
            match grant {
                Some(grant) => drop(self.grants.insert(*key, grant.clone())),
                None => drop(self.grants.remove(key)),
            }
        }
        self.skipped.extend(batch.skipped.iter().map(|(k, v)| (*k, v.clone())));
        for (key, profile) in &batch.profiles {
            match profile {
                Some(profile) => drop(self.profiles.insert(key.clone(), profile.clone())),
                None => drop(self.profiles.remove(key)),
            }
        }
        self.next_token = self.next_token.max(batch.next_token.unwrap_or(0));
        self.next_job = self.next_job.max(batch.next_job.unwrap_or(0));
    }
}
