//! Grants each job the splits that a job of its sharing group has leased, at the same worker, which computes them once
//! for all (`forebay_worker`).
//!
//! Such a lease is like any other, but it is granted whether or not the worker has room. There is at most one for each
//! job and split, within the consumer's window. Bounds: [`LEASES_MAX`].

use forebay_core::{Ticks, WorkerId};

use crate::records::{ConsumerKey, Position};
use crate::state::effect::Effect;
use crate::state::leases::grants::hints::Lookahead;
use crate::state::leases::machine::Leases;

/// A worker with this many leases gets no more without room: half of the most that it may hold.
const LEASES_MAX: usize = 512;

impl Leases {
    /// Grants each job the splits that others of its group have leased, at the same workers.
    pub(in crate::state::leases) fn join_sharing_groups(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let of_job = |job: u64| {
            let consumers = self.jobs.get(&job).map_or(0, |job| job.consumers.len() as u32);
            (0..consumers).map(move |index| (job, index))
        };
        let consumers: Vec<ConsumerKey> = self.sharing.grouped().into_iter().flat_map(of_job).collect();
        self.join(now, &consumers, out);
    }

    /// Does the same for one group, after a grant to one of its consumers. Returns whether it granted anything.
    pub(in crate::state::leases) fn join_group_of(
        &mut self,
        now: Ticks,
        key: ConsumerKey,
        out: &mut Vec<Effect>,
    ) -> bool {
        let consumers: Vec<_> = self.sharing.group_of(key.0).into_iter().map(|job| (job, key.1)).collect();
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
        let consumer = self.consumer(key).filter(|c| c.attached.is_some() && self.sharing.knows(key.0))?;
        let eligible = self.eligible_workers(key);
        let may = |id: &WorkerId| {
            let worker = self.workers.get(id).filter(|w| w.is_live() && !w.slow && w.leases.len() < LEASES_MAX);
            worker.is_some_and(|worker| eligible.has(*id, worker)) && !consumer.avoided.has(now, *id)
        };
        let shared = |p: Position| self.sharing.worker(key, p, Lookahead::default()).filter(may).map(|id| (p, id));
        consumer.free().filter(|p| !consumer.trouble.contains_key(p)).find_map(shared)
    }
}
