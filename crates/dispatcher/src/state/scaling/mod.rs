//! Scaling: runs the policy on what `load` measured, and keeps what it decided for each job.
//!
//! - `machine`: the decisions on each job, and what follows from them.
//! - `scale`: how many workers one job wants, and why.
//! - `placement`: after which op a job's splits leave the workers (the placement boundary).
//! - `warm_start`: the first decision on a job, before anything of it is measured.
//! - `local_threads`: how many threads the local workers of a job's consumers have.

mod local_threads;
pub(super) mod machine;
pub(super) mod placement;
mod scale;
pub(super) mod warm_start;
