//! What a job begins with, before anything of it is measured: where the last one on its samples came to rest; or, where none did, what
//! follows from what ops of such jobs cost and from what a trainer took for a row. The policy confirms either.

use forebay_core::Ticks;
use forebay_policy::placement::{Finishing, Model, Wire};
use forebay_policy::scaling::{Decision, Figures, Limits, Previous};

use super::scale::{mix_of, objective_of};
use crate::options::Scaling;
use crate::state::{Job, State};

impl State {
    /// A job of which nothing was decided yet begins. Not before it is read, or just opened: of jobs that nobody comes back to after a
    /// restart nothing is wanted.
    pub(in crate::state) fn warm_start(&mut self, now: Ticks, id: u64) {
        let Scaling { policy, objective, .. } = self.scaling;
        let Some(job) = self.jobs.get(&id).filter(|job| job.scale.is_new()) else { return };
        let rest = self.profiles.steady_state(&job.record, &objective).and_then(|rest| policy.again(&rest));
        let Some((decision, previous)) = rest.or_else(|| self.solved(job)) else { return };
        let (_, unit) = self.fleet.workforce(&mix_of(&self.tenant_mixes(), &job.record.tenant), 1.0, None);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.scale.begin(previous, unit);
        self.decided(now, id, decision.workers, decision);
    }

    /// Solves for a job with what others on its dataset showed. `None` where that is not enough, or no worker says how many threads
    /// it has.
    fn solved(&self, job: &Job) -> Option<(Decision, Previous)> {
        let Scaling { policy, workers_max, .. } = self.scaling;
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
        policy.begin(&model, figures, Limits { min: 1, max: workers_max }, &objective)
    }
}
