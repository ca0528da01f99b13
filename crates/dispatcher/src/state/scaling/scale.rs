//! How many workers each job, and all jobs together, want: runs the policy on each window of each job, and keeps its
//! decisions.
//!
//! This module starts and ends no workers and moves no splits; it says how many workers are wanted, and why. Bounds:
//! the last [`DECISIONS_MAX`] decisions of a job; a decision that says the same as the previous one is not kept.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use forebay_core::{Ticks, WorkerId};
use forebay_policy::fleet::{Mix, Unit};
use forebay_policy::placement::Objective;
use forebay_policy::scaling::{Claim, Decision, Limits, Observation, ScalingPolicy, share};
use forebay_proto::{GetScaleResponse, ScaleDecision, Sent, Spent};

use crate::options::Scaling;
use crate::records::JobRecord;
use crate::state::fleet::worker_types::priced;
use crate::state::leases::consumer::Consumer;
use crate::state::leases::worker::Worker;
use crate::state::limits::REPORTED_MAX;
use crate::state::load::job_load::Workforce;
use crate::state::{Effect, Job, SessionId, State};

/// Decisions of a job that are kept.
const DECISIONS_MAX: usize = 64;
/// Decisions of each job in a list of all jobs.
const LISTED_MAX: usize = 4;

/// The policy's state and decisions for one job.
#[derive(Debug, Clone)]
pub(in crate::state) struct Scale {
    policy: Box<dyn ScalingPolicy>,
    /// `None` before the first decision.
    wanted: Option<u32>,
    /// What counts as one worker, among the wanted workers and among the present ones. They differ where the dispatcher
    /// decides on worker types.
    unit: Unit,
    counted: Unit,
    decisions: VecDeque<KeptDecision>,
}

/// A decision, when it was made, and how many workers were wanted before.
#[derive(Debug, Clone)]
struct KeptDecision {
    at: Ticks,
    before: u32,
    decision: Decision,
    /// Which ops consumers run with it, in words.
    boundary: String,
}

impl Scale {
    pub(in crate::state) fn new(scaling: &Scaling) -> Self {
        let (unit, counted) = Default::default();
        Self { policy: scaling.policy.start(), wanted: None, unit, counted, decisions: VecDeque::new() }
    }

    pub(in crate::state) fn wanted(&self) -> Option<u32> {
        self.wanted
    }

    /// Returns how many workers are wanted, and what counts as one.
    pub(in crate::state) fn wants(&self) -> Option<(u32, &Unit)> {
        self.wanted.map(|wanted| (wanted, &self.unit))
    }

    /// Says whether nothing was decided yet.
    pub(in crate::state) fn is_new(&self) -> bool {
        self.decisions.is_empty()
    }

    /// Begins with what another job showed, and with what counts as a worker.
    pub(in crate::state) fn begin(&mut self, policy: Box<dyn ScalingPolicy>, unit: Unit) {
        (self.policy, self.counted) = (policy, unit);
    }

    fn keep(&mut self, at: Ticks, before: u32, decision: Decision, boundary: String) {
        // While workers are replaced by others of another type, an equal number is the same need.
        if self.wanted != Some(decision.workers) {
            (self.wanted, self.unit) = (Some(decision.workers), self.counted.clone());
        }
        if self.decisions.back().is_some_and(|last| last.decision.says_the_same(&decision)) {
            return;
        }
        if self.decisions.len() == DECISIONS_MAX {
            self.decisions.pop_front();
        }
        self.decisions.push_back(KeptDecision { at, before, decision, boundary });
    }

    /// Returns all decisions, or the last few, the oldest first.
    pub(in crate::state) fn decisions(&self, now: Ticks, all: bool) -> Vec<ScaleDecision> {
        let skipped = if all { 0 } else { self.decisions.len().saturating_sub(LISTED_MAX) };
        let of = |kept: &KeptDecision| ScaleDecision {
            ago_ms: (now - kept.at).as_millis() as u64,
            before: kept.before,
            workers: kept.decision.workers,
            reason: kept.decision.to_string(),
            // Finite numbers and names always serialise.
            json: serde_json::to_string(&kept.decision).unwrap_or_default(),
            cut: kept.boundary.clone(),
        };
        self.decisions.iter().skip(skipped).map(of).collect()
    }
}

impl State {
    /// Sets the policy. Earlier decisions are forgotten.
    pub(crate) fn set_scaling(&mut self, scaling: Scaling) {
        self.jobs.values_mut().for_each(|job| job.scale = Scale::new(&scaling));
        self.scaling = scaling;
    }

    /// Takes a worker's report of the time that it spent. A report on another tenant's job is ignored.
    pub(in crate::state) fn spend(&mut self, session: SessionId, spent: &[Spent]) {
        let Some(worker) = self.worker_sessions.get(&session).and_then(|id| self.workers.get_mut(id)) else { return };
        for &Spent { job, compute_us, rows } in spent {
            let spent = &Spent { job, compute_us: compute_us.min(REPORTED_MAX), rows: rows.min(REPORTED_MAX) };
            let Some(job) = self.jobs.get_mut(&spent.job).filter(|job| worker.serves(&job.record.tenant)) else {
                continue;
            };
            match worker.only {
                None => {
                    worker.note_spent(spent.compute_us);
                    self.fleet.spend(worker, spent);
                    job.load.spend(spent);
                    job.cost.add(worker, spent);
                    self.spent_us = self.spent_us.saturating_add(spent.compute_us);
                }
                // A local thread yields to the trainer, so its time tells nothing of the fleet's workers.
                Some((id, consumer)) if id == spent.job => job.load.spend_local(consumer, spent),
                Some(_) => {}
            }
        }
    }

    /// Takes a worker's report of what it sent to consumers. Reports on another tenant's job, or on data sent within a
    /// host, are ignored.
    pub(in crate::state) fn note_sent(&mut self, session: SessionId, sent: &[Sent]) {
        let Some(worker) = self.worker_sessions.get(&session).and_then(|id| self.workers.get(id)) else { return };
        for sent in sent.iter().filter(|_| !worker.is_local()) {
            if let Some(job) = self.jobs.get_mut(&sent.job).filter(|job| worker.serves(&job.record.tenant)) {
                job.load.send(sent);
            }
        }
    }

    /// Runs the policy on all jobs that are read.
    pub(in crate::state) fn scale(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let tenant_mixes = self.tenant_mixes();
        let (spent, Scaling { workers_max: most, objective, .. }) = (self.spent_us, self.scaling.clone());
        let mut portions = self.portions(&tenant_mixes).into_iter();
        let local = self.local_threads();
        let mut made = Vec::new();
        for job in self.jobs.values_mut() {
            if !job.is_read() {
                job.load.restart(now, spent);
                continue;
            }
            let asking = (0..).zip(&job.consumers).filter(|(_, c)| c.local.is_asked_for());
            let threads = asking.filter_map(|(i, _)| local.get(&(job.record.id, i))).sum();
            let Portion { workers: share, part } = portions.next().unwrap_or(Portion::ALL);
            let (workforce, unit) =
                self.fleet.workforce(&mix_of(&tenant_mixes, &job.record.tenant), part, job.scale.wants());
            job.scale.counted = unit;
            job.load.note_workforce(Workforce { local: threads, ..workforce });
            let quota = job.consumers.iter().filter_map(|c| c.attached?.workers_max).min();
            let limits = Limits { min: 1, max: quota.map_or(most, |quota| quota.clamp(1, most)) };
            let objective = objective_of(job, objective, &self.workers);
            let shown: Vec<_> = std::iter::once(&job.op_costs).chain(self.profiles.ops(&job.record)).collect();
            let costs = || job.placement.costs(&shown);
            let Some(seen) = job.load.end(now, spent, share, limits, objective, costs) else {
                continue;
            };
            let seen = Observation { threads_by_kind: job.scale.counted.threads().to_vec(), ..seen };
            let decision = job.scale.policy.decide(&seen);
            if let Some(rest) = job.scale.policy.steady_state() {
                self.profiles.note_steady_state(now, &job.record, &self.scaling.objective, rest, out);
            }
            if let Some((figures, rows)) = decision.figures.zip(job.load.batch_rows()) {
                let step = f64::from(job.record.consumers) / (figures.demand * rows);
                self.profiles.note_step(now, &job.record, step, out);
            }
            job.deal_threads(decision.local);
            let before = job.scale.wanted.unwrap_or(seen.workers);
            if (before, seen.local) != (decision.workers, decision.local) {
                let Decision { workers, local, .. } = decision;
                tracing::info!(job = job.record.name, before, workers, local, "{decision}");
            }
            made.push((job.record.id, before, decision));
        }
        for (job, before, decision) in made {
            self.decided(now, job, before, decision);
        }
    }

    /// Keeps a decision, and sets the job's placement boundary.
    pub(in crate::state) fn decided(&mut self, now: Ticks, id: u64, before: u32, decision: Decision) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let moved = decision.cut.is_some_and(|cut| job.placement.set(cut));
        if moved {
            job.load.note_boundary_moved();
        }
        // A policy numbers boundaries; people count ops.
        let decision = Decision { cut: decision.cut.and_then(|cut| job.placement.ops_before(cut)), ..decision };
        let Some(job) = self.jobs.get(&id) else { return };
        let boundary = job.placement.describe(&self.boundary_costs(job));
        if moved {
            tracing::info!(job = job.record.name, "{boundary}");
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.scale.keep(now, before, decision, boundary);
    }

    /// Returns the jobs that are read, or were read a moment ago.
    pub(in crate::state) fn going_on(&self, now: Ticks) -> impl Iterator<Item = &Job> {
        let timeout = self.timing.consumer_timeout;
        self.jobs.values().filter(move |job| {
            let lately = |c: &Consumer| c.attached.is_some() || now - c.gone < timeout;
            !job.record.cancelled && !job.is_finished() && job.consumers.iter().any(lately)
        })
    }

    /// Returns how many workers all jobs together want. Unknown while it is unknown for one of them, so after a
    /// restart, too.
    pub(crate) fn wanted(&self, now: Ticks) -> GetScaleResponse {
        let jobs = self.going_on(now);
        let mut sum = jobs.map(|job| job.scale.wanted).try_fold(0u32, |sum, wanted| Some(sum.saturating_add(wanted?)));
        let (workers_max, (kinds, others)) = (self.scaling.workers_max, self.types_wanted());
        if !kinds.is_empty() {
            // Fewer workers suffice if they are larger.
            sum = kinds.iter().try_fold(others, |sum, kind| Some(sum.saturating_add(kind.wanted?)));
        }
        GetScaleResponse {
            wanted: sum.map_or(0, |sum| sum.clamp(1, workers_max)),
            kinds,
            workers: self.fleet_workers().count() as u32,
            workers_max,
            policy: self.scaling.policy.to_string(),
        }
    }

    /// Counts the workers by the tenant that they serve, without local workers: these serve one consumer, and nobody
    /// starts or ends them for the jobs.
    pub(in crate::state) fn tenant_mixes(&self) -> TenantMixes {
        let mut tenant_mixes = TenantMixes::new();
        for worker in self.fleet_workers() {
            let mix = tenant_mixes.entry(worker.serves.clone()).or_insert_with(|| self.fleet.none());
            self.fleet.add(mix, worker);
        }
        tenant_mixes
    }

    /// Returns the portion of the workers that each job can count on. If each job counted all of them, none would ever
    /// find that it has what it wanted.
    fn portions(&self, tenant_mixes: &TenantMixes) -> Vec<Portion> {
        let read: Vec<_> = self.jobs.values().filter(|job| job.is_read()).collect();
        let claims = read.iter().map(|job| claim(job, tenant_mixes));
        if read.len() < 2 {
            return vec![Portion::ALL; read.len()];
        }
        let mut all = self.fleet.none();
        tenant_mixes.values().for_each(|mix| all.add_all(mix));
        if self.fleet.decides() {
            let units = read.iter().map(|job| job.scale.wants().map(|(_, unit)| unit));
            let parts = self.fleet.parts(&all, &claims.zip(units).collect::<Vec<_>>());
            return parts.into_iter().map(|part| Portion { part, ..Portion::ALL }).collect();
        }
        let shares = share(all.workers, &claims.collect::<Vec<_>>());
        shares.into_iter().map(|workers| Portion { workers, ..Portion::ALL }).collect()
    }
}

/// Workers by the tenant that they serve.
pub(in crate::state) type TenantMixes = HashMap<Option<Arc<str>>, Mix>;

/// What a job can count on of the workers that compute for it: a number of workers, and a share of their time.
#[derive(Debug, Clone, Copy)]
struct Portion {
    workers: u32,
    part: f64,
}

impl Portion {
    const ALL: Self = Self { workers: u32::MAX, part: 1.0 };
}

/// Returns the objective for a job: each of its consumers has a host that costs, and workers cost what those report
/// that may compute for it.
pub(in crate::state) fn objective_of(
    job: &Job,
    objective: Objective,
    workers: &BTreeMap<WorkerId, Worker>,
) -> Objective {
    let own = |w: &&Worker| w.is_of_fleet() && w.serves(&job.record.tenant);
    priced(objective.with_trainers(job.consumers.len() as u32), workers.values().filter(own))
}

/// Returns the workers that may compute for a tenant: its own, and those for all tenants.
pub(in crate::state) fn mix_of(tenant_mixes: &TenantMixes, tenant: &str) -> Mix {
    let own = tenant_mixes.iter().filter(|(serves, _)| serves.as_deref().is_none_or(|serves| serves == tenant));
    own.map(|(_, mix)| mix.clone())
        .reduce(|mut sum, mix| {
            sum.add_all(&mix);
            sum
        })
        .unwrap_or_default()
}

/// Returns a job's claim: the workers that it wants, or all present ones while that is unknown.
fn claim(job: &Job, tenant_mixes: &TenantMixes) -> Claim {
    let all = || mix_of(tenant_mixes, &job.record.tenant).workers;
    let JobRecord { priority, weight, .. } = *job.record;
    Claim { priority, wanted: job.scale.wanted.unwrap_or_else(all), weight: weight.into() }
}
