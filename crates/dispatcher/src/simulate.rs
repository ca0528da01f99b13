//! The dispatcher for the simulation: the real core and the real records, with the messages of the wire.
//!
//! Not part of the public interface: only `crates/sim` uses it. Nothing is decided here.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::{Result, Ticks};
use forebay_plan::Graph;
use forebay_proto::worker_message;
use forebay_proto::{Attach, Hello, JobDefinition, JobKey, JobStatus, LostSample, WorkerStatus, consumer_message};

use crate::actor::core::DispatcherCore;
use crate::jobs::splits;
use crate::options::Timing;
use crate::records::{Batch, JobRecord, Ledger, SkippedKey};
use crate::service::{consume, work};
use crate::state::{Input, SessionId, State, WHOLE_SPLIT};
use crate::tenant::{Quota, Tenant};

/// Events that the dispatcher sends.
pub use forebay_proto::{consumer_event, worker_event};

/// A ledger in memory instead of a file. A write happens as a whole or not at all, as in the store.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disk(Ledger);

/// A batch to write.
#[derive(Debug, Clone, PartialEq)]
pub struct Write(Batch);

impl Disk {
    /// Applies a batch, as the store does.
    pub fn apply(&mut self, write: &Write) {
        self.0.apply(&write.0);
    }

    /// Returns whether a worker may hold a lease with this token: whether the token was granted durably.
    pub fn has_granted(&self, token: u64) -> bool {
        token < self.0.next_token
    }

    /// Returns the (epoch, ordinal) of a consumer's frontier.
    pub fn frontier(&self, job: &str, consumer: u32) -> (u64, u64) {
        let id = self.0.jobs.values().find(|j| j.name == job).map(|j| j.id);
        let frontier = id.and_then(|id| self.0.frontiers.get(&(id, consumer)));
        frontier.map_or((0, 0), |p| (p.epoch, p.ordinal))
    }

    /// Returns the samples that a consumer of a job has left out.
    pub fn skipped(&self, key: (u64, u32)) -> Vec<LostSample> {
        let of = self.0.skipped.iter().filter(|((of, _, sample, _), _)| *of == key && *sample != WHOLE_SPLIT);
        let sample = |((_, at, sample, repetition), error): (&SkippedKey, &Arc<str>)| LostSample {
            epoch: at.epoch,
            ordinal: at.ordinal,
            sample: *sample,
            repetition: *repetition,
            error: error.to_string(),
        };
        of.map(sample).collect()
    }

    /// Returns how many samples all consumers have left out.
    pub fn num_skipped(&self) -> u64 {
        self.0.skipped.keys().filter(|(_, _, sample, _)| *sample != WHOLE_SPLIT).count() as u64
    }

    /// Returns the splits that are never tried again: their consumers, epochs and ordinals.
    pub fn poisoned(&self) -> Vec<((u64, u32), u64, u64)> {
        let whole = self.0.skipped.keys().filter(|(_, _, sample, _)| *sample == WHOLE_SPLIT);
        whole.map(|(key, at, ..)| (*key, at.epoch, at.ordinal)).collect()
    }

    /// Forgets where epochs ended for all.
    pub fn forget_ends(&mut self) {
        for job in self.0.jobs.values_mut() {
            *job = Arc::new(JobRecord { ends: Vec::new(), ..(**job).clone() });
        }
    }

    /// Forgets all frontiers.
    pub fn forget_frontiers(&mut self) {
        self.0.frontiers.clear();
    }
}

/// Something to send now.
#[derive(Debug)]
pub enum Output {
    /// To a consumer's session.
    Consumer(u64, consumer_event::Event),
    /// To a worker's session.
    Worker(u64, worker_event::Event),
    /// The session is over.
    End(u64, forebay_core::Error),
    /// The session is over, and its peer may get the reason.
    Closed(u64),
    /// The job of a name, if there is one, for the caller with this number.
    Found(u64, Option<JobDefinition>),
    /// A job was recorded, or refused, for the caller with this number.
    Opened(u64, Result<JobDefinition>),
    /// The job of a name was cancelled, or could not be.
    Cancelled(String, Result<()>),
}

enum Answer {
    Found(u64, Option<JobDefinition>),
    Opened(u64, Result<JobDefinition>),
    Cancelled(String, Result<()>),
}

/// The dispatcher's core.
pub struct Dispatcher {
    core: DispatcherCore<Answer>,
    /// Jobs that cannot be planned.
    refused: Vec<Output>,
}

impl Dispatcher {
    /// Starts with the ledger of a disk.
    ///
    /// # Errors
    /// Data when the ledger cannot be read.
    pub fn start(timing: Timing, now: Ticks, disk: &Disk) -> Result<Self> {
        let mut recovered = Vec::new();
        let state = State::recover(timing, now, &disk.0, splits, &mut recovered)?;
        Ok(Self { core: DispatcherCore::new(state, recovered, now), refused: Vec::new() })
    }

    /// A consumer's session begins.
    ///
    /// # Errors
    /// Those of the service.
    pub fn attach(&mut self, now: Ticks, session: u64, attach: Attach) -> Result<()> {
        let session = SessionId(session);
        self.core.begin(now, session, consume::attached(session, Tenant::default(), attach)?);
        Ok(())
    }

    /// A worker's session begins.
    ///
    /// # Errors
    /// Those of the service.
    pub fn hello(&mut self, now: Ticks, session: u64, hello: Hello) -> Result<()> {
        let session = SessionId(session);
        self.core.begin(now, session, work::arrived(session, None, hello)?);
        Ok(())
    }

    /// A consumer sends a message.
    pub fn consumer(&mut self, now: Ticks, session: u64, message: consumer_message::Message) {
        if let Some(input) = consume::input(SessionId(session), message) {
            self.core.input(now, input);
        }
    }

    /// A worker sends a message.
    pub fn worker(&mut self, now: Ticks, session: u64, message: worker_message::Message) {
        if let Some(input) = work::input(SessionId(session), message) {
            self.core.input(now, input);
        }
    }

    /// A consumer's session ended, as noticed by the service.
    pub fn consumer_gone(&mut self, now: Ticks, session: u64) {
        self.core.input(now, Input::ConsumerGone { session: SessionId(session) });
    }

    /// A worker's session ended, as noticed by the service.
    pub fn worker_gone(&mut self, now: Ticks, session: u64) {
        self.core.input(now, Input::WorkerGone { session: SessionId(session) });
    }

    /// Looks for the job of a name, as `OpenJob` does ([`Output::Found`] answers).
    pub fn find(&mut self, asked: u64, name: &str) {
        self.core.find("", name, |found| Answer::Found(asked, found.map(|r| r.definition())));
    }

    /// Creates the job if there was none ([`Output::Opened`] answers).
    pub fn create(&mut self, now: Ticks, asked: u64, definition: &JobDefinition) {
        let dataset =
            Graph::from_json(&definition.graph).map_or_else(|_| String::new(), |g| g.dataset_id().to_string());
        let record = JobRecord {
            id: 0,
            name: definition.name.clone(),
            dataset,
            graph: definition.graph.clone(),
            seed: definition.seed,
            epochs: definition.epochs,
            consumers: definition.consumers,
            extent: definition.extent.clone(),
            sizing: definition.sizing.clone(),
            index: definition.index.clone(),
            even: definition.even,
            coordinated: definition.coordinated,
            weight: definition.weight.max(1),
            priority: definition.priority,
            read_before: 0,
            cancelled: false,
            tenant: String::new(),
            key: JobKey::default(),
            sources: Vec::new(),
            ending: definition.ending().into(),
            ends: Vec::new(),
            bits: BTreeMap::new(),
        };
        let answer = |made: Result<_>| Answer::Opened(asked, made);
        match splits(&record) {
            Ok(splits) => {
                self.core.create(now, record, &splits, Quota::default(), |made| answer(made.map(|r| r.definition())))
            }
            Err(error) => self.refused.push(Output::Opened(asked, Err(error))),
        }
    }

    /// Cancels the job of a name permanently ([`Output::Cancelled`] answers, once that is durable).
    pub fn cancel(&mut self, now: Ticks, job: &str) {
        self.core.cancel(now, "", job, |done| Answer::Cancelled(job.to_owned(), done));
    }

    /// Returns how many skipped samples were recorded since this process began.
    pub fn samples_skipped(&self, now: Ticks) -> u64 {
        self.core.figures(now).counts.samples_skipped
    }

    /// Sets the placement boundary of a job by its number, from 1 on, as a policy does at the end of a window. Returns
    /// the number of row ops for workers; `None` if there is no such job, or no choice.
    pub fn set_boundary(&mut self, now: Ticks, job: &str, number: u32) -> Option<u32> {
        self.core.set_boundary(now, "", job, number)
    }

    /// The clock's tick.
    pub fn tick(&mut self, now: Ticks) {
        self.core.input(now, Input::Tick);
    }

    /// Grants splits, and returns the batch to write now.
    pub fn schedule(&mut self, now: Ticks) -> Option<Write> {
        self.core.schedule(now).map(Write)
    }

    /// The write is durable.
    pub fn written(&mut self) {
        self.core.batch_written();
    }

    /// Returns the last batch, at any time.
    pub fn last_batch(&mut self) -> Option<Write> {
        self.core.last_batch().map(Write)
    }

    /// Returns what to send now, in order.
    pub fn drain_outputs(&mut self) -> Vec<Output> {
        let said = self.core.drain_outputs().into_iter().map(|output| match output {
            crate::actor::core::Output::Consumer(session, event) => Output::Consumer(session.0, event),
            crate::actor::core::Output::Worker(session, event) => Output::Worker(session.0, event),
            crate::actor::core::Output::End(session, error) => Output::End(session.0, error),
            crate::actor::core::Output::Closed(session) => Output::Closed(session.0),
            crate::actor::core::Output::Answer(Answer::Found(asked, found)) => Output::Found(asked, found),
            crate::actor::core::Output::Answer(Answer::Opened(asked, opened)) => Output::Opened(asked, opened),
            crate::actor::core::Output::Answer(Answer::Cancelled(job, done)) => Output::Cancelled(job, done),
        });
        said.chain(std::mem::take(&mut self.refused)).collect()
    }

    /// Checks SP-1 to SP-5.
    ///
    /// # Errors
    /// Internal, naming the invariant that does not hold.
    pub fn check(&self) -> Result<()> {
        self.core.check()?;
        self.core.state().check_progress()
    }

    /// Checks SP-6, when everything is written.
    ///
    /// # Errors
    /// Internal, with the difference.
    pub fn check_written(&self, disk: &Disk) -> Result<()> {
        self.core.state().check_written(&disk.0)
    }

    /// Lists the jobs.
    pub fn jobs(&self) -> Vec<JobStatus> {
        self.core.list_jobs(Ticks::default(), None, "")
    }

    /// Lists the workers.
    pub fn workers(&self, now: Ticks) -> Vec<WorkerStatus> {
        self.core.list_workers(now, None)
    }
}
