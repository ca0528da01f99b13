//! Sharing groups: jobs with the same samples that have consumers at the same time. If one of them has a split leased,
//! the others get a lease of it at the same worker, which computes it once for all (`forebay_worker`).
//!
//! `share` grants these leases. Bounds: [`RECENT_MAX`] splits of a group are remembered, so a job that is further
//! behind shares nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use forebay_core::WorkerId;
use forebay_proto::SampleStreamKey;

use crate::records::{ConsumerKey, JobRecord, Position};
use crate::state::leases::grants::hints::{GrantHint, HintEvent, Lookahead};

/// Splits of a group whose worker is remembered.
const RECENT_MAX: usize = 4096;

/// A split of a group: the consumer's index and the position.
type ConsumerSplit = (u32, Position);

/// The groups of jobs with the same samples.
#[derive(Debug, Clone, Default)]
pub(in crate::state::leases) struct SharingGroups {
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
    fn add(&mut self, record: &JobRecord) {
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
    fn remove(&mut self, job: u64) {
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
    fn note_granted(&mut self, key: ConsumerKey, position: Position, worker: WorkerId) {
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

impl GrantHint for SharingGroups {
    fn note(&mut self, event: &HintEvent<'_>) {
        match *event {
            HintEvent::JobAdded(record) => self.add(record),
            HintEvent::JobGone(job) => self.remove(job),
            HintEvent::Unread(_) => {}
            HintEvent::Granted(key, position, worker) => self.note_granted(key, position, worker),
        }
    }

    fn worker(&self, key: ConsumerKey, position: Position, _lookahead: Lookahead) -> Option<WorkerId> {
        self.group(key.0)?.workers.get(&(key.1, position)).copied()
    }

    fn knows(&self, job: u64) -> bool {
        self.group(job).is_some()
    }

    fn group_of(&self, job: u64) -> Vec<u64> {
        self.group(job).map(|group| group.jobs.iter().copied().collect()).unwrap_or_default()
    }

    fn grouped(&self) -> Vec<u64> {
        self.shared_groups().flat_map(|group| group.jobs.iter().copied()).collect()
    }
}
