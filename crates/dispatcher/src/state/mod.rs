//! Every decision of the dispatcher, without I/O and without a clock: inputs and the time come in, effects go out.
//!
//! Effects are in order: what follows an [`Effect::Persist`] must not be seen by anyone before that update is durable.
//!
//! Invariants, checked once a second by a running dispatcher ([`State::check`]: SP-1 to SP-4, SP-8, SP-9), and after every step of
//! the property tests and of the simulation:
//! SP-1 a split has at most one current token, or two of two workers while it is raced, and its workers know them;
//! SP-2 tokens rise, for ever;
//! SP-3 nothing before a consumer's frontier is leased;
//! SP-4 a consumer's leases lie within its window;
//! SP-5 while a worker has room, and a reader that reaches it has room, splits are granted;
//! SP-6 replaying what was persisted gives the same jobs, frontiers, leases (but for the second one of a race), losses, and what was
//!      written of datasets;
//! SP-7 what a reader was told is recorded as lost is durable, and told to whoever gets the split from then on;
//! SP-8 a worker that says nothing is noticed when its lease ends;
//! SP-9 a worker that serves one tenant holds nothing of another's, and a local one nothing of another reader's;
//! SP-10 a consumer that has a reader, leases or trouble is attended to.

mod counts;
mod figures;
mod fleet;
mod inspect;
mod jobs;
mod leases;
mod limits;
mod load;
mod peers;
mod scaling;
#[cfg(test)]
mod tests;
mod tick;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use forebay_core::{Error, Ticks, WorkerId};
use forebay_proto::{
    ConsumerHeartbeat, JobKey, Lease, LostSample, Steps, WorkerHeartbeat, consumer_event, worker_event,
};

use crate::options::{Retention, Scaling, Timing};
use crate::records::{ConsumerKey, Grant, JobRecord, Position, SplitKey, Update};
use crate::tenant::Tenant;
pub use counts::Counts;
pub use figures::StateFigures;
use fleet::mix::Fleet;
use fleet::worker_types::JobCost;
pub(crate) use fleet::worker_types::WorkerType;
pub use fleet::worker_types::{check_price, check_worker_type};
use jobs::epoch_ends::EpochEnds;
use jobs::skipped::SkippedTally;
use leases::affinity::CacheAffinity;
use leases::consumer::{Consumer, Holder};
pub(crate) use leases::consumers::cancelled;
pub(crate) use leases::poison::WHOLE_SPLIT;
use leases::sharing::SharingGroups;
use leases::stragglers::SplitDurations;
use leases::worker::Worker;
use load::dataset_profile::DatasetProfiles;
use load::job_load::JobLoad;
use load::op_costs::OpCosts;
use scaling::placement::Placement;
use scaling::scale::Scale;

/// One connection of a consumer or a worker. Never used twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(pub(crate) u64);

/// A reader's session, as it begins to read a consumer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attachment {
    pub(crate) session: SessionId,
    pub(crate) tenant: Tenant,
    pub(crate) consumer: ConsumerKey,
    pub(crate) position: Position,
    /// Whether the position comes from a saved state, or from the same reader before its connection broke.
    pub(crate) resume: bool,
    /// Splits that may be assigned and not yet acknowledged.
    pub(crate) window: u32,
    /// What a saved state says was left out.
    pub(crate) skipped: Vec<LostSample>,
    /// The key that the reader's local workers show; the default where it has none.
    pub(crate) local_key: JobKey,
}

/// What happens to the dispatcher.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    Attach(Attachment),
    Ack {
        session: SessionId,
        position: Position,
    },
    Unreachable {
        session: SessionId,
        position: Position,
        token: u64,
        error: Error,
    },
    Steps {
        session: SessionId,
        said: Steps,
    },
    Skipped {
        session: SessionId,
        number: u64,
        samples: Vec<LostSample>,
    },
    EndEpoch {
        session: SessionId,
        epoch: u64,
    },
    ConsumerHeartbeat {
        session: SessionId,
        said: ConsumerHeartbeat,
    },
    ConsumerGone {
        session: SessionId,
    },
    Hello {
        session: SessionId,
        worker: WorkerId,
        address: Arc<str>,
        threads: u32,
        held: Vec<Lease>,
        /// For whom it computes; `None` is for everybody.
        serves: Option<Arc<str>>,
        /// Which folder it keeps rows in; empty is none.
        place: Arc<str>,
        /// Of a local worker: the one reader that it computes for.
        only: Option<ConsumerKey>,
        local_key: JobKey,
        worker_type: WorkerType,
    },
    Threads {
        session: SessionId,
        threads: u32,
    },
    Want {
        session: SessionId,
        splits: u32,
    },
    WorkerHeartbeat {
        session: SessionId,
        said: WorkerHeartbeat,
    },
    Leaving {
        session: SessionId,
    },
    WorkerGone {
        session: SessionId,
    },
    Tick,
}

/// What the dispatcher must do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Make it durable before any later effect is seen.
    Persist(Update),
    /// Make it durable some time soon.
    Remember(Update),
    /// Tell a consumer.
    Consumer(SessionId, consumer_event::Event),
    /// Tell a worker.
    Worker(SessionId, worker_event::Event),
    /// End a session with an error.
    End(SessionId, Error),
}

/// A job with its consumers.
#[derive(Debug, Clone)]
struct Job {
    record: Arc<JobRecord>,
    consumers: Vec<Consumer>,
    /// Whether splits are of unknown length: computed as their reader takes them.
    streamed: bool,
    split_durations: SplitDurations,
    /// Splits that a second worker got because the first was late, or had others to do, since this process began.
    second_leases: u64,
    /// What is measured, and what was decided on it.
    load: JobLoad,
    scale: Scale,
    /// What each worker keeps of it, as JSON.
    caching: BTreeMap<WorkerId, Arc<str>>,
    /// What its ops cost, and where its splits are cut for that.
    op_costs: OpCosts,
    placement: Placement,
    /// What workers computed for it.
    cost: JobCost,
    /// Who has the rows of its splits.
    affinity: CacheAffinity,
    skipped: SkippedTally,
    /// How far its readers are, where they end epochs together.
    epoch_ends: EpochEnds,
}

impl Job {
    fn is_finished(&self) -> bool {
        self.consumers.iter().all(Consumer::is_finished)
    }

    fn is_read(&self) -> bool {
        self.consumers.iter().any(|c| c.attached.is_some())
    }
}

/// Jobs, consumers, workers and leases.
#[derive(Debug, Clone)]
pub(crate) struct State {
    timing: Timing,
    scaling: Scaling,
    retention: Retention,
    jobs: BTreeMap<u64, Job>,
    /// By tenant and name.
    names: HashMap<(String, String), u64>,
    sharing: SharingGroups,
    workers: BTreeMap<WorkerId, Worker>,
    /// Those that keep rows.
    keepers: BTreeSet<WorkerId>,
    /// What the keys follow from that workers show each other, where they do.
    secret: Option<[u8; 16]>,
    consumer_sessions: HashMap<SessionId, ConsumerKey>,
    /// The consumers that have a reader, leases or trouble: the others cost nothing (see `active_consumers`).
    active: BTreeSet<ConsumerKey>,
    worker_sessions: HashMap<SessionId, WorkerId>,
    next_token: u64,
    next_job: u64,
    ticked: Ticks,
    /// When it was last looked for splits that are late.
    looked: Ticks,
    /// Whether a worker has come that was given nothing yet, and when one took of what others hold.
    has_newcomer: bool,
    taken_in: Ticks,
    /// When it was last looked whether the jobs have the workers that they need.
    scaled: Ticks,
    /// Microseconds that workers said that they spent on jobs.
    spent_us: u64,
    /// What jobs on each dataset have shown.
    profiles: DatasetProfiles,
    fleet: Fleet,
    /// No worker is lost before this, but for those that say goodbye.
    expiry: Ticks,
    /// Whether anything has happened since splits were last granted that could let more be.
    changed: bool,
    counts: Counts,
}

impl State {
    /// Takes one input. Grants nothing: see [`State::schedule`].
    pub(crate) fn handle(&mut self, now: Ticks, input: Input, out: &mut Vec<Effect>) {
        self.changed |=
            !matches!(input, Input::WorkerHeartbeat { .. } | Input::ConsumerHeartbeat { .. } | Input::Steps { .. });
        match input {
            Input::Attach(attachment) => {
                let attached = self.check_owner(&attachment.tenant, attachment.consumer.0).and_then(|()| {
                    self.record_skipped(attachment.consumer, &attachment.skipped, out)?;
                    self.attach(now, &attachment, out)
                });
                if let Err(error) = attached {
                    out.push(Effect::End(attachment.session, error));
                }
            }
            Input::Ack { session, position } => self.ack(now, session, position, out),
            Input::Unreachable { session, position, token, error } => {
                self.unreachable(now, session, position, token, &error, out);
            }
            Input::Skipped { session, number, samples } => self.take_skipped(now, session, number, &samples, out),
            Input::Steps { session, said } => self.steps(now, session, &said, out),
            Input::EndEpoch { session, epoch } => self.end_epoch(now, session, epoch, out),
            Input::ConsumerHeartbeat { session, said } => self.consumer_heartbeat(now, session, &said, out),
            Input::ConsumerGone { session } => self.consumer_gone(now, session),
            Input::Hello { session, worker, address, threads, held, serves, place, only, local_key, worker_type } => {
                self.hello(now, session, worker, address, threads, &held, serves, only, local_key, out);
                self.note_place(session, place, out);
                self.note_worker_type(session, worker_type);
            }
            Input::Threads { session, threads } => self.set_threads(now, session, threads, out),
            Input::Want { session, splits } => self.want(now, session, splits),
            Input::WorkerHeartbeat { session, said } => {
                if !self.is_foreign(session) {
                    self.spend(session, &said.spent);
                    self.note_sent(session, &said.sent);
                    self.note_caching(session, &said.caching);
                    self.note_op_costs(now, session, &said.ops, out);
                    self.note_held_up(session, &said.held_up);
                }
                self.worker_heartbeat(now, session, &said, out);
            }
            Input::Leaving { session } => self.leaving(now, session),
            Input::WorkerGone { session } => self.worker_gone(now, session, out),
            Input::Tick => self.tick(now, out),
        }
    }

    fn consumer(&self, key: ConsumerKey) -> Option<&Consumer> {
        self.jobs.get(&key.0)?.consumers.get(key.1 as usize)
    }

    fn consumer_mut(&mut self, key: ConsumerKey) -> Option<&mut Consumer> {
        self.jobs.get_mut(&key.0)?.consumers.get_mut(key.1 as usize)
    }

    /// Lets go of a lease that the consumer has already dropped, and takes it from its worker.
    fn revoke(&mut self, key: SplitKey, holder: Holder, out: &mut Vec<Effect>) {
        out.push(Effect::Remember(Update::Released(key)));
        self.revoke_from_worker(holder, out);
    }

    fn revoke_all(&mut self, key: ConsumerKey, dropped: Vec<(Position, Holder)>, out: &mut Vec<Effect>) {
        for (position, holder) in dropped {
            self.revoke((key, position), holder, out);
        }
    }
}

fn revoke_event(token: u64) -> worker_event::Event {
    worker_event::Event::Revoke(forebay_proto::Revoke { token })
}

/// `other_token` is the token of the other lease of a split that is raced, or 0.
fn assigned_event(position: Position, grant: &Grant, other_token: u64) -> consumer_event::Event {
    consumer_event::Event::Assigned(forebay_proto::Assigned {
        epoch: position.epoch,
        ordinal: position.ordinal,
        token: grant.token,
        address: grant.address.to_string(),
        beside: other_token,
    })
}
