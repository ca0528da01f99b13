//! Random jobs in the simulator under Forebay's policy.

use forebay_policy::placement::{Manners, Model};
use forebay_policy::scaling::Policy;
use forebay_policy_lab::simulate::{Job, JobOutcome, Pool, Scenario, simulate};

/// The same jobs in each run: the policy decides one in tens of thousands badly, which is known (README), so other jobs
/// could fail without a change of the code.
pub(crate) const SEED: u64 = 7;

/// A job on workers with so many threads.
#[derive(Debug, Clone)]
pub(crate) struct Imagined {
    pub(crate) job: Job,
    pub(crate) threads: u32,
}

impl Imagined {
    /// Returns the model that the policy solves.
    pub(crate) fn model(&self) -> Model {
        self.job.model(self.threads.into(), Manners::SpareOnly)
    }

    /// Runs so many batches of the job, on at most so many workers.
    pub(crate) fn run(&self, batches: u64, workers_max: u32, seed: u64) -> JobOutcome {
        let pool = Pool { max: workers_max, threads: self.threads, ..Pool::default() };
        let scenario = Scenario::new(vec![Job { batches, ..self.job.clone() }], pool, seed);
        simulate(&scenario, &Policy::default()).expect("a job").jobs.remove(0)
    }
}
