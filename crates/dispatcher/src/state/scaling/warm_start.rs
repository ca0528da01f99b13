//! The first decision on a job, before any measurement of it: the steady state of the last job on its samples or,
//! if there is none, the solution for known op costs and a known trainer speed. The policy then confirms it. Pure.

use forebay_policy::placement::{Finishing, Model, Objective, Wire};
use forebay_policy::scaling::{Figures, Limits, Start};

use super::placement::Placement;
use crate::options;
use crate::records::JobRecord;
use crate::state::load::dataset_profile::DatasetProfiles;
use crate::state::load::job_load::Workforce;

/// Returns the first decision on a job, and the policy's state after it; `None` if nothing is known. `objective` holds
/// for the job: its trainers and the workers that may compute for it have prices.
pub(in crate::state) fn first_decision(
    options: &options::Scaling,
    job: &JobRecord,
    placement: &Placement,
    profiles: &DatasetProfiles,
    workforce: Workforce,
    objective: &Objective,
) -> Option<Start> {
    let known = profiles.steady_state(job, &options.objective);
    let resumed = known.and_then(|at| options.policy.initial().resume(&at));
    resumed.or_else(|| solved(options, job, placement, profiles, workforce, objective))
}

/// Solves for a job with its dataset's profile. `None` if the profile lacks figures, or no worker reports its threads.
fn solved(
    options: &options::Scaling,
    job: &JobRecord,
    placement: &Placement,
    profiles: &DatasetProfiles,
    workforce: Workforce,
    objective: &Objective,
) -> Option<Start> {
    let ops = profiles.ops(job)?;
    let rows = placement.batch.unwrap_or(1) as f64;
    let step = profiles.step(job)? * rows / f64::from(job.consumers.max(1));
    let costs = placement.costs(&[ops]);
    let compute = placement.worker_row(ops, &costs)? * rows;
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
    options.policy.initial().begin(&model, figures, Limits { min: 1, max: options.workers_max }, objective)
}
