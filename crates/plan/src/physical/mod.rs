//! The physical plan: where each op runs, which ops are fused, and in which sizes rows travel.
//!
//! - `stages`: a graph divided into epoch plan, split and tail; `steps`: the ops in it
//! - `divide`: the rule that divides a graph; `counting`, `fusion`, `late_batch`: its parts
//! - `projection`: the columns that are read from the source; `source_conditions`: the rows of it that are needed
//! - `cache_point`: the ops before `cache()`, their name, and the candidates of `autocache()`
//! - `cache_bypass`: the fused ops of rows that do not fit into a full cache
//! - `boundary`: the placement boundaries between worker and consumer
//! - `sizing`: the rows of a unit, a morsel and a split
//! - `op_label`, `op_counters`: the label and the counters of a fused op in cost statistics

pub(crate) mod boundary;
pub(crate) mod cache_bypass;
pub(crate) mod cache_point;
pub(crate) mod counting;
mod divide;
mod fusion;
mod late_batch;
pub(crate) mod op_counters;
pub(crate) mod op_label;
mod projection;
pub(crate) mod sizing;
pub(crate) mod source_conditions;
pub(crate) mod stages;
pub(crate) mod steps;
