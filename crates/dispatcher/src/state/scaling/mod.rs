//! Scaling: runs the policy on what `load` measured, and keeps what it decided for each job.
//!
//! - `scale`: how many workers each job wants, and why.
//! - `placement`: after which op a job's splits leave the workers (the placement boundary).
//! - `warm_start`: the first decision on a job, before anything of it is measured.
//! - `local_workers`: workers on the host of a consumer, and how many threads they get.

pub(super) mod local_workers;
pub(super) mod placement;
pub(super) mod scale;
pub(super) mod warm_start;
