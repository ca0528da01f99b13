//! The ops of a pipeline, compiled: each accepts a chunk and returns one.
//!
//! - `compiled_op`: one fused op of a plan, ready to run, of any kind
//! - `image/`: fused image ops over a column
//! - `audio_op`: an op on sound or on spectra
//! - `mix_op`, `mosaic_op`: mixup, cutmix and mosaics of whole batches
//! - `pad_op`: rows of a batch padded to one length
//! - `enumerate_op`: the numbers of rows as a column
//! - `function_op`: a user's function; `flat_map_op`: one that makes any number of rows of a row
//! - `functions`: the trait through which the engine calls users' Python
//! - `determinism_check`: calls functions twice for a few rows, and compares
//! - `death_retry`: calls a function again when its process died
//! - `batches`: cuts a chunk into the batches that a per-batch op sees
//! - `slices`: calls a function for a few rows at a time, between which other jobs have their turn
//! - `scratch`: the memory and counters that one thread reuses from morsel to morsel

pub(crate) mod audio_op;
pub(crate) mod batches;
pub(crate) mod compiled_op;
pub(crate) mod death_retry;
pub(crate) mod determinism_check;
pub(crate) mod enumerate_op;
pub(crate) mod flat_map_op;
pub(crate) mod function_op;
pub(crate) mod functions;
pub(crate) mod image;
pub(crate) mod mix_op;
mod mosaic_op;
pub(crate) mod pad_op;
pub(crate) mod scratch;
pub(crate) mod slices;
