//! The ops before the cache point: cached rows are read from the cache, the others are computed, passed to the threads
//! and processes that wait for them, and cached.
//!
//! Invariants: a row is the same whether it was found, waited for or computed. Rows that fail are not cached, so they
//! fail again with the same error. The prefix runs as of epoch 0: its ops draw no random numbers, or were frozen. A
//! thread waits for no row while it holds a claim; a wait ends after [`WAIT_MAX`].

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow_array::ArrayRef;
use forebay_cache::{Computed, Look, PrefixKey};
use forebay_core::{Epoch, Error, Result, SampleId, Seed, Stopwatch, WaitsFor, waiting};
use forebay_data::{Chunk, Loss, Memory, RowId, Schema};
use forebay_io::Place;
use forebay_plan::{EpochPlan, OnError, OpCounters, Stages, describe};

use crate::cached::bypass::CompiledBypass;
use crate::cached::context::CacheContext;
use crate::executable::environment::Environment;
use crate::executable::row_source::RowSource;
use crate::ops::compiled_op::CompiledOp;
use crate::ops::scratch::Scratch;
use crate::profile::op_meter::{MeterInput, OpMeter, OpSlot, READ};
use crate::skip::isolation::Isolation;
use crate::threads::preemption::own_nanos;

/// How long a morsel waits in total for rows that others compute, before it computes them itself.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The ops before the cache point, and the cache of their rows.
pub(crate) struct Prefix {
    ops: Vec<CompiledOp>,
    schema: Arc<Schema>,
    key: PrefixKey,
    /// The number of rows of the source.
    rows: u64,
    /// The ops and the source, as text.
    title: String,
    cache: OnceLock<OpenCache>,
    memory: Memory,
    /// Counts the cost of lookups and of caching rows.
    slot: OpSlot,
}

struct OpenCache {
    rows: Arc<forebay_cache::Prefix>,
    watch: Arc<dyn Stopwatch>,
}

/// The result of a [`RowQuery`].
pub(crate) struct PrefixOutput {
    /// The rows after the prefix, in the order of their places; without rows that were filtered out, failed or bypass.
    pub(crate) chunk: Chunk,
    /// The rows that failed, and warnings about others, in the order of their places.
    pub(crate) losses: Vec<Loss>,
    /// The rows that bypass the full cache, as they are before the fused image op.
    pub(crate) bypassing: Option<Chunk>,
}

/// The rows of one morsel. Below, a row is named by its index among `places`.
pub(crate) struct RowQuery<'a> {
    pub(crate) rows: &'a RowSource,
    pub(crate) places: &'a [Place],
    pub(crate) on_error: OnError,
    pub(crate) locate: &'a dyn Fn(Error) -> Error,
}

/// The rows of a query that this thread has computed.
#[derive(Default)]
struct ComputedRows {
    rows: Vec<u32>,
    columns: Vec<ArrayRef>,
    /// Rows that a filter removed.
    filtered_out: Vec<u32>,
}

impl Prefix {
    /// Prepares the ops before the cache point; `None` without one. Until [`Prefix::open`] every row is computed.
    pub(crate) fn new(
        ops: Vec<CompiledOp>,
        stages: &Stages,
        plan: &EpochPlan,
        environment: &Environment,
        meter: &OpMeter,
    ) -> Option<Self> {
        let (cached, graph) = stages.cached.as_ref().zip(stages.prefix_graph())?;
        let place = stages.graph.nodes().iter().position(|node| node.op.is_cache_point())?;
        let frozen: Option<Seed> = (!stages.frozen().is_empty()).then(|| plan.seed());
        Some(Self {
            ops,
            schema: cached.schema.clone(),
            key: PrefixKey::of(&graph, frozen),
            rows: plan.extent().rows.unwrap_or(0),
            title: title(stages),
            cache: OnceLock::new(),
            memory: environment.memory.clone(),
            slot: meter.slot(&[place]),
        })
    }

    /// Opens the cache for its rows: from now on rows are cached, and cached rows are found.
    pub(crate) fn open(&self, context: &CacheContext) {
        self.cache.get_or_init(|| OpenCache {
            rows: context.cache.prefix(self.key, &self.schema, self.rows, &self.title),
            watch: context.watch.clone(),
        });
    }

    /// Sets whether computed rows go to the store, too.
    pub(crate) fn store(&self, is_stored: bool) {
        self.cache.get().into_iter().for_each(|cache| cache.rows.store(is_stored));
    }

    pub(crate) fn key(&self) -> PrefixKey {
        self.key
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns the ops and the source, as text.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    pub(crate) fn ops(&self) -> &[CompiledOp] {
        &self.ops
    }

    /// Returns the output of the prefix for these rows, cached or computed. Given a bypass, rows that the cache has no
    /// room for are returned as they are before the fused image op.
    ///
    /// # Errors
    /// The error of a row, where no row may be skipped; any error that is not of a row.
    pub(crate) fn output(
        &self,
        query: &RowQuery<'_>,
        bypass: Option<&CompiledBypass>,
        scratch: &mut Scratch,
    ) -> Result<PrefixOutput> {
        let mut losses = Vec::new();
        let (chunk, bypassing) = match self.cache.get() {
            Some(cache) => self.find_or_compute(cache, query, bypass, &mut losses, scratch)?,
            None => {
                let all: Vec<u32> = (0..query.places.len() as u32).collect();
                let ComputedRows { rows, columns, .. } = self.compute(&self.ops, query, &all, &mut losses, scratch)?;
                (query.chunk(&self.schema, columns, &rows)?, None)
            }
        };
        losses.sort_by_key(|(row, _)| *row);
        let losses = losses.into_iter().map(|(row, loss)| Loss { row: query.id(row), ..loss }).collect();
        Ok(PrefixOutput { chunk, losses, bypassing })
    }

    /// Runs the ops on given rows.
    ///
    /// # Errors
    /// The error of the first row that fails.
    pub(crate) fn run(&self, chunk: &Chunk, scratch: &mut Scratch) -> Result<Chunk> {
        let frozen = chunk.ids().iter().map(|id| RowId { epoch: Epoch(0), ..*id }).collect();
        let mut done = chunk.with_ids(frozen)?;
        for op in &self.ops {
            done = op.run(&done, None, scratch)?;
        }
        // Filters remove rows, and no op changes their order.
        let mut left = chunk.ids().iter();
        let mut own = |id: &RowId| left.find(|own| own.sample == id.sample).copied();
        let ids = done.ids().iter().filter_map(&mut own).collect();
        done.with_ids(ids)
    }

    /// Looks rows up, and computes rows that no thread or process has; returns all of them, and the rows that bypass.
    fn find_or_compute(
        &self,
        cache: &OpenCache,
        query: &RowQuery<'_>,
        bypass: Option<&CompiledBypass>,
        losses: &mut Vec<(u32, Loss)>,
        scratch: &mut Scratch,
    ) -> Result<(Chunk, Option<Chunk>)> {
        let rows: Vec<u64> = query.places.iter().map(|place| place.row).collect();
        let keys = query.rows.keys(&rows);
        let Look { mut found, mut claim, left } = self.timed(scratch, || match bypass {
            Some(_) => cache.rows.look_within_room(&keys, &self.memory),
            None => cache.rows.look(&keys, &self.memory),
        });
        let asked = (query.places.len() - left.len()) as u64;
        let mut computed_here = 0;
        let mut bypass = bypass.filter(|_| !left.is_empty());
        let mut bypassing = None;
        loop {
            let began = own_nanos(&*cache.watch);
            let computed = match claim.rows() {
                [] => ComputedRows::default(),
                // An error drops the claim, so that the threads that wait compute the rows themselves.
                rows => self.compute(&self.ops, query, rows, losses, scratch)?,
            };
            let nanos = own_nanos(&*cache.watch).saturating_sub(began);
            let ComputedRows { rows, columns, filtered_out } = &computed;
            computed_here += (rows.len() + filtered_out.len()) as u64;
            let pending = self.timed(scratch, || claim.fulfil(&Computed { rows, columns, filtered_out, nanos }));
            if !rows.is_empty() {
                found.add(rows, columns)?;
            }
            if let Some(bypass) = bypass.take() {
                let ComputedRows { rows, columns, .. } = self.compute(&bypass.before, query, &left, losses, scratch)?;
                bypassing = Some(query.chunk(&bypass.schema, columns, &rows)?);
            }
            if pending.is_empty() {
                break;
            }
            // The thread that computes them may wait for its turn, and this thread could have it.
            let late = waiting(WaitsFor::Thread, || pending.wait(WAIT_MAX, &self.memory));
            found.merge(late.found);
            claim = late.claim;
        }
        let rows = found.rows();
        let columns = self.timed(scratch, || found.columns(&self.memory))?;
        let chunk = query.chunk(&self.schema, columns, &rows)?;
        let rows_found = asked.saturating_sub(computed_here);
        let mut counters = OpCounters { rows_in: asked, rows_out: rows.len() as u64, rows_found, ..Default::default() };
        if scratch.tally.watch().is_some() {
            let bytes = chunk.num_bytes() as u64;
            (counters.timed, counters.bytes_in, counters.bytes_out) = (asked, bytes, bytes);
        }
        scratch.tally.add(self.slot, &counters);
        Ok((chunk, bypassing))
    }

    /// Counts the time of a lookup, or of caching rows.
    fn timed<T>(&self, scratch: &mut Scratch, run: impl FnOnce() -> T) -> T {
        let timer = scratch.tally.start();
        let done = run();
        scratch.tally.took(self.slot, timer);
        done
    }

    /// Reads rows of a query and runs ops on them.
    fn compute(
        &self,
        ops: &[CompiledOp],
        query: &RowQuery<'_>,
        rows: &[u32],
        losses: &mut Vec<(u32, Loss)>,
        scratch: &mut Scratch,
    ) -> Result<ComputedRows> {
        let mut isolation = Isolation::new(query.on_error, query.locate);
        let frozen = |&row: &u32| Place { row: query.places[row as usize].row, epoch: Epoch(0) };
        let places: Vec<Place> = rows.iter().map(frozen).collect();
        let read = scratch.metered(READ, MeterInput::Places(places.len()), |_| isolation.gather(query.rows, &places));
        let read = read.map_err(query.locate)?.with_losses(Vec::new());
        // A record has the epoch of the query, although the ops of the prefix saw epoch 0.
        let record = |id: RowId| {
            let at = read.ids().iter().position(|own| *own == id)?;
            let row = rows.iter().find(|&&row| query.sample(row) == id.sample)?;
            read.slice(at, 1).with_ids([query.id(*row)].into()).ok()
        };
        let mut isolation = isolation.reading(&record);
        let mut chunk = read.clone();
        for op in ops {
            let ran = isolation.run(&chunk, &mut |chunk| op.run(chunk, None, scratch));
            chunk = ran.map_err(query.locate)?;
        }
        let mut computed = ComputedRows { columns: chunk.columns().to_vec(), ..ComputedRows::default() };
        // Filters remove rows, and no op changes their order. A row that a query has twice is in the result twice or
        // not at all.
        let mut left = chunk.ids().iter().peekable();
        for &row in rows {
            let sample = query.sample(row);
            if left.next_if(|id| id.sample == sample).is_some() {
                computed.rows.push(row);
            } else if !isolation.has_failed(RowId { sample, epoch: Epoch(0) }) {
                computed.filtered_out.push(row);
            }
        }
        let mut own_losses = isolation.into_losses();
        for &row in rows {
            if own_losses.is_empty() {
                break;
            }
            let (sample, mut failed) = (query.sample(row), false);
            // A row that a query has twice fails twice.
            let mut is_its =
                |loss: &Loss| loss.row.sample == sample && (loss.is_warning() || !std::mem::replace(&mut failed, true));
            losses.extend(own_losses.extract_if(.., |loss| is_its(loss)).map(|loss| (row, loss)));
        }
        Ok(computed)
    }
}

impl RowQuery<'_> {
    fn sample(&self, row: u32) -> SampleId {
        self.rows.sample(self.places[row as usize].row)
    }

    fn id(&self, row: u32) -> RowId {
        RowId { sample: self.sample(row), epoch: self.places[row as usize].epoch }
    }

    /// Returns the ids of all rows, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = RowId> {
        (0..self.places.len() as u32).map(|row| self.id(row))
    }

    fn chunk(&self, schema: &Arc<Schema>, columns: Vec<ArrayRef>, rows: &[u32]) -> Result<Chunk> {
        Chunk::new(schema.clone(), columns, rows.iter().map(|&row| self.id(row)).collect())
    }
}

/// Returns the ops before the cache point and their source, as text.
fn title(stages: &Stages) -> String {
    let ops: Vec<_> = stages.prefix().iter().flat_map(|w| w.steps()).map(|s| describe(&s.node.op)).collect();
    let source = &stages.source;
    let ops = if ops.is_empty() { "rows".to_owned() } else { ops.join(" -> ") };
    format!("{ops} of {}({})", source.name(), source.describe())
}
