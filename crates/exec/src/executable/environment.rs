//! The services that a pipeline needs from the process that runs it.

use std::sync::Arc;

use forebay_core::Stopwatch;
use forebay_data::Memory;
use forebay_io::Blobs;

use crate::cached::context::CacheContext;
use crate::ops::functions::Functions;

/// The services that a pipeline needs from the process that runs it.
#[derive(Clone)]
pub struct Environment {
    /// The arrays and pickles that travel with a graph.
    pub blobs: Arc<dyn Blobs>,
    /// Runs users' Python.
    pub functions: Arc<dyn Functions>,
    /// Allocates large columns.
    pub memory: Memory,
    /// The cache for `cache()` and `autocache()`. Without it every row is computed each time, with the same bits.
    pub cache_context: Option<CacheContext>,
    /// Times ops, and nothing else.
    pub watch: Arc<dyn Stopwatch>,
}
