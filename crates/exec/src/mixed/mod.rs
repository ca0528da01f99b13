//! Mixes of datasets whose rows are not counted: each dataset is a stream of its own, and this process puts their rows
//! together in the order of the plan ([`forebay_plan::MixSchedule`]).
//!
//! - `iteration`: the iterator over any pipeline in this process
//! - `stream`: the iterator over a mix, and the end of epochs
//! - `part`: one dataset, the seam for its stream, and its position
//! - `local_parts`: the streams of datasets in this process
//! - `run_rows`: the rows of a few places, put together

mod iteration;
mod local_parts;
mod part;
mod run_rows;
mod stream;

pub use iteration::LocalIteration;
pub use part::{PartStream, PartStreams};
pub use stream::MixedStream;
