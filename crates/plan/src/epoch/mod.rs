//! The epoch plan: which source rows an epoch has, in which order, and which consumer gets them in which split.
//!
//! - `epoch_plan`: units, splits and morsels of each consumer
//! - `sharding`: how units are divided among consumers
//! - `ending`: how many batches an epoch has, and how consumers end it together if their counts differ
//! - `extent`: the size of a source
//! - `order`: the order of counted rows after `shuffle`, `repeat`, `take` and their like
//! - `parts`: the rows of a part of a `split`
//! - `mix/`: datasets that are read as one
//! - `permute`: a pseudo-random permutation that is computed element by element
//! - `window`: shuffles over windows of counted rows, and their sizes
//! - `lanes`, `lane_order`: shuffles over windows of files whose rows are not counted

pub(crate) mod ending;
pub(crate) mod epoch_plan;
pub(crate) mod extent;
pub(crate) mod lane_order;
pub(crate) mod lanes;
pub(crate) mod mix;
pub(crate) mod order;
mod parts;
pub(crate) mod permute;
pub(crate) mod sharding;
pub(crate) mod window;
