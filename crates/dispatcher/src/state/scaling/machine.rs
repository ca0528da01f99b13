//! The scaling machine: the policy's decisions on each job. It starts and ends no workers and moves no splits.

use std::collections::{BTreeMap, HashMap};

use forebay_core::Ticks;
use forebay_policy::fleet::{Mix, Unit};
use forebay_policy::scaling::{Claim, Decision, Limits, Observation, ScalingPolicy, SteadyState, share};
use forebay_proto::{ConsumerHeartbeat, ScaleDecision};

use super::local_threads::{LocalThreads, deal};
use super::placement::Placement;
use super::scale::Scale;
use crate::options;
use crate::records::{ConsumerKey, JobRecord};
use crate::state::leases::views::JobView;
use crate::state::load::boundary_costs::BoundaryCosts;
use crate::state::load::op_costs::OpCosts;

/// How many workers each job wants, its placement boundary, and the threads of its local workers.
#[derive(Debug, Default)]
pub(in crate::state) struct Scaling {
    options: options::Scaling,
    jobs: BTreeMap<u64, JobScaling>,
}

/// The decisions on one job.
#[derive(Debug)]
struct JobScaling {
    scale: Scale,
    placement: Placement,
    /// By consumer; only of consumers that have sent a heartbeat in this session.
    local: BTreeMap<u32, LocalThreads>,
}

/// The portion of the workers that a job can count on: a number of workers, and a share of their time.
#[derive(Debug, Clone, Copy)]
pub(in crate::state) struct Portion {
    pub(in crate::state) workers: u32,
    pub(in crate::state) part: f64,
}

impl Portion {
    /// All workers.
    pub(in crate::state) const ALL: Self = Self { workers: u32::MAX, part: 1.0 };
}

impl Scaling {
    /// Sets the policy. Earlier decisions are forgotten.
    pub(in crate::state) fn set_options(&mut self, options: options::Scaling) {
        self.jobs.values_mut().for_each(|job| job.scale = Scale::new(&options));
        self.options = options;
    }

    pub(in crate::state) fn options(&self) -> &options::Scaling {
        &self.options
    }

    /// Adds a job. Returns how many row ops workers run of it; `None` if there is no choice.
    pub(in crate::state) fn add_job(&mut self, record: &JobRecord) -> Option<u32> {
        let (scale, placement) = (Scale::new(&self.options), Placement::of(record));
        let ops = placement.ops_on_worker();
        self.jobs.insert(record.id, JobScaling { scale, placement, local: BTreeMap::new() });
        ops
    }

    pub(in crate::state) fn remove_job(&mut self, job: u64) {
        self.jobs.remove(&job);
    }

    /// Forgets the spare capacity of a consumer's host: its session ended or was replaced.
    pub(in crate::state) fn forget_host(&mut self, (job, consumer): ConsumerKey) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.local.remove(&consumer);
        }
    }

    /// Accepts the spare capacity of a consumer's host; returns the wanted threads of its local workers. If no other
    /// worker computes for this consumer (`is_alone`), it does not wait for a decision.
    pub(in crate::state) fn local_threads(
        &mut self,
        (job, consumer): ConsumerKey,
        said: &ConsumerHeartbeat,
        is_alone: bool,
    ) -> u32 {
        let Some(job) = self.jobs.get_mut(&job) else { return 0 };
        job.local.entry(consumer).or_default().take_heartbeat(said, is_alone)
    }

    /// Deals threads to the local workers of a job; returns the threads of each of its first consumers.
    #[cfg(test)]
    pub(in crate::state) fn dealt(&mut self, job: u64, threads: u32, said: &ConsumerHeartbeat) -> [u32; 2] {
        let local = &mut self.jobs.get_mut(&job).expect("a job").local;
        deal(local, threads);
        [0, 1].map(|consumer| local.get(&consumer).copied().unwrap_or_default().take_heartbeat(said, false))
    }

    /// Returns the threads of local workers of the consumers that request some, of the present ones of each consumer.
    pub(in crate::state) fn asked_threads(&self, job: u64, present: &HashMap<ConsumerKey, u32>) -> u32 {
        let Some(scaling) = self.jobs.get(&job) else { return 0 };
        let asking = scaling.local.iter().filter(|(_, local)| local.is_asked_for());
        asking.filter_map(|(consumer, _)| present.get(&(job, *consumer))).sum()
    }

    /// Returns how many workers a job wants; `None` before the first decision.
    pub(in crate::state) fn wanted(&self, job: u64) -> Option<u32> {
        self.jobs.get(&job)?.scale.wanted()
    }

    /// Returns how many workers a job wants, and the size of a worker that it counts in.
    pub(in crate::state) fn wants(&self, job: u64) -> Option<(u32, &Unit)> {
        self.jobs.get(&job)?.scale.wants()
    }

    /// Returns a job's claim: the workers that it wants, or all `present` ones while that is unknown.
    pub(in crate::state) fn claim(&self, job: &JobView<'_>, present: impl FnOnce() -> Mix) -> Claim {
        let JobRecord { priority, weight, .. } = **job.record;
        Claim { priority, wanted: self.wanted(job.id()).unwrap_or_else(|| present().workers), weight: weight.into() }
    }

    /// Returns how many workers the policy may want for a job.
    pub(in crate::state) fn limits(&self, job: &JobView<'_>) -> Limits {
        let most = self.options.workers_max;
        Limits { min: 1, max: job.workers_max.map_or(most, |quota| quota.clamp(1, most)) }
    }

    /// Sets the size of a worker in which the present workers of a job are counted.
    pub(in crate::state) fn set_counted(&mut self, job: u64, unit: Unit) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.scale.set_counted(unit);
        }
    }

    /// Returns the row costs of a job at each boundary. For each op, the first of `shown` with figures of it counts.
    pub(in crate::state) fn costs(&self, job: u64, shown: &[&OpCosts]) -> BoundaryCosts {
        self.jobs.get(&job).map(|job| job.placement.costs(shown)).unwrap_or_default()
    }

    /// Runs the policy on a window of a job, and deals threads to its local workers. Returns the decision, which is not
    /// kept yet, with the workers that were wanted before, and the job's steady state, if it is in one.
    pub(in crate::state) fn decide(
        &mut self,
        job: u64,
        seen: Observation,
    ) -> Option<(Decision, u32, Option<SteadyState>)> {
        let job = self.jobs.get_mut(&job)?;
        let before = job.scale.wanted().unwrap_or(seen.workers);
        let (decision, steady) = job.scale.decide(seen);
        deal(&mut job.local, decision.local);
        Some((decision, before, steady))
    }

    /// Returns the placement of a job on which there is no decision yet.
    pub(in crate::state) fn undecided(&self, job: u64) -> Option<&Placement> {
        self.jobs.get(&job).filter(|job| job.scale.is_new()).map(|job| &job.placement)
    }

    /// Begins with the policy of another job, and with the size of a worker that counts as one.
    pub(in crate::state) fn begin(&mut self, job: u64, policy: Box<dyn ScalingPolicy>, unit: Unit) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.scale.begin(policy, unit);
        }
    }

    /// Keeps a decision, and sets the job's placement boundary. Returns, if the boundary moved, the number of row ops
    /// for workers from now on, and a description.
    pub(in crate::state) fn keep(
        &mut self,
        now: Ticks,
        job: u64,
        before: u32,
        decision: Decision,
        shown: &[&OpCosts],
    ) -> Option<(Option<u32>, String)> {
        let job = self.jobs.get_mut(&job)?;
        let moved = decision.cut.is_some_and(|cut| job.placement.set(cut));
        // A policy numbers boundaries; people count ops.
        let decision = Decision { cut: decision.cut.and_then(|cut| job.placement.ops_before(cut)), ..decision };
        let boundary = job.placement.describe(&job.placement.costs(shown));
        job.scale.keep(now, before, decision, boundary.clone());
        moved.then(|| (job.placement.ops_on_worker(), boundary))
    }

    /// Returns the boundary of a job: how many row ops workers run; `None` if there is no choice.
    pub(in crate::state) fn boundary(&self, job: u64) -> Option<u32> {
        self.jobs.get(&job)?.placement.ops_on_worker()
    }

    /// Describes the ops that consumers of a job run; empty if there is no choice.
    pub(in crate::state) fn describe_boundary(&self, job: u64, shown: &[&OpCosts]) -> String {
        self.jobs.get(&job).map(|job| job.placement.describe(&job.placement.costs(shown))).unwrap_or_default()
    }

    /// Returns all decisions on a job, or the last few, the oldest first.
    pub(in crate::state) fn decisions(&self, now: Ticks, job: u64, all: bool) -> Vec<ScaleDecision> {
        self.jobs.get(&job).map(|job| job.scale.decisions(now, all)).unwrap_or_default()
    }
}

/// Returns the portions of `workers` workers that jobs with these claims can count on.
pub(in crate::state) fn portions(workers: u32, claims: &[Claim]) -> Vec<Portion> {
    share(workers, claims).into_iter().map(|workers| Portion { workers, ..Portion::ALL }).collect()
}
