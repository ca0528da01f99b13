//! Runs the policies: measurements of `load` go in, decisions of `scaling` and `fleet` come out.

use forebay_core::Ticks;
use forebay_policy::fleet::Unit;
use forebay_policy::scaling::{Claim, Decision, Reason};
use forebay_proto::GetScaleResponse;

use super::fleet::machine::TenantMixes;
use super::leases::views::{JobView, WorkerView};
use super::load::job_load::Workforce;
use super::load::op_costs::OpCosts;
use super::router::State;
use super::scaling::machine::{Portion, portions};
use super::scaling::warm_start::first_decision;

impl State {
    /// Runs the scaling policy on all jobs that are read.
    pub(in crate::state) fn scale(&mut self, now: Ticks) {
        let (read, local) = (self.leases.read_jobs(), self.leases.local_threads());
        let workers: Vec<_> = self.leases.fleet_workers().collect();
        let mixes = self.fleet.tenant_mixes(&workers);
        let portions = self.portions(&read, &mixes);
        self.load.restart_all_but(now, &read);
        let mut made = Vec::new();
        for (job, portion) in read.iter().zip(portions) {
            let (id, record) = (job.id(), job.record);
            let mix = mixes.of(&record.tenant);
            let (workforce, unit) = self.fleet.workforce(&mix, portion.part, self.scaling.wants(id));
            self.scaling.set_counted(id, unit);
            let workforce = Workforce { local: self.scaling.asked_threads(id, &local), ..workforce };
            let objective = self.scaling.options().objective;
            let within = (self.scaling.limits(job), self.fleet.priced(objective, job, &workers));
            let costs = |shown: &[&OpCosts]| self.scaling.costs(id, shown);
            let Some(seen) = self.load.observe(now, record, workforce, portion.workers, within, costs) else {
                continue;
            };
            let local_before = seen.local;
            let Some((decision, before, steady)) = self.scaling.decide(id, seen) else { continue };
            let demand = decision.figures.map(|figures| figures.demand);
            self.load.note_decision(now, record, &objective, steady, demand);
            let Decision { workers, local, .. } = decision;
            if (before, local_before) != (workers, local) {
                tracing::info!(job = record.name, before, workers, local, "{decision}");
            }
            made.push((id, before, decision));
        }
        for (job, before, decision) in made {
            self.decided(now, job, before, decision);
        }
    }

    /// Returns the portion of the workers that each job can count on. If each job counted all of them, none would ever
    /// find that it has as many as it wanted.
    fn portions(&self, read: &[JobView<'_>], mixes: &TenantMixes) -> Vec<Portion> {
        if read.len() < 2 {
            return vec![Portion::ALL; read.len()];
        }
        let all = self.fleet.all_of(mixes);
        let claim = |job: &JobView<'_>| self.scaling.claim(job, || mixes.of(&job.record.tenant));
        if self.fleet.decides() {
            let unit = |job: &JobView<'_>| self.scaling.wants(job.id()).map(|(_, unit)| unit);
            let claims: Vec<(Claim, Option<&Unit>)> = read.iter().map(|job| (claim(job), unit(job))).collect();
            let parts = self.fleet.parts(&all, &claims);
            return parts.into_iter().map(|part| Portion { part, ..Portion::ALL }).collect();
        }
        portions(all.workers, &read.iter().map(claim).collect::<Vec<_>>())
    }

    /// Makes the first decision on a job when it is opened or first read. A job to which no consumer returns after a
    /// restart wants no workers.
    pub(in crate::state) fn warm_start(&mut self, now: Ticks, id: u64) {
        let Some(placement) = self.scaling.undecided(id) else { return };
        let Some(job) = self.leases.job_view(id) else { return };
        // Thousands of consumers may attach, so workers are scanned only for a dataset that has a profile.
        let (profiles, options) = (self.load.profiles(), self.scaling.options());
        let is_known =
            profiles.steady_state(job.record, &options.objective).is_some() || profiles.ops(job.record).is_some();
        if !is_known {
            return;
        }
        let workers: Vec<_> = self.leases.fleet_workers().collect();
        let mix = self.fleet.tenant_mixes(&workers).of(&job.record.tenant);
        let (workforce, unit) = self.fleet.workforce(&mix, 1.0, None);
        let objective = self.fleet.priced(options.objective, &job, &workers);
        let first = first_decision(options, job.record, placement, profiles, workforce, &objective);
        let Some((decision, policy)) = first else { return };
        self.scaling.begin(id, policy, unit);
        self.decided(now, id, decision.workers, decision);
    }

    /// Keeps a decision, and sets the job's placement boundary.
    fn decided(&mut self, now: Ticks, id: u64, before: u32, decision: Decision) {
        let Some(record) = self.leases.record(id) else { return };
        let moved = self.scaling.keep(now, id, before, decision, &self.load.shown_op_costs(record));
        if let Some((ops_on_worker, boundary)) = moved {
            tracing::info!(job = record.name, "{boundary}");
            self.load.note_boundary_moved(id);
            self.leases.set_boundary(id, ops_on_worker);
        }
    }

    /// Sets the boundary of a job as its policy might, and decides nothing else: for the simulation. Returns the number
    /// of row ops for workers.
    pub(crate) fn set_boundary(&mut self, now: Ticks, tenant: &str, name: &str, number: u32) -> Option<u32> {
        let id = self.leases.number(tenant, name)?;
        let workers = self.scaling.wanted(id).unwrap_or(1);
        let decision = Decision { workers, local: 0, cut: Some(number), reason: Reason::Fixed, figures: None };
        self.decided(now, id, workers, decision);
        self.scaling.boundary(id)
    }

    /// Measures workers' speed, decides on worker types, and charges idle time to jobs.
    pub(in crate::state) fn tick_fleet(&mut self, now: Ticks) {
        let workers: Vec<_> = self.leases.fleet_workers().collect();
        let wants = self.leases.going_on(now).map(|job| self.scaling.wants(job));
        self.fleet.decide(now, self.scaling.options().workers_max, wants, &workers);
        let wanted = |job| self.scaling.wanted(job).unwrap_or(1);
        self.fleet.charge_idle(now, workers.into_iter(), &self.leases.read_jobs(), wanted);
    }

    /// Returns how many workers all jobs together want. Unknown while it is unknown for one of them, so after a
    /// restart, too.
    pub(crate) fn wanted(&self, now: Ticks) -> GetScaleResponse {
        let workers: Vec<WorkerView<'_>> = self.leases.fleet_workers().collect();
        let mut jobs = self.leases.going_on(now).map(|job| self.scaling.wanted(job));
        let mut sum = jobs.try_fold(0u32, |sum, wanted| Some(sum.saturating_add(wanted?)));
        let options = self.scaling.options();
        let (kinds, others) = self.fleet.types_wanted(&workers);
        if !kinds.is_empty() {
            // Fewer workers suffice if they are larger.
            sum = kinds.iter().try_fold(others, |sum, kind| Some(sum.saturating_add(kind.wanted?)));
        }
        GetScaleResponse {
            wanted: sum.map_or(0, |sum| sum.clamp(1, options.workers_max)),
            kinds,
            workers: workers.len() as u32,
            workers_max: options.workers_max,
            policy: options.policy.to_string(),
        }
    }
}
