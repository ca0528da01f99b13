//! Scaling: runs the policy on the measurements of `load`, and keeps its decisions on each job.
//!
//! - `machine`: the decisions on each job, and their effects.
//! - `scale`: how many workers one job wants, and why.
//! - `placement`: after which op a job's splits leave the workers (the placement boundary).
//! - `warm_start`: the first decision on a job, before any measurement of it.
//! - `local_threads`: how many threads the local workers of a job's consumers have.

mod local_threads;
pub(super) mod machine;
pub(super) mod placement;
mod scale;
pub(super) mod warm_start;
