//! Runs splits on this machine: morsels in, chunks out, batches in order.
//!
//! ```text
//! Stages + EpochPlan + SourceIndex -> Executable   one pipeline, shared by threads
//! Executable.morsel()                              the pure function: rows of a morsel
//! Merge                                            ordered chunks -> exact batches, with their positions
//! RowPool                                          threads that share the rows of the oldest morsel
//! LocalStream                                      threads + Merge: the iterator of this process
//! ```
//!
//! A worker runs the same `Executable`, and a client of a service the same `Merge`.
//!
//! The folders, in the order in which a split passes through them:
//!
//! | folder | contents |
//! |---|---|
//! | `executable/` | a pipeline over its source, ready to run: reads the rows of a morsel and runs its ops |
//! | `cached/` | rows that the cache has: `cache()`, `autocache()`; the page cache of remote files |
//! | `ops/` | the ops of a pipeline, compiled: each accepts a chunk and returns one |
//! | `image/`, `audio/`, `table/`, `tokenize/` | the kernels that the ops call: pixels, sound, columns, texts to token ids |
//! | `annotations/` | boxes, masks and points that follow their image |
//! | `skip/` | samples that fail on the way: isolated, skipped, counted, recorded |
//! | `tail/` | the merge: all code that sees the stream of one consumer in order |
//! | `local/` | the iterator in this process, which takes the morsels of a stream through all of the above |
//! | `mixed/` | the iterator over a mix of datasets whose rows are not counted, each a stream of its own |
//!
//! Beside them:
//!
//! | folder or file | contents |
//! |---|---|
//! | `threads/` | threads that share rows, and how much processor time they use |
//! | `profile/` | the costs of ops, and the check that another order of them yields the same samples |
//! | `panic`, `lock` | caught panics as errors; mutexes after a panic |
//!
//! ```
//! use std::sync::Arc;
//!
//! use forebay_core::{Seed, SystemClock};
//! use forebay_data::Memory;
//! use forebay_exec::{Environment, Executable, LocalOptions, LocalStream, NoFunctions};
//! use forebay_io::{Allowed, NoBlobs, index};
//! use forebay_plan::{EpochPlan, Graph, Node, Op, Source, Stages, ops};
//!
//! let source = Source::Range { start: 0, stop: 10, step: 1 };
//! let graph = Graph::new(source.clone(), None)?.then(Node::new(Op::SHUFFLE))?;
//! let batch = Op::Batch(ops::Batch { size: 4, drop_remainder: true });
//! let graph = graph.then(Node::new(batch))?;
//! let stages = Arc::new(Stages::new(&graph)?);
//! let index = index(&source, &Allowed::everything(), true, None, None, 1, &|_, _| Ok(()))?;
//! let plan = Arc::new(EpochPlan::new(&stages, index.extent(), Seed(7), 1, None)?);
//! let environment = Environment {
//!     blobs: Arc::new(NoBlobs),
//!     functions: Arc::new(NoFunctions),
//!     memory: Memory::default(),
//!     cache_context: None,
//!     watch: Arc::new(SystemClock::default()),
//! };
//! let executable = Executable::new(stages, plan, Some(index), &environment)?;
//!
//! let options = LocalOptions { threads: 2, end_epoch: Some(1), ..LocalOptions::default() };
//! let mut batches = LocalStream::start(executable, options)?;
//! let mut sizes = Vec::new();
//! while let Some(batch) = batches.next(&mut || Ok(()))? {
//!     sizes.push(batch.chunk.num_rows());
//! }
//! assert_eq!(sizes, [4, 4]);
//! # Ok::<(), forebay_core::Error>(())
//! ```

mod annotations;
pub mod audio;
mod cached;
mod executable;
pub mod image;
mod local;
mod lock;
mod mixed;
mod ops;
mod panic;
mod profile;
mod skip;
pub mod table;
mod tail;
mod threads;
mod tokenize;
mod training_forms;

pub use cached::autocache_profile::AutoCacheProfiles;
pub use cached::context::CacheContext;
pub use cached::page_cached::{PageCachedSource, reads_remote};
pub use cached::warm::{WarmReport, warm};
pub use executable::environment::Environment;
pub use executable::{Executable, MorselRequest};
pub use local::options::LocalOptions;
pub use local::stream::LocalStream;
pub use mixed::{LocalIteration, MixedStream, PartStream, PartStreams};
pub use ops::death_retry::{CallFailure, DEATHS_MAX, blamed, retry_after_deaths};
pub use ops::functions::{Functions, MadeRows, NoFunctions, Pickle, Randomness};
pub use ops::scratch::Scratch;
pub use panic::panicked;
pub use profile::measure::{Now, compare, measure};
pub use profile::op_meter::OpMeter;
pub use profile::span_log::SpanLog;
pub use skip::known_skips::KnownSkips;
pub use skip::saved_skip::SavedSkip;
pub use skip::skip_log::{Budget, SkippedSample};
pub use tail::buckets::{Key, KeyPart, RowsOfKeys};
pub use tail::delivery::{Delivery, Span};
pub use tail::merge::Merge;
pub use tail::position::{MixPosition, PartPosition, Position, Unpacked};
pub use tail::saved_state::SavedState;
pub use threads::STACK_BYTES;
pub use threads::cpu_time::{HelperGuard, ThreadCpuTime, count_helper};
pub use threads::preemption::{Preemption, add_waited, set_preemption, waited};
pub use threads::row_pool::RowPool;
pub use tokenize::check;

pub use forebay_policy::caching::{Rent, StorePrices};
