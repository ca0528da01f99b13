//! The costs of ops, and the check that another order of them yields the same samples.
//!
//! - `op_meter`: time, rows and bytes of each op while the pipeline runs
//! - `measure`: runs ops on sample rows, to choose an order by measuring
//! - `span_log`: when each op ran, while a trace is recorded
//! - `distribution_check`: whether two orders draw their samples from the same distribution

pub(crate) mod distribution_check;
pub(crate) mod measure;
pub(crate) mod op_meter;
pub(crate) mod span_log;
