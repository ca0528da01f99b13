//! Rows that bypass a full cache, and their merge with cached rows.
//!
//! Such a morsel has two branches: cached rows, whose images are decoded, and rows that bypass the cache
//! ([`CacheBypass`]), as they were read. Each branch has its own chain of image ops. Both write into one column, so no
//! image is copied to restore the order.
//!
//! Invariant: a row has the same bits in either branch.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow_array::{Array, ArrayRef};
use forebay_cache::Found;
use forebay_core::{Error, Result};
use forebay_data::{Chunk, Memory, RowId, Schema};
use forebay_plan::{CacheBypass, EpochPlan, FusedOp, OpCounters};

use crate::executable::environment::Environment;
use crate::ops::compiled_op::{CompiledOp, compile};
use crate::ops::image::image_op::FusedImageOp;
use crate::ops::image::rows::Images;
use crate::ops::scratch::Scratch;
use crate::profile::op_meter::{OpMeter, OpSlot};
use crate::threads::preemption::own_nanos;

/// The ops for a row that bypasses a full cache: see [`CacheBypass`].
pub(crate) struct CompiledBypass {
    /// The ops before the fused image op.
    pub(crate) before: Vec<CompiledOp>,
    /// The columns after these ops.
    pub(crate) schema: Arc<Schema>,
    /// The image op, fused across the cache point.
    pub(crate) image: FusedImageOp,
    /// Counts the cost of the image op.
    pub(crate) slot: OpSlot,
    /// The number of ops between the cache point and the image op of cached rows.
    pub(crate) between: usize,
}

impl CompiledBypass {
    /// Compiles the ops of a bypass; `input` are the columns of the source.
    ///
    /// # Errors
    /// As [`CompiledOp::new`].
    pub(crate) fn new(
        bypass: &CacheBypass,
        input: &Arc<Schema>,
        plan: &EpochPlan,
        environment: &Environment,
        meter: &OpMeter,
    ) -> Result<Self> {
        let before = compile(&bypass.before, input, plan, environment, meter)?;
        let schema = before.last().map_or(input, CompiledOp::schema).clone();
        let FusedOp::Image { column, steps } = &bypass.image else {
            return Err(Error::internal("a cache bypass has an image op"));
        };
        let image = FusedImageOp::new(column, steps, &schema, plan.seed(), environment.memory.clone())?;
        Ok(Self { before, schema, image, slot: meter.slot_of(&bypass.image), between: bypass.between })
    }
}

/// The rows of one branch, and the image op that runs on them.
pub(crate) struct Branch<'a> {
    pub(crate) op: &'a FusedImageOp,
    /// Counts the cost of the op.
    pub(crate) slot: OpSlot,
    pub(crate) chunk: &'a Chunk,
}

/// The rows of both branches, in order. See the module's documentation.
pub(crate) struct BypassMerge<'a> {
    ops: [&'a FusedImageOp; 2],
    slots: [OpSlot; 2],
    images: [Images<'a>; 2],
    /// The branch of a row's image, and the row's index there.
    places: HashMap<RowId, (usize, usize)>,
    /// The other columns of all rows.
    others: Chunk,
}

impl<'a> BypassMerge<'a> {
    /// Puts the rows of both branches in the order of `ids`, which may name other rows, too.
    ///
    /// # Errors
    /// Internal when the branches differ in another column than the image.
    pub(crate) fn new(
        branches: &'a [Branch<'a>; 2],
        ids: impl Iterator<Item = RowId>,
        memory: &Memory,
    ) -> Result<Self> {
        let mut rows: [Vec<u32>; 2] = Default::default();
        let mut places = HashMap::new();
        let mut all = Vec::new();
        for id in ids {
            // A row that the morsel has twice may be in both branches, with the same bits.
            let next = |branch: &usize| branches[*branch].chunk.ids().get(rows[*branch].len()) == Some(&id);
            let Some(branch) = [0, 1].iter().copied().find(next) else { continue };
            places.insert(id, (branch, rows[branch].len()));
            rows[branch].push(all.len() as u32);
            all.push(id);
        }
        let column = branches[0].op.column();
        let others = |chunk: &Chunk| {
            let names = chunk.schema().fields().iter().map(|field| &field.name).filter(|name| *name != column);
            chunk.project(&names.cloned().collect::<Vec<_>>())
        };
        let (first, second) = (others(branches[0].chunk)?, others(branches[1].chunk)?);
        let mut found = Found::new(first.schema());
        found.add(&rows[0], first.columns())?;
        found.add(&rows[1], second.columns())?;
        let others = Chunk::new(first.schema().clone(), found.columns(memory)?, all.into())?;
        let [one, two] = branches;
        let images = [one.op.images(one.chunk)?, two.op.images(two.chunk)?];
        Ok(Self { ops: [one.op, two.op], slots: [one.slot, two.slot], images, places, others })
    }

    /// Returns all rows, without the images.
    pub(crate) fn others(&self) -> &Chunk {
        &self.others
    }

    /// Runs each branch's image op for some rows of [`BypassMerge::others`].
    ///
    /// # Errors
    /// The error of a row, with the op and the sample.
    pub(crate) fn run(&self, others: &Chunk, scratch: &mut Scratch) -> Result<Chunk> {
        let ids = others.ids();
        let [first, _] = self.ops;
        let watch = scratch.tally.watch();
        let costs: [BranchCost; 2] = Default::default();
        let column = first.make(ids.len(), scratch, &|row, scratch, out| {
            let place = self.places.get(&ids[row]);
            let &(branch, at) = place.ok_or_else(|| Error::internal("a row that is in no branch"))?;
            let began = watch.as_ref().map(|watch| own_nanos(&**watch));
            let made = self.ops[branch].row(&self.images[branch], at, ids[row], scratch, out);
            costs[branch]
                .add(watch.as_ref().zip(began).map(|(watch, began)| own_nanos(&**watch).saturating_sub(began)));
            made
        })?;
        let bytes = column.to_data().get_slice_memory_size().unwrap_or(0) as u64;
        for (slot, cost) in self.slots.iter().zip(&costs) {
            scratch.tally.add(*slot, &cost.counters(watch.is_some(), bytes / ids.len().max(1) as u64));
        }
        let schema: &Arc<Schema> = first.schema();
        let of = |name: &str| if name == first.column() { Ok(&column) } else { others.column(name) };
        let columns: Vec<ArrayRef> =
            schema.fields().iter().map(|field| of(&field.name).cloned()).collect::<Result<_>>()?;
        Chunk::new(schema.clone(), columns, ids.into())
    }
}

/// The cost of one branch on all threads.
#[derive(Default)]
struct BranchCost {
    rows: AtomicU64,
    nanos: AtomicU64,
}

impl BranchCost {
    fn add(&self, nanos: Option<u64>) {
        self.rows.fetch_add(1, Relaxed);
        self.nanos.fetch_add(nanos.unwrap_or(0), Relaxed);
    }

    /// `bytes` is the size of a row of output. The size of the input is not counted, because the branches differ in it.
    fn counters(&self, is_timed: bool, bytes: u64) -> OpCounters {
        let rows = self.rows.load(Relaxed);
        let timed = if is_timed { rows } else { 0 };
        let nanos = self.nanos.load(Relaxed);
        OpCounters { rows_in: rows, rows_out: rows, timed, nanos, bytes_out: bytes * timed, ..OpCounters::default() }
    }
}
