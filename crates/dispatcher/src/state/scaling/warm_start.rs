//! The first decision on a job, before anything of it is measured: the steady state of the last job on its samples or,
//! if there is none, the solution for known op costs and a known trainer speed. The policy then confirms it.

use forebay_core::Ticks;
use forebay_policy::placement::{Finishing, Model, Wire};
use forebay_policy::scaling::{Figures, Limits, Start};

use super::scale::{mix_of, objective_of};
use crate::options::Scaling;
use crate::state::{Job, State};

impl State {
    /// Makes the first decision on a job when it is opened or first read. A job that nobody returns to after a restart
    /// wants no workers.
    pub(in crate::state) fn warm_start(&mut self, now: Ticks, id: u64) {
        let Scaling { policy, objective, .. } = &self.scaling;
        let Some(job) = self.jobs.get(&id).filter(|job| job.scale.is_new()) else { return };
        let known = self.profiles.steady_state(&job.record, objective);
        let resumed = known.and_then(|at| policy.initial().resume(&at));
        let Some((decision, policy)) = resumed.or_else(|| self.solved(job)) else { return };
        let (_, unit) = self.fleet.workforce(&mix_of(&self.tenant_mixes(), &job.record.tenant), 1.0, None);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.scale.begin(policy, unit);
        self.decided(now, id, decision.workers, decision);
    }

    /// Solves for a job with its dataset's profile. `None` if the profile lacks figures, or no worker reports its
    /// threads.
    fn solved(&self, job: &Job) -> Option<Start> {
        let Scaling { policy, workers_max, .. } = &self.scaling;
        let ops = self.profiles.ops(&job.record)?;
        let (workforce, _) = self.fleet.workforce(&mix_of(&self.tenant_mixes(), &job.record.tenant), 1.0, None);
        let rows = job.placement.batch.unwrap_or(1) as f64;
        let step = self.profiles.step(&job.record)? * rows / f64::from(job.record.consumers.max(1));
        let costs = job.placement.costs(&[ops]);
        let compute = job.placement.worker_row(ops, &costs)? * rows;
        let threads = workforce.each;
        let model = Model {
            step,
            cuts: costs.of_batch(rows, compute),
            wire: Wire::default(),
            threads,
            efficiency: 1.0,
            shared_limit: None,
            machine: None,
            finishing: Finishing::Reader,
        };
        let figures = Figures {
            workers: workforce.workers,
            demand: 1.0 / step,
            beside: 0.0,
            supply: threads / compute,
            compute,
            waited: 0.0,
            delivered: 0.0,
            made: 0.0,
            local: 0,
            spare: 0.0,
            pressure: 0.0,
            send: 0.0,
            receive: 0.0,
        };
        let objective = objective_of(job, self.scaling.objective, &self.workers);
        policy.initial().begin(&model, figures, Limits { min: 1, max: *workers_max }, &objective)
    }
}
