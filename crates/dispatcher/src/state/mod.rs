//! All decisions of the dispatcher, without I/O and without a clock: inputs and the time come in, effects come out.
//!
//! - `leases`: which worker computes which split, and what happens when a lease goes wrong.
//! - `jobs`: how jobs begin and end, whose they are, what the ledger keeps of them.
//! - `load`: what workers and consumers report, summed up per job.
//! - `scaling`: how many workers a job gets, its placement boundary, its local workers.
//! - `fleet`: types of workers, and what jobs cost.
//! - `tick`, `peers`, `inspect`, `figures`, `counts`, `limits`: the clock, workers' peers, what people and metrics see,
//!   shared bounds.
//!
//! Effects are ordered: nobody may see what follows an [`Effect::Persist`] before that update is durable.
//!
//! Invariants, checked once a second by a running dispatcher ([`State::check`]: SP-1 to SP-4, SP-8, SP-9), and after
//! every step of the property tests and of the simulation:
//! SP-1 a split has at most one current token, or two of two workers while it has a backup lease, and its workers know
//!      them;
//! SP-2 tokens only rise;
//! SP-3 no split before a consumer's frontier is leased;
//! SP-4 a consumer's leases lie within its window;
//! SP-5 while a worker has room, and a consumer that reaches it has room, splits are granted;
//! SP-6 replaying the persisted updates gives the same jobs, frontiers, leases (without backup leases), skipped samples
//!      and dataset profiles;
//! SP-7 a skipped sample is durable before the consumer is told that it is recorded, and each worker that gets the
//!      split later is told of it;
//! SP-8 a silent worker is noticed when its lease ends;
//! SP-9 a worker that serves one tenant holds nothing of another tenant's, and a local worker nothing of another
//!      consumer's;
//! SP-10 a consumer with a session, leases or trouble is in the set of active consumers.

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

/// One connection of a consumer or a worker. A number is never used twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(pub(crate) u64);

/// A process attaches to a consumer: the first message of its session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attachment {
    pub(crate) session: SessionId,
    pub(crate) tenant: Tenant,
    pub(crate) consumer: ConsumerKey,
    pub(crate) position: Position,
    /// Whether the position comes from a saved state, or from the same process before its connection broke.
    pub(crate) resume: bool,
    /// How many splits may be assigned and not yet acknowledged.
    pub(crate) window: u32,
    /// The samples that a saved state lists as left out.
    pub(crate) skipped: Vec<LostSample>,
    /// The key that the consumer's local workers must show; the default if it has none.
    pub(crate) local_key: JobKey,
}

/// What the dispatcher is told.
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
        /// The tenant that it computes for; `None` for all tenants.
        serves: Option<Arc<str>>,
        /// The folder where it caches rows; empty if it has none.
        place: Arc<str>,
        /// Of a local worker: the one consumer that it computes for.
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
    /// Make the update durable before any later effect is seen.
    Persist(Update),
    /// Make the update durable some time soon.
    Remember(Update),
    /// Send an event to a consumer.
    Consumer(SessionId, consumer_event::Event),
    /// Send an event to a worker.
    Worker(SessionId, worker_event::Event),
    /// End a session with an error.
    End(SessionId, Error),
}

/// A job with its consumers.
#[derive(Debug, Clone)]
struct Job {
    record: Arc<JobRecord>,
    consumers: Vec<Consumer>,
    /// Whether splits are of unknown length: computed while their consumer takes them.
    streamed: bool,
    split_durations: SplitDurations,
    /// Splits that a second worker got since this process began, because the first one was late or had other splits to
    /// compute.
    second_leases: u64,
    /// The measured load, and what the policy decided on it.
    load: JobLoad,
    scale: Scale,
    /// What each worker caches of it, as JSON.
    caching: BTreeMap<WorkerId, Arc<str>>,
    /// The cost of its ops, and the placement boundary that follows from it.
    op_costs: OpCosts,
    placement: Placement,
    /// What workers computed for it, and what that cost.
    cost: JobCost,
    /// Which workers' caches have the rows of its splits.
    affinity: CacheAffinity,
    skipped: SkippedTally,
    /// How far its consumers are, where they end epochs together.
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
    /// Workers that cache rows.
    caching_workers: BTreeSet<WorkerId>,
    /// The secret from which workers' keys for each other are derived; `None` where they need none.
    secret: Option<[u8; 16]>,
    consumer_sessions: HashMap<SessionId, ConsumerKey>,
    /// Consumers with a session, leases or trouble. The others cost nothing (see `leases::active`).
    active: BTreeSet<ConsumerKey>,
    worker_sessions: HashMap<SessionId, WorkerId>,
    next_token: u64,
    next_job: u64,
    ticked: Ticks,
    /// When late splits were last looked for.
    speculated: Ticks,
    /// Whether a worker has come that got nothing yet, and when such a worker last took splits of others.
    has_newcomer: bool,
    newcomer_rebalanced: Ticks,
    /// When the policy last looked at the jobs' load.
    scaled: Ticks,
    /// Microseconds that workers reported as spent on jobs.
    spent_us: u64,
    /// What jobs on each dataset showed.
    profiles: DatasetProfiles,
    fleet: Fleet,
    /// No worker is lost before this time, except those that say goodbye.
    expiry: Ticks,
    /// Whether anything happened since the last grants that may allow more grants.
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

    /// Releases a lease that the consumer has already dropped, and revokes it at its worker.
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

/// `other_token` is the token of the split's other lease, or 0 if there is none.
fn assigned_event(position: Position, grant: &Grant, other_token: u64) -> consumer_event::Event {
    consumer_event::Event::Assigned(forebay_proto::Assigned {
        epoch: position.epoch,
        ordinal: position.ordinal,
        token: grant.token,
        address: grant.address.to_string(),
        beside: other_token,
    })
}
