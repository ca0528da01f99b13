//! The pipeline graph, its schema, its optimiser and the epoch plan: what to compute, never how or where.
//!
//! ```text
//! Graph (as written, checked)  ->  RunOrder (in which order its ops run)
//!                              ->  Stages (what runs in a split, what after the merge)
//!                              ->  EpochPlan (which rows, in which order, in which split)
//! ```
//!
//! Invariants: nothing here does I/O or holds a clock; every function gives the same answer on every machine;
//! nothing depends on the number of workers or threads.

mod bucket;
mod cache;
mod cache_bypass;
mod cut;
mod ending;
mod epoch;
mod explain;
mod expr;
mod graph;
mod image;
mod lane_order;
mod lanes;
mod mix;
mod on_error;
mod op;
mod op_counters;
mod op_label;
mod order;
mod permute;
mod projection;
mod reorder;
mod sharding;
mod sizing;
mod source;
mod stages;
mod text;
mod window;

pub use bucket::{Bucket, PadTo};
pub use cache::{Cached, Candidate};
pub use cache_bypass::CacheBypass;
pub use cut::{Cut, usual as usual_cut};
pub use ending::{Count, Ending, Floor};
pub use epoch::{EpochPlan, Extent, Morsel};
pub use explain::{describe, explain};
pub use expr::{
    Binary, CastType, ColumnValues, Expr, ExprKind, Unary, ValueBound, ValueRange, meet, promote, stack_dtype,
};
pub use graph::{Graph, Node, Site};
pub use image::image_layout;
pub use lane_order::LaneWindow;
pub use lanes::{EpochLanes, Layout as LaneLayout, Piece};
pub use on_error::OnError;
pub use op::{Class, Direction, Function, ImageMode, Interpolation, Layout, Mixing, Op};
pub use op_counters::{OpCounters, OpReport};
pub use op_label::OpLabel;
pub use order::{Blocks, Order};
pub use permute::Permutation;
pub use reorder::{Chosen, Figures, Move, OpFigures, Reorder, RunOrder};
pub use sharding::Sharding;
pub use sizing::Sizing;
pub use source::{BlobId, MdsColumn, Merged, Source, Wrap};
pub use stages::{Batching, Stages, Step, TailStep, Work};
pub use text::{Pack, Packing, Tokenize};
pub use window::{STREAMED_AT_ONCE, ShuffleWindow};
