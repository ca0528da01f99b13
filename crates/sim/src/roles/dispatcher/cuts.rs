//! The placement boundaries of leases: the simulation's own account, and its checks.
//!
//! A lease names a boundary of its pipeline, if there are several; a local worker runs all ops. Besides a scenario's
//! changes ([`Fault::Cut`]), the policy may change the boundary of a job, and a dispatcher that starts uses the
//! default.

use forebay_proto::Lease;

use crate::roles::consumer::node::job_name;
use crate::roles::node::Node;
use crate::world::World;

impl World<'_> {
    /// Changes the boundary of a job.
    pub(crate) fn dispatcher_cuts(&mut self, job: usize, place: u32) {
        let (now, node) = (self.ticks(Node::Dispatcher), Node::Dispatcher);
        let is_still = self.paused(node) > self.now;
        let Some(machine) = self.dispatcher.machine.as_mut().filter(|_| !is_still) else { return };
        let Some(ops) = machine.set_boundary(now, &job_name(job), place) else { return };
        let cuts = &mut self.dispatcher.cuts;
        if let Some(number) = cuts.jobs.iter().find(|(_, known)| **known == job).map(|(number, _)| *number) {
            cuts.forgotten.remove(&number);
            if cuts.at.insert(number, ops) != Some(ops) {
                self.felt("cut");
            }
        }
    }

    /// Forgets the boundaries of an ended dispatcher: its successor does not have them.
    pub(super) fn forget_cuts(&mut self) {
        for (number, ops) in std::mem::take(&mut self.dispatcher.cuts.at) {
            let Some(job) = self.dispatcher.cuts.jobs.get(&number) else { continue };
            if ops != self.jobs[*job].worker.resolve_boundary(None) {
                self.dispatcher.cuts.forgotten.insert(number);
            }
        }
    }

    /// Checks the boundary of a lease: one of its pipeline, or the end for a local worker.
    pub(super) fn check_cut(&mut self, worker: usize, lease: &Lease) {
        let Some(job) = self.dispatcher.cuts.jobs.get(&lease.job).map(|job| self.jobs[*job].clone()) else {
            return self.fail("cut", format!("{lease:?} is of a job that no consumer has opened"));
        };
        let (is_local, is_cut) = (self.scenario.workers[worker].local, job.places() > 1);
        let is_right = match lease.ops {
            None => !is_cut,
            Some(ops) if is_local => is_cut && ops == u32::MAX,
            Some(ops) => is_cut && job.columns(ops).is_some(),
        };
        if !is_right {
            return self.fail("cut", format!("worker {worker} (local: {is_local}) is told to run {:?} ops", lease.ops));
        }
        let (Some(ops), false) = (lease.ops, is_local) else { return };
        let (usual, cuts) = (job.worker.resolve_boundary(None), &mut self.dispatcher.cuts);
        let known = cuts.at.insert(lease.job, ops);
        let is_anew = cuts.forgotten.remove(&lease.job) && ops == usual;
        if is_anew {
            self.felt("cut begun anew");
        }
        if known.unwrap_or(usual) != ops {
            self.felt("cut by the policy");
        }
    }
}
