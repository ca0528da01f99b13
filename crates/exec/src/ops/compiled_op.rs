//! One fused op of a plan, ready to run on a chunk: fused image ops, a vectorised op on columns, tokenization, an op on
//! sound, a training form of ids, a user's function of either kind, or a mixing or padding of batches.

use std::sync::Arc;

use forebay_core::{Result, Seed};
use forebay_data::{Chunk, Schema};
use forebay_plan::{EpochPlan, FusedOp, Op, Step};

use crate::executable::environment::Environment;
use crate::ops::audio_op::AudioOp;
use crate::ops::batches::each_batch;
use crate::ops::enumerate_op::numbered;
use crate::ops::flat_map_op::FlatMapOp;
use crate::ops::function_op::FunctionOp;
use crate::ops::image::image_op::FusedImageOp;
use crate::ops::mix_op::MixOp;
use crate::ops::mosaic_op::MosaicOp;
use crate::ops::pad_op::PadOp;
use crate::ops::scratch::Scratch;
use crate::profile::op_meter::{MeterInput, OpMeter, OpSlot};
use crate::table;
use crate::tokenize::{ChatOp, TokenizeOp};
use crate::training_forms::TrainingFormOp;

/// A fused op, ready to run.
pub(crate) struct CompiledOp {
    pub(crate) kernel: Kernel,
    /// Counts its cost.
    pub(crate) slot: OpSlot,
}

pub(crate) enum Kernel {
    Image(FusedImageOp),
    Table(Step),
    Tokenize(Box<TokenizeOp>),
    Audio(Box<AudioOp>),
    Chat(Box<ChatOp>),
    TrainingForm(TrainingFormOp),
    Function(FunctionOp),
    FlatMap(FlatMapOp),
    Number(Step),
    Mix(MixOp),
    Mosaic(MosaicOp),
    Pad(PadOp),
}

impl CompiledOp {
    pub(crate) fn new(
        fused: &FusedOp,
        input: &Arc<Schema>,
        seed: Seed,
        env: &Environment,
        meter: &OpMeter,
    ) -> Result<Self> {
        let kernel = match fused {
            FusedOp::Image { column, steps } => {
                Kernel::Image(FusedImageOp::new(column, steps, input, seed, env.memory.clone())?)
            }
            FusedOp::Table(step) => Kernel::Table(step.clone()),
            FusedOp::Tokenize(step) if matches!(step.node.op, Op::Chat(_)) => {
                Kernel::Chat(Box::new(ChatOp::new(step, env.blobs.as_ref())?))
            }
            FusedOp::TrainingForm(step) => Kernel::TrainingForm(TrainingFormOp::new(step, seed)),
            FusedOp::Tokenize(step) => Kernel::Tokenize(Box::new(TokenizeOp::new(step, env.blobs.as_ref())?)),
            FusedOp::Audio(step) => Kernel::Audio(Box::new(AudioOp::new(step, seed, env.memory.clone()))),
            FusedOp::Function(step) => Kernel::Function(FunctionOp::new(step, seed, env)?),
            FusedOp::FlatMap(step) => Kernel::FlatMap(FlatMapOp::new(step, seed, env)?),
            FusedOp::Number(step) => Kernel::Number(step.clone()),
            FusedOp::Mix(step) if matches!(step.node.op, Op::Mosaic(_)) => Kernel::Mosaic(MosaicOp::new(step, seed)),
            FusedOp::Mix(step) => Kernel::Mix(MixOp::new(step, seed)),
            FusedOp::Pad(step) => Kernel::Pad(PadOp::new(step, env.memory.clone())),
        };
        Ok(Self { kernel, slot: meter.slot_of(fused) })
    }

    /// Returns the columns after it.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        match &self.kernel {
            Kernel::Image(op) => op.schema(),
            Kernel::Table(step) | Kernel::Number(step) => &step.schema,
            Kernel::Tokenize(op) => op.schema(),
            Kernel::Audio(op) => op.schema(),
            Kernel::Chat(op) => op.schema(),
            Kernel::TrainingForm(op) => op.schema(),
            Kernel::Function(op) => op.schema(),
            Kernel::FlatMap(op) => op.schema(),
            Kernel::Mix(op) => &op.step.schema,
            Kernel::Mosaic(op) => &op.step.schema,
            Kernel::Pad(op) => &op.step.schema,
        }
    }

    /// Runs it; `batch` is the batch size for a per-batch op.
    pub(crate) fn run(&self, chunk: &Chunk, batch: Option<usize>, scratch: &mut Scratch) -> Result<Chunk> {
        scratch.metered(self.slot, MeterInput::Chunk(chunk), |scratch| self.kernel.run(chunk, batch, scratch))
    }
}

impl Kernel {
    fn run(&self, chunk: &Chunk, batch: Option<usize>, scratch: &mut Scratch) -> Result<Chunk> {
        match self {
            Kernel::Image(op) => op.run(chunk, scratch),
            Kernel::Table(step) => table::apply(&step.node.op, chunk, &step.schema).map_err(|e| step.node.blame(e)),
            Kernel::Tokenize(op) => op.run(chunk),
            Kernel::Audio(op) => op.run(chunk, scratch),
            Kernel::Chat(op) => op.run(chunk),
            Kernel::TrainingForm(op) => op.run(chunk),
            Kernel::Function(op) => op.run(chunk, batch),
            Kernel::FlatMap(op) => op.run(chunk),
            // Rows that no morsel has, such as the record of a skipped one, have no place in an epoch.
            Kernel::Number(step) => numbered(chunk, step, &vec![0; chunk.num_rows()]),
            Kernel::Pad(op) => each_batch(chunk, batch, |batch| op.run(batch)).map_err(|e| op.step.node.blame(e)),
            Kernel::Mix(op) => each_batch(chunk, batch, |batch| op.run(batch)).map_err(|e| op.step.node.blame(e)),
            Kernel::Mosaic(op) => each_batch(chunk, batch, |batch| op.run(batch)).map_err(|e| op.step.node.blame(e)),
        }
    }
}

/// Compiles a run of fused ops; `input` are the columns before the first.
pub(crate) fn compile(
    fused_ops: &[FusedOp],
    input: &Arc<Schema>,
    plan: &EpochPlan,
    environment: &Environment,
    meter: &OpMeter,
) -> Result<Vec<CompiledOp>> {
    let mut schema = input.clone();
    let compile = |fused| {
        let op = CompiledOp::new(fused, &schema, plan.seed(), environment, meter)?;
        schema = op.schema().clone();
        Ok(op)
    };
    fused_ops.iter().map(compile).collect()
}
