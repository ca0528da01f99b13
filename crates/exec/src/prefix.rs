//! The part of a pipeline before `cache()`: rows that are kept are taken from where they are, the others are computed, given
//! to whoever else waits for them, and kept.
//!
//! Invariants: a row is the same whether it was found, waited for or computed, and so is what is said of rows that fail:
//! they are not kept, so they fail again. The prefix runs as of epoch 0: what is in it draws nothing, or was
//! frozen. Nothing is waited for while a claim is held; waits end after [`WAIT_MAX`].

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow_array::ArrayRef;
use forebay_cache::{Cache, Computed, DiskStats, Look, PrefixKey, PrefixStats, StoreStats};
use forebay_core::{Epoch, Error, Result, SampleId, Seed, Stopwatch, SystemClock};
use forebay_data::{Chunk, Loss, Memory, RowId, Schema};
use forebay_io::Place;
use forebay_plan::{EpochPlan, OnError, OpSums, Stages, describe};
use forebay_policy::caching::Rent;
use serde_json::{Value, json};

use crate::executable::Environment;
use crate::isolate::Isolation;
use crate::learned::Learned;
use crate::meter::{Given, OpMeter, READ, Slot};
use crate::rows::Rows;
use crate::way::Around;
use crate::work::{Compiled, Scratch};

/// How long a morsel waits in all for rows that others compute, before it computes them itself.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Where a process keeps what `cache()` and `autocache()` keep, and how it finds out what that costs to compute.
#[derive(Clone)]
pub struct Keeping {
    /// The cache.
    pub cache: Arc<Cache>,
    /// Decides what is worth keeping, and nothing else.
    pub watch: Arc<dyn Stopwatch>,
    /// What was found out of pipelines with `autocache()`.
    pub learned: Arc<Learned>,
    /// What the cache's store costs, which `autocache()` reckons with.
    pub rent: Rent,
}

impl Keeping {
    /// Keeps rows in a cache, by the machine's clock.
    pub fn new(cache: Arc<Cache>) -> Self {
        Self { cache, watch: Arc::new(SystemClock::default()), learned: Arc::default(), rent: Rent::default() }
    }
}

/// The ops before `cache()`, and where their rows are kept.
pub(crate) struct Prefix {
    works: Vec<Compiled>,
    schema: Arc<Schema>,
    key: PrefixKey,
    /// The rows of the source.
    rows: u64,
    /// What is kept, for people.
    what: String,
    kept: OnceLock<Kept>,
    memory: Memory,
    /// Where it is counted what finding and keeping cost.
    slot: Slot,
}

struct Kept {
    rows: Arc<forebay_cache::Prefix>,
    watch: Arc<dyn Stopwatch>,
}

/// What the prefix gives for places.
pub(crate) struct Made {
    /// The rows that there are, in the order of their places.
    pub(crate) chunk: Chunk,
    /// The rows that failed, and what is said of those that did not, in the order of their places.
    pub(crate) losses: Vec<Loss>,
    /// The rows that there is no room for, if they go around the place that is kept: as they are before the image op.
    pub(crate) around: Option<Chunk>,
}

/// One question: the rows of a morsel, each named by its place among them from here on.
pub(crate) struct Question<'a> {
    pub(crate) rows: &'a Rows,
    pub(crate) places: &'a [Place],
    pub(crate) on_error: OnError,
    pub(crate) locate: &'a dyn Fn(Error) -> Error,
}

/// What was computed of a question.
#[derive(Default)]
struct Answer {
    rows: Vec<u32>,
    columns: Vec<ArrayRef>,
    /// Rows that a filter removed.
    without: Vec<u32>,
}

impl Prefix {
    /// Prepares the ops before `cache()`, if there is one. Until [`Prefix::open`] all rows are computed, always.
    pub(crate) fn new(
        works: Vec<Compiled>,
        stages: &Stages,
        plan: &EpochPlan,
        environment: &Environment,
        meter: &OpMeter,
    ) -> Option<Self> {
        let (cached, graph) = stages.cached.as_ref().zip(stages.prefix_graph())?;
        let place = stages.graph.nodes().iter().position(|node| node.op.keeps_rows())?;
        let frozen: Option<Seed> = (!stages.frozen().is_empty()).then(|| plan.seed());
        Some(Self {
            works,
            schema: cached.schema.clone(),
            key: PrefixKey::of(&graph, frozen),
            rows: plan.extent().rows.unwrap_or(0),
            what: what(stages),
            kept: OnceLock::new(),
            memory: environment.memory.clone(),
            slot: meter.slot(&[place]),
        })
    }

    /// Keeps its rows from here on, and finds those that are kept.
    pub(crate) fn open(&self, keeping: &Keeping) {
        self.kept.get_or_init(|| Kept {
            rows: keeping.cache.prefix(self.key, &self.schema, self.rows, &self.what),
            watch: keeping.watch.clone(),
        });
    }

    /// Says whether rows that are computed go to the store, too.
    pub(crate) fn store(&self, is_stored: bool) {
        self.kept.get().into_iter().for_each(|kept| kept.rows.store(is_stored));
    }

    pub(crate) fn key(&self) -> PrefixKey {
        self.key
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns what is kept, for people.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn works(&self) -> &[Compiled] {
        &self.works
    }

    /// Says how many of its rows are kept, and what became of those that were asked for.
    pub(crate) fn describe(&self, keeping: &Keeping) -> Value {
        let stats = keeping.cache.stats();
        let Some(own) = stats.prefixes.iter().find(|prefix| prefix.key == self.key) else { return Value::Null };
        let PrefixStats { rows, memory_rows, memory_bytes, disk_rows, peer_rows, store_rows, without, counts, .. } =
            own;
        json!({
            "all": rows,
            "in_memory": memory_rows,
            "memory_bytes": memory_bytes,
            "on_disk": disk_rows,
            "at_peers": peer_rows,
            "in_store": store_rows,
            "filtered": without,
            "found_in_memory": counts.memory_hits,
            "found_on_disk": counts.disk_hits,
            "found_at_peers": counts.peer_hits,
            "found_in_store": counts.store_hits,
            "found_filtered": counts.without_hits,
            "shared": counts.shared,
            "computed": counts.misses,
            "computed_cheaper": counts.cheaper,
            "computed_late": counts.late,
            "unreadable": counts.unreadable,
            "not_stored": counts.store_refused,
            "disk": stats.disk.as_ref().map(of_disk),
            "store": stats.store.as_ref().map(of_store),
        })
    }

    /// Returns what the ops make of rows, wherever that comes from; of rows that there is no room for, what goes `around` the
    /// place, if anything may.
    ///
    /// # Errors
    /// Where no row may be left out, that of a row; whatever is not of a row.
    pub(crate) fn make(&self, question: &Question<'_>, around: Option<&Around>, scratch: &mut Scratch) -> Result<Made> {
        let mut losses = Vec::new();
        let (chunk, around) = match self.kept.get() {
            Some(kept) => self.look(kept, question, around, &mut losses, scratch)?,
            None => {
                let all: Vec<u32> = (0..question.places.len() as u32).collect();
                let Answer { rows, columns, .. } = self.compute(&self.works, question, &all, &mut losses, scratch)?;
                (question.chunk(&self.schema, columns, &rows)?, None)
            }
        };
        losses.sort_by_key(|(row, _)| *row);
        let losses = losses.into_iter().map(|(row, loss)| Loss { row: question.id(row), ..loss }).collect();
        Ok(Made { chunk, losses, around })
    }

    /// Runs the ops on rows that are at hand.
    ///
    /// # Errors
    /// What went wrong with the first of them.
    pub(crate) fn run(&self, chunk: &Chunk, scratch: &mut Scratch) -> Result<Chunk> {
        let frozen = chunk.ids().iter().map(|id| RowId { epoch: Epoch(0), ..*id }).collect();
        let mut done = chunk.with_ids(frozen)?;
        for work in &self.works {
            done = work.run(&done, None, scratch)?;
        }
        // Rows keep their order, but for those that are gone.
        let mut left = chunk.ids().iter();
        let mut own = |id: &RowId| left.find(|own| own.sample == id.sample).copied();
        let ids = done.ids().iter().filter_map(&mut own).collect();
        done.with_ids(ids)
    }

    /// Finds rows, and computes those that nobody has; returns them, and those that go around.
    fn look(
        &self,
        kept: &Kept,
        question: &Question<'_>,
        around: Option<&Around>,
        losses: &mut Vec<(u32, Loss)>,
        scratch: &mut Scratch,
    ) -> Result<(Chunk, Option<Chunk>)> {
        let rows: Vec<u64> = question.places.iter().map(|place| place.row).collect();
        let keys = question.rows.keys(&rows);
        let Look { mut found, mut claim, left } = self.seen(scratch, || match around {
            Some(_) => kept.rows.look_within_room(&keys, &self.memory),
            None => kept.rows.look(&keys, &self.memory),
        });
        let asked = (question.places.len() - left.len()) as u64;
        let mut computed_here = 0;
        let mut around = around.filter(|_| !left.is_empty());
        let mut beside = None;
        loop {
            let began = kept.watch.nanos();
            let computed = match claim.rows() {
                [] => Answer::default(),
                // An error lets the claim go, so that others find out for themselves.
                rows => self.compute(&self.works, question, rows, losses, scratch)?,
            };
            let nanos = kept.watch.nanos() - began;
            let Answer { rows, columns, without } = &computed;
            computed_here += (rows.len() + without.len()) as u64;
            let pending = self.seen(scratch, || claim.fulfil(&Computed { rows, columns, without, nanos }));
            if !rows.is_empty() {
                found.add(rows, columns)?;
            }
            if let Some(around) = around.take() {
                let Answer { rows, columns, .. } = self.compute(&around.before, question, &left, losses, scratch)?;
                beside = Some(question.chunk(&around.schema, columns, &rows)?);
            }
            if pending.is_empty() {
                break;
            }
            let late = pending.wait(WAIT_MAX, &self.memory);
            found.merge(late.found);
            claim = late.claim;
        }
        let rows = found.rows();
        let columns = self.seen(scratch, || found.columns(&self.memory))?;
        let chunk = question.chunk(&self.schema, columns, &rows)?;
        let rows_found = asked.saturating_sub(computed_here);
        let mut sums = OpSums { rows_in: asked, rows_out: rows.len() as u64, rows_found, ..OpSums::default() };
        if scratch.tally.watch().is_some() {
            let bytes = chunk.num_bytes() as u64;
            (sums.timed, sums.bytes_in, sums.bytes_out) = (asked, bytes, bytes);
        }
        scratch.tally.add(self.slot, &sums);
        Ok((chunk, beside))
    }

    /// Counts the time that it takes to find rows, or to keep them.
    fn seen<T>(&self, scratch: &mut Scratch, run: impl FnOnce() -> T) -> T {
        let span = scratch.tally.start();
        let done = run();
        scratch.tally.took(self.slot, span);
        done
    }

    /// Reads rows of a question and runs ops on them.
    fn compute(
        &self,
        works: &[Compiled],
        question: &Question<'_>,
        rows: &[u32],
        losses: &mut Vec<(u32, Loss)>,
        scratch: &mut Scratch,
    ) -> Result<Answer> {
        let mut isolation = Isolation::new(question.on_error, question.locate);
        let frozen = |&row: &u32| Place { row: question.places[row as usize].row, epoch: Epoch(0) };
        let places: Vec<Place> = rows.iter().map(frozen).collect();
        let read = scratch.metered(READ, Given::Places(places.len()), |_| isolation.gather(question.rows, &places));
        let read = read.map_err(question.locate)?.with_losses(Vec::new());
        // A record is of the row as it was asked for, whatever the ops before the cache may know of that.
        let record = |id: RowId| {
            let at = read.ids().iter().position(|own| *own == id)?;
            let row = rows.iter().find(|&&row| question.sample(row) == id.sample)?;
            read.slice(at, 1).with_ids([question.id(*row)].into()).ok()
        };
        let mut isolation = isolation.reading(&record);
        let mut chunk = read.clone();
        for work in works {
            let ran = isolation.run(&chunk, &mut |chunk| work.run(chunk, None, scratch));
            chunk = ran.map_err(question.locate)?;
        }
        let mut answer = Answer { columns: chunk.columns().to_vec(), ..Answer::default() };
        // Rows keep their order, but for those that are gone. One that is asked for twice is there twice, or not at all.
        let mut left = chunk.ids().iter().peekable();
        for &row in rows {
            let sample = question.sample(row);
            if left.next_if(|id| id.sample == sample).is_some() {
                answer.rows.push(row);
            } else if !isolation.has_failed(sample) {
                answer.without.push(row);
            }
        }
        let mut told = isolation.into_losses();
        for &row in rows {
            if told.is_empty() {
                break;
            }
            let (sample, mut failed) = (question.sample(row), false);
            // One that is asked for twice fails twice.
            let mut is_its =
                |loss: &Loss| loss.row.sample == sample && (loss.is_warning() || !std::mem::replace(&mut failed, true));
            losses.extend(told.extract_if(.., |loss| is_its(loss)).map(|loss| (row, loss)));
        }
        Ok(answer)
    }
}

impl Question<'_> {
    fn sample(&self, row: u32) -> SampleId {
        self.rows.sample(self.places[row as usize].row)
    }

    fn id(&self, row: u32) -> RowId {
        RowId { sample: self.sample(row), epoch: self.places[row as usize].epoch }
    }

    /// Returns the names of all rows, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = RowId> {
        (0..self.places.len() as u32).map(|row| self.id(row))
    }

    fn chunk(&self, schema: &Arc<Schema>, columns: Vec<ArrayRef>, rows: &[u32]) -> Result<Chunk> {
        Chunk::new(schema.clone(), columns, rows.iter().map(|&row| self.id(row)).collect())
    }
}

/// Says whether the folder can be used, for people.
fn of_disk(disk: &DiskStats) -> Value {
    json!({
        "bytes": disk.tier.bytes,
        "quota": disk.tier.quota,
        "not_written": disk.stopped,
        "corrupt_blocks": disk.corrupt_blocks,
    })
}

/// Says whether the store can be used, for people.
fn of_store(store: &StoreStats) -> Value {
    json!({
        "url": store.uri,
        "bytes": store.tier.bytes,
        "not_read": store.unread,
        "not_written": store.unwritten.as_ref().or(store.refused.as_ref()),
        "full": store.full,
        "corrupt_blocks": store.corrupt_blocks,
    })
}

/// Says what is kept, for people.
fn what(stages: &Stages) -> String {
    let ops: Vec<_> = stages.prefix().iter().flat_map(|w| w.steps()).map(|s| describe(&s.node.op)).collect();
    let source = &stages.source;
    let ops = if ops.is_empty() { "rows".to_owned() } else { ops.join(" -> ") };
    format!("{ops} of {}({})", source.name(), source.describe())
}
