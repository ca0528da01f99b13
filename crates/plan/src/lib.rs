//! The pipeline graph, its schema, its optimiser and the epoch plan: what to compute, never how or where.
//!
//! ```text
//! Graph (as written, checked)  ->  RunOrder (in which order its ops run)
//!                              ->  Stages (what runs in a split, what after the merge)
//!                              ->  EpochPlan (which rows, in which order, in which split)
//! ```
//!
//! | folder | contents |
//! |---|---|
//! | `graph/`, `source/`, `ops/` | the pipeline as the user wrote it, checked |
//! | `on_error.rs`, `chosen_order.rs` | settings that are stored with it |
//! | `reorder/` | the order in which its ops run |
//! | `physical/` | the physical plan: where each op runs, which are fused, and in which sizes rows travel |
//! | `epoch/` | the epoch plan: which rows, in which order, for which consumer, in which split |
//! | `explain.rs` | all of this as text |
//!
//! Invariants: nothing here does I/O or holds a clock; every function gives the same answer on every machine;
//! nothing depends on the number of workers or threads.
//!
//! ```
//! use forebay_core::{ConsumerIndex, Epoch, Ordinal, Seed};
//! use forebay_plan::{EpochPlan, Extent, Graph, Node, Op, Source, Stages, ops};
//!
//! // As written: eight rows, shuffled, in batches of two.
//! let graph = Graph::new(Source::Range { start: 0, stop: 8, step: 1 }, None)?;
//! let batch = Op::Batch(ops::Batch { size: 2, drop_remainder: false });
//! let graph = graph.then(Node::new(Op::SHUFFLE))?.then(Node::new(batch))?;
//!
//! // Which rows of the source are in the first split of the first epoch?
//! let extent = Extent { rows: Some(8), blocks: 1, bytes: 64, is_compressed: false, parts: vec![] };
//! let plan = EpochPlan::new(&Stages::new(&graph)?, extent, Seed(7), 1, None)?;
//! let (consumer, mut rows) = (ConsumerIndex(0), Vec::new());
//! for morsel in plan.morsels(consumer, Ordinal(0)) {
//!     plan.places(Epoch(0), consumer, morsel, |row, _| rows.push(row));
//! }
//! assert_eq!((plan.num_splits(consumer), rows.len()), (Some(4), 2));
//! # Ok::<(), forebay_core::Error>(())
//! ```

mod bits;
mod chosen_order;
mod epoch;
mod explain;
mod graph;
mod on_error;
pub mod ops;
mod physical;
mod reorder;
mod source;

pub use crate::epoch::mix::combination::{BlockStarts, Combination, RowCount, never_read, rows_of_source};
pub use crate::epoch::mix::streamed_mix::{MIX_WINDOW, MixSchedule};
pub use bits::{BitVersions, NeededBits, Versions, check_planned_bits, needed_bits};
pub use chosen_order::{Chosen, Reorder};
pub use epoch::ending::{Count, Ending, Floor};
pub use epoch::epoch_plan::{EpochPlan, Morsel};
pub use epoch::extent::Extent;
pub use epoch::lane_order::LaneWindow;
pub use epoch::lanes::{EpochLanes, Layout as LaneLayout, Piece};
pub use epoch::order::{Blocks, Order, Placed};
pub use epoch::permute::Permutation;
pub use epoch::sharding::Sharding;
pub use epoch::window::{STREAMED_AT_ONCE, WindowLayout, rows_of_two_windows};
pub use explain::{describe, explain};
pub use graph::{Graph, Node, Site, WrittenOp};
pub use on_error::OnError;
pub use ops::expr::{
    Binary, Call, CastType, ColumnValues, Expr, ExprKind, Found, Group, ItemDefault, Keys, MONTHS, Pattern,
    Replacement, Table, TimeItem, TimePart, TimeUnit, Unary, ValueBound, ValueRange, Values, WEEKDAYS, meet, promote,
    stack_dtype, time_items,
};
pub use ops::{
    Access, Along, Annotations, AutoPolicy, Border, BoxFormat, Bucket, Chat, Class, Clip, Corner, CorruptSpans,
    Direction, Edge, FillInMiddle, Function, ImageFormat, ImageMode, Interpolation, Layout, Learn, Logarithm, Loudness,
    MaskTokens, Mel, MelNorm, MelScale, MiddleTokens, Mixing, Op, Pack, Packing, PadTo, PrefixLm, Resample, Role,
    ShuffleWindow, SoundLevel, Spectrogram, Tokenize, Window, image_layout,
};
pub use physical::boundary::{PlacementBoundary, default_boundary};
pub use physical::cache_bypass::CacheBypass;
pub use physical::cache_point::{CacheCandidate, CachePoint};
pub use physical::counting::counts_rows;
pub use physical::op_counters::{OpCounters, OpReport};
pub use physical::op_label::OpLabel;
pub use physical::sizing::Sizing;
pub use physical::source_conditions::SourceCondition;
pub use physical::stages::Stages;
pub use physical::steps::{Batching, FusedOp, Step, TailStep};
pub use reorder::{MeasuredCosts, MeasuredOp, Move, RunOrder};
pub use source::facts::{RowsKnown, SourceFacts};
pub use source::{
    Between, BlobId, Changes, Combined, Combining, CsvDialect, MdsColumn, Merged, Source, SourcePart, Stop,
    WeightsFrom, Wrap,
};
