//! The pipelines of jobs, and the expected output of their consumers.

pub(super) mod catalogue;
pub(super) mod digest;
pub(super) mod drawing;
pub(super) mod pipeline;
