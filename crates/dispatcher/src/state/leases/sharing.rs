//! Jobs with the same samples, read at the same time: a split that one of them has is given to the same worker for the others,
//! which computes it once for all (`worker::window`).
//!
//! A preference, and nothing depends on it: such a lease is like any other, but that it is granted whether the worker has room or
//! not. There is at most one for each job and split, within each reader's window. Bounds: [`LEASES_MAX`]; and [`RECENT_MAX`] splits
//! of a stream are remembered, so a job that is further behind than that is given what any job is given.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use forebay_core::{Ticks, WorkerId};
use forebay_proto::Stream;

use crate::records::{ConsumerKey, JobRecord, Position};
use crate::state::{Effect, State};

/// Splits of a stream whose worker is remembered.
const RECENT_MAX: usize = 4096;
/// A worker that holds so many splits is given no more without having room: half of what it holds at the most.
const LEASES_MAX: usize = 512;

/// A split of a stream: of a consumer.
type ConsumerSplit = (u32, Position);

/// The jobs of each stream.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct SharingGroups {
    numbers: HashMap<Stream, u64>,
    groups: BTreeMap<u64, Group>,
    /// The stream of each job.
    of: HashMap<u64, u64>,
    next: u64,
}

/// Those of one.
#[derive(Debug, Clone, Default)]
struct Group {
    jobs: BTreeSet<u64>,
    /// Who was given a split last, and the splits in that order.
    given: BTreeMap<ConsumerSplit, WorkerId>,
    order: VecDeque<ConsumerSplit>,
}

impl SharingGroups {
    /// Takes a job in. Splits that are computed as their reader takes them are no others'.
    pub(in crate::state) fn add(&mut self, record: &JobRecord) {
        if record.is_streamed() {
            return;
        }
        let next = self.next;
        let number = *self.numbers.entry(Stream::of(&record.definition())).or_insert(next);
        self.next += u64::from(number == next);
        self.groups.entry(number).or_default().jobs.insert(record.id);
        self.of.insert(record.id, number);
    }

    /// Forgets a job.
    pub(in crate::state) fn remove(&mut self, job: u64) {
        let Some(number) = self.of.remove(&job) else { return };
        let Some(of) = self.groups.get_mut(&number) else { return };
        of.jobs.remove(&job);
        if of.jobs.is_empty() {
            self.groups.remove(&number);
            self.numbers.retain(|_, own| *own != number);
        }
    }

    /// Returns the streams that several jobs have.
    fn shared_groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values().filter(|of| of.jobs.len() > 1)
    }

    fn of(&self, job: u64) -> Option<&Group> {
        self.groups.get(self.of.get(&job)?).filter(|of| of.jobs.len() > 1)
    }

    /// Notes who was given a split.
    pub(in crate::state) fn note(&mut self, key: ConsumerKey, position: Position, worker: WorkerId) {
        let of = self.of.get(&key.0).and_then(|number| self.groups.get_mut(number));
        let Some(of) = of.filter(|of| of.jobs.len() > 1) else { return };
        let split = (key.1, position);
        if of.given.insert(split, worker).is_none() {
            of.order.push_back(split);
        }
        while of.order.len() > RECENT_MAX {
            of.order.pop_front().map(|split| of.given.remove(&split));
        }
    }
}

impl State {
    /// Grants to jobs what others of their stream were given, at the same workers.
    pub(in crate::state) fn join_sharing_groups(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let of_job = |job: &u64| {
            let consumers = self.jobs.get(job).map_or(0, |job| job.consumers.len() as u32);
            let job = *job;
            (0..consumers).map(move |index| (job, index))
        };
        let consumers: Vec<ConsumerKey> =
            self.sharing.shared_groups().flat_map(|of| of.jobs.iter().flat_map(of_job)).collect();
        self.join(now, &consumers, out);
    }

    /// As [`State::join_sharing_groups`], after a grant to a reader. Says whether anything was granted.
    pub(in crate::state) fn join_group_of(&mut self, now: Ticks, key: ConsumerKey, out: &mut Vec<Effect>) -> bool {
        let others = self.sharing.of(key.0).map(|of| of.jobs.iter().map(|job| (*job, key.1)).collect());
        let consumers: Vec<ConsumerKey> = others.unwrap_or_default();
        self.join(now, &consumers, out)
    }

    fn join(&mut self, now: Ticks, consumers: &[ConsumerKey], out: &mut Vec<Effect>) -> bool {
        let mut granted = false;
        for key in consumers {
            // Each may be the last that its tenant may have.
            while let Some((position, worker)) = self.held_by_group(now, *key) {
                self.grant(now, *key, position, worker, out);
                granted = true;
            }
        }
        granted
    }

    /// Returns the first split that a reader waits for and another of its stream was given, and who has it.
    fn held_by_group(&self, now: Ticks, key: ConsumerKey) -> Option<(Position, WorkerId)> {
        let (consumer, of) = self.consumer(key).filter(|c| c.attached.is_some()).zip(self.sharing.of(key.0))?;
        let team = self.team(key);
        let may = |id: WorkerId| {
            let worker = self.workers.get(&id).filter(|w| w.is_live() && !w.slow && w.leases.len() < LEASES_MAX);
            worker.is_some_and(|worker| team.has(id, worker)) && !consumer.is_unreached(now, id)
        };
        let given = |p: Position| of.given.get(&(key.1, p)).copied().filter(|id| may(*id)).map(|id| (p, id));
        consumer.free().filter(|p| !consumer.trouble.contains_key(p)).find_map(given)
    }
}
