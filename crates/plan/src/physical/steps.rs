//! One op where it runs, ops that are fused, and ops on the merged stream.

use std::sync::Arc;

use forebay_data::Schema;

use crate::graph::Node;
use crate::ops::{Class, Op};

/// One op where it runs.
#[derive(Debug, Clone)]
pub struct Step {
    /// The op as written, over the columns that were read.
    pub node: Arc<Node>,
    /// Its index among all ops as written.
    pub place: usize,
    /// Its number among the random ops as written. It identifies the random stream, wherever the op runs.
    pub random: u64,
    /// The columns after it.
    pub schema: Arc<Schema>,
    /// Whether it is called once for each batch.
    pub per_batch: bool,
}

/// One op, or several fused ops, that a thread runs in one pass.
#[derive(Debug, Clone)]
pub enum FusedOp {
    /// Consecutive ops on one image column, fused.
    Image {
        /// The column.
        column: String,
        /// The ops.
        steps: Vec<Step>,
    },
    /// A vectorised op on columns.
    Table(Step),
    /// Converts text or chats to token ids.
    Tokenize(Step),
    /// An op on sound or on spectra.
    Audio(Step),
    /// Makes of token ids what a model trains on, at random.
    TrainingForm(Step),
    /// A user's Python function.
    Function(Step),
    /// A user's Python function that makes any number of rows of a row.
    FlatMap(Step),
    /// The number of a row in the epoch.
    Number(Step),
    /// Mixes samples within their batch.
    Mix(Step),
    /// Lists of a batch padded to one length, or checked to have one.
    Pad(Step),
}

impl FusedOp {
    /// Makes a fused op of one step.
    pub fn of(step: Step) -> Self {
        match (step.node.op.image_column(), step.node.op.function()) {
            (Some(column), _) => FusedOp::Image { column: column.to_owned(), steps: vec![step] },
            (None, Some(_)) if matches!(step.node.op, Op::FlatMap(_)) => FusedOp::FlatMap(step),
            (None, Some(_)) => FusedOp::Function(step),
            (None, None) if matches!(step.node.op, Op::Enumerate(_)) => FusedOp::Number(step),
            (None, None) if step.node.op.needs_batch() => FusedOp::Mix(step),
            (None, None) if step.node.op.is_audio() => FusedOp::Audio(step),
            (None, None) if matches!(step.node.op, Op::Tokenize(_) | Op::Chat(_)) => FusedOp::Tokenize(step),
            (None, None) if step.node.op.is_training_form() => FusedOp::TrainingForm(step),
            (None, None) if matches!(step.node.op, Op::PaddedBatch(_) | Op::Batch(_)) && step.per_batch => {
                FusedOp::Pad(step)
            }
            (None, None) => FusedOp::Table(step),
        }
    }

    /// Returns whether it makes several rows of one.
    pub fn makes_rows(&self) -> bool {
        self.steps().iter().any(|step| step.node.op.class() == Class::Expand)
    }

    /// Returns its steps.
    pub fn steps(&self) -> &[Step] {
        match self {
            FusedOp::Image { steps, .. } => steps,
            FusedOp::Table(step)
            | FusedOp::Tokenize(step)
            | FusedOp::Audio(step)
            | FusedOp::TrainingForm(step)
            | FusedOp::Function(step)
            | FusedOp::FlatMap(step)
            | FusedOp::Number(step)
            | FusedOp::Mix(step)
            | FusedOp::Pad(step) => std::slice::from_ref(step),
        }
    }
}

/// An op on the merged, ordered stream of one consumer.
#[derive(Debug, Clone)]
pub enum TailStep {
    /// Puts the rows of datasets together that are mixed as they come. It is the first step.
    Mix,
    /// Row ops.
    RowOps(FusedOp),
    /// Keeps the first rows only.
    Take(u64),
    /// Leaves out the first rows.
    Skip(u64),
    /// Keeps every `count`-th row, from `index`.
    Shard {
        /// The number of shards.
        count: u64,
        /// The shard, from 0.
        index: u64,
    },
    /// Packs token lists into rows of one length; later ops process these rows.
    Pack(Step),
    /// Makes batches of rows of about the same length, or of one key; later ops process whole batches.
    Bucket(Step),
    /// Makes batches; later ops process whole batches.
    Batch(Batching),
}

/// How rows are grouped into batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// Rows in a batch.
    pub size: usize,
    /// Whether a short last batch is dropped.
    pub drop_remainder: bool,
}
