//! Mixes of datasets whose rows are not counted: each dataset is a stream of its own, and this process puts their rows
//! together in the order of the plan ([`forebay_plan::MixSchedule`]).
//!
//! - `iteration`: the iterator over any pipeline in this process
//! - `stream`: the iterator over a mix, and the end of epochs
//! - `part`: the stream of one dataset, and its position
//! - `run_rows`: the rows of a few places, put together

mod iteration;
mod part;
mod run_rows;
mod stream;

pub use iteration::LocalIteration;
