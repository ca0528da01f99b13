//! Sharing groups: jobs with the same samples that are read at the same time. If one of them has a split leased, the
//! others get a lease of it at the same worker, which computes it once for all (`forebay_worker`).
//!
//! Sharing is a preference only; correctness does not depend on it. Such a lease is like any other, but it is granted
//! whether or not the worker has room. There is at most one for each job and split, within the consumer's window.
//!
//! Bounds: [`LEASES_MAX`]; and [`RECENT_MAX`] splits of a group are remembered, so a job that is further behind shares
//! nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use forebay_core::{Ticks, WorkerId};
use forebay_proto::SampleStreamKey;

use crate::records::{ConsumerKey, JobRecord, Position};
use crate::state::{Effect, State};

/// Splits of a group whose worker is remembered.
const RECENT_MAX: usize = 4096;
/// A worker with this many leases gets no more without room: half of the most that it may hold.
const LEASES_MAX: usize = 512;

/// A split of a group: the consumer's index and the position.
type ConsumerSplit = (u32, Position);

/// The groups of jobs with the same samples.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct SharingGroups {
    group_numbers: HashMap<SampleStreamKey, u64>,
    groups: BTreeMap<u64, Group>,
    /// The group of each job.
    group_of: HashMap<u64, u64>,
    next: u64,
}

/// The jobs of one group.
#[derive(Debug, Clone, Default)]
struct Group {
    jobs: BTreeSet<u64>,
    /// The worker that got each split last, and the splits in that order.
    workers: BTreeMap<ConsumerSplit, WorkerId>,
    order: VecDeque<ConsumerSplit>,
}

impl SharingGroups {
    /// Adds a job. A job whose splits are computed while its consumer takes them shares nothing.
    pub(in crate::state) fn add(&mut self, record: &JobRecord) {
        if record.is_streamed() {
            return;
        }
        let next = self.next;
        let number = *self.group_numbers.entry(SampleStreamKey::of(&record.definition())).or_insert(next);
        self.next += u64::from(number == next);
        self.groups.entry(number).or_default().jobs.insert(record.id);
        self.group_of.insert(record.id, number);
    }

    /// Removes a job.
    pub(in crate::state) fn remove(&mut self, job: u64) {
        let Some(number) = self.group_of.remove(&job) else { return };
        let Some(group) = self.groups.get_mut(&number) else { return };
        group.jobs.remove(&job);
        if group.jobs.is_empty() {
            self.groups.remove(&number);
            self.group_numbers.retain(|_, own| *own != number);
        }
    }

    /// Returns the groups of several jobs.
    fn shared_groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values().filter(|group| group.jobs.len() > 1)
    }

    fn group(&self, job: u64) -> Option<&Group> {
        self.groups.get(self.group_of.get(&job)?).filter(|group| group.jobs.len() > 1)
    }

    /// Notes which worker got a split.
    pub(in crate::state) fn note(&mut self, key: ConsumerKey, position: Position, worker: WorkerId) {
        let group = self.group_of.get(&key.0).and_then(|number| self.groups.get_mut(number));
        let Some(group) = group.filter(|group| group.jobs.len() > 1) else { return };
        let split = (key.1, position);
        if group.workers.insert(split, worker).is_none() {
            group.order.push_back(split);
        }
        while group.order.len() > RECENT_MAX {
            group.order.pop_front().map(|split| group.workers.remove(&split));
        }
    }
}

impl State {
    /// Grants each job the splits that others of its group have leased, at the same workers.
    pub(in crate::state) fn join_sharing_groups(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let of_job = |job: &u64| {
            let consumers = self.jobs.get(job).map_or(0, |job| job.consumers.len() as u32);
            let job = *job;
            (0..consumers).map(move |index| (job, index))
        };
        let consumers: Vec<ConsumerKey> =
            self.sharing.shared_groups().flat_map(|group| group.jobs.iter().flat_map(of_job)).collect();
        self.join(now, &consumers, out);
    }

    /// Does the same for one group, after a grant to one of its consumers. Says whether anything was granted.
    pub(in crate::state) fn join_group_of(&mut self, now: Ticks, key: ConsumerKey, out: &mut Vec<Effect>) -> bool {
        let others = self.sharing.group(key.0).map(|group| group.jobs.iter().map(|job| (*job, key.1)).collect());
        let consumers: Vec<ConsumerKey> = others.unwrap_or_default();
        self.join(now, &consumers, out)
    }

    fn join(&mut self, now: Ticks, consumers: &[ConsumerKey], out: &mut Vec<Effect>) -> bool {
        let mut granted = false;
        for key in consumers {
            // Each grant may use up the tenant's quota.
            while let Some((position, worker)) = self.held_by_group(now, *key) {
                self.grant(now, *key, position, worker, out);
                granted = true;
            }
        }
        granted
    }

    /// Returns the first free split of a consumer that its group has at a worker, and that worker.
    fn held_by_group(&self, now: Ticks, key: ConsumerKey) -> Option<(Position, WorkerId)> {
        let (consumer, group) = self.consumer(key).filter(|c| c.attached.is_some()).zip(self.sharing.group(key.0))?;
        let eligible = self.eligible_workers(key);
        let may = |id: WorkerId| {
            let worker = self.workers.get(&id).filter(|w| w.is_live() && !w.slow && w.leases.len() < LEASES_MAX);
            worker.is_some_and(|worker| eligible.has(id, worker)) && !consumer.is_unreached(now, id)
        };
        let shared = |p: Position| group.workers.get(&(key.1, p)).copied().filter(|id| may(*id)).map(|id| (p, id));
        consumer.free().filter(|p| !consumer.trouble.contains_key(p)).find_map(shared)
    }
}
