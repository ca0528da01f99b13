//! A pipeline ready to run on this machine: morsels in, chunks out.
//!
//! Where a service cuts the pipeline in two, a worker's executable ends at any of the places where that may be, and a reader's goes on
//! from there. Invariants: a morsel's chunks depend on (pipeline, seed, epoch, consumer, morsel) alone, and on the cut only until
//! they are finished; an error names the op, the user's line and the sample; one executable is shared by every thread that runs it.

mod block;
mod told;

use std::sync::Arc;

use forebay_core::{ConsumerIndex, Epoch, Error, Fault, Result, SampleId, Stopwatch};
use forebay_data::{Chunk, Memory, RowId, Schema};
use forebay_io::{Blobs, Place, ROWS_IN_BLOCK, SourceIndex};
use forebay_plan::{Cut, EpochPlan, Morsel, OnError, Stages, usual_cut};

use crate::auto::{Auto, Sample};
use crate::functions::Functions;
use crate::isolate::{Isolation, Known};
use crate::meeting::{Meeting, Side};
use crate::meter::{Given, OpMeter, READ};
use crate::nearby::Nearby;
use crate::prefix::{Keeping, Question};
use crate::rows::Rows;
use crate::way::Way;
use crate::work::{Compiled, Kernel, Scratch};

/// What a pipeline needs from the process that runs it.
#[derive(Clone)]
pub struct Environment {
    /// The arrays and pickles that travel with a graph.
    pub blobs: Arc<dyn Blobs>,
    /// Runs users' Python.
    pub functions: Arc<dyn Functions>,
    /// Where large columns are made.
    pub memory: Memory,
    /// Keeps what is before `cache()` and `autocache()`. Without it, that is computed always; the rows are the same.
    pub keeping: Option<Keeping>,
    /// Times ops, and nothing else.
    pub watch: Arc<dyn Stopwatch>,
}

/// A pipeline over its source, ready to run.
pub struct Executable {
    stages: Arc<Stages>,
    plan: Arc<EpochPlan>,
    index: Option<SourceIndex>,
    rows: Option<Rows>,
    /// What remote files are read through.
    near: Option<Nearby>,
    /// How rows are computed, unless `autocache()` chose another way.
    way: Way,
    auto: Option<Auto>,
    /// Where it ends, the earliest first; at a reader, where it begins.
    stops: Vec<Stop>,
    /// Where it ends if nobody says.
    usual: usize,
    schema: Arc<Schema>,
    environment: Environment,
    meter: Arc<OpMeter>,
}

/// Where chunks are handed from a worker to a reader: so many row ops have run on them, and these are their columns.
#[derive(Debug, Clone)]
struct Stop {
    ops: u32,
    schema: Arc<Schema>,
}

impl Stop {
    fn of(cut: &Cut) -> Self {
        Self { ops: cut.ops, schema: cut.schema.clone() }
    }
}

/// Which rows are to be computed, and how far.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The epoch.
    pub epoch: Epoch,
    /// Whose they are.
    pub consumer: ConsumerIndex,
    /// Which.
    pub morsel: Morsel,
    /// Those that are left out whether they fail or not.
    pub known: &'a Known,
    /// How many row ops are to run: what [`Executable::stop`] says.
    pub ops: u32,
}

/// The same, as the ops see it.
#[derive(Clone, Copy)]
struct Told<'a> {
    epoch: Epoch,
    known: &'a Known,
    /// The number of the cut.
    cut: usize,
}

/// Returns the first row of each block of a source, and the number of rows. The blocks of a Python object are runs of its items.
fn block_starts(index: Option<&SourceIndex>, plan: &EpochPlan) -> Vec<u64> {
    let rows = plan.extent().rows.unwrap_or(0);
    let runs = || (0..rows.div_ceil(ROWS_IN_BLOCK)).map(|run| run * ROWS_IN_BLOCK).chain([rows]).collect();
    index.map_or_else(runs, SourceIndex::block_starts)
}

impl Executable {
    /// Opens the source and prepares each op of a split.
    ///
    /// # Errors
    /// Whatever opening gives, and Invalid where an op's arguments cannot work together.
    pub fn new(
        stages: Arc<Stages>,
        plan: Arc<EpochPlan>,
        index: Option<SourceIndex>,
        environment: &Environment,
    ) -> Result<Arc<Self>> {
        let cuts = stages.cuts()?;
        let whole = cuts.last().map(Stop::of).into_iter().collect();
        Self::open(stages, plan, index, (whole, 0), environment)
    }

    /// As [`Executable::new`], but what a service's workers do: it ends wherever that may be ([`Stages::cuts`]).
    ///
    /// # Errors
    /// As [`Executable::new`].
    pub fn for_worker(
        stages: Arc<Stages>,
        plan: Arc<EpochPlan>,
        index: Option<SourceIndex>,
        environment: &Environment,
    ) -> Result<Arc<Self>> {
        let cuts = stages.cuts()?;
        let stops = cuts.iter().map(Stop::of).collect();
        Self::open(stages, plan, index, (stops, usual_cut(&cuts)), environment)
    }

    /// Prepares what a service's readers do: the ops after each cut, and those after the merge. Opens nothing.
    ///
    /// # Errors
    /// As [`Executable::new`].
    pub fn for_reader(stages: Arc<Stages>, plan: Arc<EpochPlan>, environment: &Environment) -> Result<Arc<Self>> {
        let cuts = stages.cuts()?;
        let meter = OpMeter::new(environment.watch.clone());
        let way = Way::behind(&cuts, &plan, environment, &meter)?;
        let stops = cuts.iter().map(Stop::of).collect();
        Self::without_source(stages, plan, stops, way, environment.clone(), meter)
    }

    /// Prepares only the row ops, without the source: for rows that are at hand, on which none has run.
    ///
    /// # Errors
    /// As [`Executable::new`], but nothing is opened.
    pub fn for_rows(stages: Arc<Stages>, plan: Arc<EpochPlan>, environment: &Environment) -> Result<Arc<Self>> {
        let input = Arc::new(stages.source.schema()?);
        let environment = Environment { keeping: None, ..environment.clone() };
        let meter = OpMeter::new(environment.watch.clone());
        let all = stages.split.iter().map(|work| work.steps().len() as u32).sum();
        let way = Way::new(&stages, &[all], &input, &plan, &environment, &meter)?;
        let stops = vec![Stop { ops: 0, schema: input }];
        Self::without_source(stages, plan, stops, way, environment, meter)
    }

    fn without_source(
        stages: Arc<Stages>,
        plan: Arc<EpochPlan>,
        stops: Vec<Stop>,
        way: Way,
        environment: Environment,
        meter: Arc<OpMeter>,
    ) -> Result<Arc<Self>> {
        let schema = stages.split_schema()?;
        Ok(Arc::new(Self {
            stages,
            plan,
            index: None,
            rows: None,
            near: None,
            way,
            auto: None,
            stops,
            usual: 0,
            schema,
            environment,
            meter,
        }))
    }

    fn open(
        stages: Arc<Stages>,
        plan: Arc<EpochPlan>,
        index: Option<SourceIndex>,
        (stops, usual): (Vec<Stop>, usize),
        environment: &Environment,
    ) -> Result<Arc<Self>> {
        let source = &stages.source;
        let bytes = index.as_ref().map_or(0, SourceIndex::bytes);
        let near = environment.keeping.as_ref().and_then(|keeping| Nearby::open(source, bytes, &keeping.cache));
        let plan =
            if plan.knows_rows() { plan } else { Arc::new(plan.over(&stages, block_starts(index.as_ref(), &plan))?) };
        let sizes = || index.iter().flat_map(SourceIndex::files).map(|file| file.size).collect();
        let plan = if plan.lane_layout().is_some() { Arc::new(plan.over_files(sizes())) } else { plan };
        let window_rows = plan.sizing().window_rows;
        let rows = Some(Rows::open(source, index.clone(), near.as_ref(), window_rows, environment)?);
        let input = Arc::new(stages.source.schema()?);
        let meter = OpMeter::new(environment.watch.clone());
        let cuts: Vec<_> = stops.iter().map(|stop| stop.ops).collect();
        let way = Way::new(&stages, &cuts, &input, &plan, environment, &meter)?;
        if let Some((prefix, keeping)) = way.prefix.as_ref().zip(environment.keeping.as_ref()) {
            prefix.open(keeping);
        }
        let auto = Auto::new(&stages, &cuts, &input, &plan, environment, &meter)?;
        let (environment, schema) = (environment.clone(), stages.split_schema()?);
        Ok(Arc::new(Self { stages, plan, index, rows, near, way, auto, stops, usual, schema, environment, meter }))
    }

    /// Returns the stages.
    pub fn stages(&self) -> &Arc<Stages> {
        &self.stages
    }

    /// Returns the epoch plan.
    pub fn plan(&self) -> &Arc<EpochPlan> {
        &self.plan
    }

    /// Returns where chunks end whose makers were told to run so many row ops: there, if a pipeline may be cut there; as late as
    /// it may be, if these are more than there are; else, or if they were told nothing, where it is cut before anything is known.
    pub fn stop(&self, ops: Option<u32>) -> u32 {
        let is_it = |stop: &&Stop| Some(stop.ops) == ops;
        let last = self.stops.last().filter(|last| ops.is_some_and(|ops| ops > last.ops));
        let stop = self.stops.iter().find(is_it).or(last).or_else(|| self.stops.get(self.usual));
        stop.map_or(0, |stop| stop.ops)
    }

    /// Returns how many row ops have run where chunks are handed from a worker to a reader, and their columns there: of all places
    /// where that may be, the earliest first.
    pub fn stops(&self) -> impl Iterator<Item = (u32, &Arc<Schema>)> {
        self.stops.iter().map(|stop| (stop.ops, &stop.schema))
    }

    fn cut(&self, ops: u32) -> Result<usize> {
        let found = self.stops.iter().position(|stop| stop.ops == ops);
        found.ok_or_else(|| Error::data(format!("a chunk is said to be cut after {ops} ops, where it is never cut")))
    }

    /// Returns the columns of the chunks that its row ops give, once all have run.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns what its ops cost.
    pub fn meter(&self) -> &Arc<OpMeter> {
        &self.meter
    }

    /// Returns what becomes of rows that fail.
    pub(crate) fn on_error(&self) -> OnError {
        self.stages.graph.on_error()
    }

    /// Computes one morsel and hands over its chunks in order. A counted morsel gives exactly one chunk, perhaps of no
    /// rows; a source block gives as many as it takes. Where the pipeline says so, rows that fail, and those that are
    /// `known` to, are left out, and their chunk says which.
    ///
    /// # Errors
    /// What went wrong, with op, line and sample; or whatever `emit` returned.
    pub fn morsel(
        &self,
        asked: &Asked<'_>,
        scratch: &mut Scratch,
        emit: &mut dyn FnMut(Chunk) -> Result<()>,
    ) -> Result<()> {
        let Asked { epoch, consumer, morsel, known, ops } = *asked;
        let told = Told { epoch, known, cut: self.cut(ops)? };
        let rows = self.rows.as_ref().ok_or_else(|| Error::internal("this executable reads no source"))?;
        match morsel {
            Morsel::Units { .. } => {
                let mut places = Vec::new();
                self.plan.places(epoch, consumer, morsel, |row, epoch| places.push(Place { row, epoch }));
                self.meter.begin(&mut scratch.tally);
                let Some(auto) = &self.auto else {
                    let (chunk, _) = self.units(&self.way, rows, &places, told, scratch)?;
                    self.meter.end(&mut scratch.tally);
                    return emit(chunk);
                };
                let began = auto.nanos();
                let way = auto.way().unwrap_or(&self.way);
                let (chunk, read) = self.units(way, rows, &places, told, scratch)?;
                self.meter.end(&mut scratch.tally);
                let now = auto.nanos();
                auto.work(places.len(), now - began, now, self.passed(epoch, consumer, morsel));
                emit(chunk)?;
                // A row that is known to be lost may end whoever computes it.
                if known.is_empty() {
                    let read = read.map(|at| (at - began) as f64 / places.len().max(1) as f64);
                    let batch = self.stages.aligned.map(|b| b.size);
                    auto.learn(&Sample { rows, places: &places, read, batch, way: &self.way, cut: told.cut });
                }
                Ok(())
            }
            Morsel::Block { block } => self.block(rows, block, (epoch, told), scratch, emit),
        }
    }

    /// Returns where large columns are made, and how much a pipeline may take.
    pub fn memory(&self) -> &Memory {
        &self.environment.memory
    }

    /// Says whether its splits may be merged as they come.
    ///
    /// # Errors
    /// Invalid where an op, or consumers that take turns, need them in order.
    pub fn check_any_order(&self) -> Result<()> {
        if self.plan.deal().coordinated {
            return Err(Error::invalid(
                "ordered=False, and coordinated=True: consumers take turns at the batches of one order",
            )
            .hint("leave one of them out"));
        }
        self.stages.check_any_order()
    }

    /// Says how long it will be read: the epoch before which its reader ends, if it does; and how many epochs of it others read
    /// before. `autocache()` reckons with it.
    pub fn expect(&self, end_epoch: Option<u64>, before: u64) {
        self.auto.iter().for_each(|auto| auto.expect(end_epoch, before));
    }

    /// Returns which epoch a consumer is in, and how much of it has come with the end of a morsel.
    fn passed(&self, epoch: Epoch, consumer: ConsumerIndex, morsel: Morsel) -> Option<(u64, f64)> {
        let Morsel::Units { first, count } = morsel else { return None };
        let units = self.plan.consumer_units(consumer)?;
        Some((epoch.0, (first + count) as f64 / units.max(1) as f64))
    }

    /// Says whether a chunk that so many ops have run on is already what [`Executable::schema`] says.
    pub fn is_finished(&self, ops: u32) -> bool {
        self.way.prefix.is_none() && self.cut(ops).is_ok_and(|cut| self.way.works(cut).next().is_none())
    }

    /// Computes rows one way. Also returns when they had been read, where `autocache()` asks for that.
    fn units(
        &self,
        way: &Way,
        rows: &Rows,
        places: &[Place],
        told: Told<'_>,
        scratch: &mut Scratch,
    ) -> Result<(Chunk, Option<u64>)> {
        let locate = |e| self.locate(e);
        let mut isolation = Isolation::new(self.on_error(), &locate);
        if way.prefix.is_some() {
            return Ok((self.run_kept(way, rows, places.to_vec(), told, isolation, scratch)?, None));
        }
        let read = scratch.metered(READ, Given::Places(places.len()), |_| isolation.gather(rows, places));
        let chunk = read.map_err(locate)?;
        let read = self.auto.as_ref().map(Auto::nanos);
        Ok((self.run(chunk, told, isolation, scratch)?, read))
    }

    fn run(
        &self,
        mut chunk: Chunk,
        Told { epoch, known, cut }: Told<'_>,
        mut isolation: Isolation<'_>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        chunk = chunk.with_losses(Vec::new());
        isolation.set_source(&chunk);
        chunk = isolation.leave_out(chunk, known, epoch)?;
        let chunk = self.run_works(self.way.works(cut), chunk, &mut isolation, scratch)?;
        Ok(chunk.with_losses(isolation.into_losses()))
    }

    /// As [`Executable::run`], with rows that may be kept: those that are known to be lost are not asked for.
    fn run_kept(
        &self,
        way: &Way,
        rows: &Rows,
        places: Vec<Place>,
        Told { epoch, known, cut }: Told<'_>,
        mut isolation: Isolation<'_>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        let locate = |e| self.locate(e);
        let id = |place: &Place| RowId { sample: rows.sample(place.row), epoch: place.epoch };
        let is_lost = |place: &Place| !known.is_empty() && known.get(epoch, id(place)).is_some();
        let (lost, places): (Vec<_>, Vec<_>) = places.into_iter().partition(is_lost);
        if !lost.is_empty() {
            let read = isolation.gather(rows, &lost).map_err(locate)?;
            isolation.set_source(&read);
            isolation.leave_out(read, known, epoch)?;
        }
        let question = Question { rows, places: &places, on_error: self.on_error(), locate: &locate };
        let prefix = way.prefix.as_ref().ok_or_else(|| Error::internal("nothing is kept this way"))?;
        let made = prefix.make(&question, way.around(cut), scratch)?;
        isolation.take(made.losses);
        let read = |row: RowId| {
            let at = places.iter().position(|place| id(place) == row)?;
            rows.gather(&places[at..=at]).ok()
        };
        let mut isolation = isolation.reading(&read);
        let mut works = way.works(cut);
        let chunk = match way.around(cut).zip(made.around) {
            Some((around, left)) => {
                let between: Vec<_> = works.by_ref().take(around.between).collect();
                let Some(Compiled { kernel: Kernel::Image(work), slot }) = works.next() else {
                    return Err(Error::internal("a seam ends at an image op"));
                };
                let kept = self.run_works(between, made.chunk, &mut isolation, scratch)?;
                let sides = [
                    Side { work, slot: *slot, chunk: &kept },
                    Side { work: &around.image, slot: around.slot, chunk: &left },
                ];
                let meeting = Meeting::new(&sides, question.ids(), &self.environment.memory)?;
                let met = isolation.run(meeting.others(), &mut |others| meeting.run(others, scratch));
                met.map_err(locate)?
            }
            None => made.chunk,
        };
        let chunk = self.run_works(works, chunk, &mut isolation, scratch)?;
        Ok(chunk.with_losses(isolation.into_losses()))
    }

    fn run_works<'a>(
        &self,
        works: impl IntoIterator<Item = &'a Compiled>,
        mut chunk: Chunk,
        isolation: &mut Isolation<'_>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        let batch = self.stages.aligned.map(|b| b.size);
        for work in works {
            let ran = isolation.run(&chunk, &mut |chunk| work.run(chunk, batch, scratch));
            chunk = ran.map_err(|e| self.locate(e))?;
        }
        Ok(chunk)
    }

    /// Runs the row ops on rows that are at hand, of which `ops` have run: what a worker left to do on a chunk that arrived, or all
    /// of them on rows that were left out once. None may fail; what the chunk says was left out before stays said.
    ///
    /// # Errors
    /// What went wrong, with op and line; Data where no chunk is handed over after so many ops.
    pub fn finish(&self, chunk: Chunk, ops: u32) -> Result<Chunk> {
        let cut = self.cut(ops)?;
        let (batch, mut scratch) = (self.stages.aligned.map(|b| b.size), Scratch::default());
        self.meter.begin(&mut scratch.tally);
        let losses = chunk.losses().to_vec();
        let mut done = match &self.way.prefix {
            Some(prefix) => prefix.run(&chunk, &mut scratch).map_err(|e| self.locate(e))?,
            None => chunk,
        };
        for work in self.way.works(cut) {
            done = work.run(&done, batch, &mut scratch).map_err(|e| self.locate(e))?;
        }
        self.meter.end(&mut scratch.tally);
        Ok(done.with_losses(losses))
    }

    /// Replaces a sample's number in an error by what the user knows it as; and says which source it is whose file fails for a
    /// reason that is no sample's: its ops say that themselves.
    pub fn locate(&self, error: Error) -> Error {
        let is_of_source = error.fault() == Fault::Other && error.get("file").is_some() && error.get("op").is_none();
        let error = if is_of_source { self.stages.graph.blame_source(error) } else { error };
        let (Some(index), Some(sample)) = (&self.index, error.get("sample")) else { return error };
        let parts = sample.split_once(':').and_then(|(b, r)| Some((b.parse().ok()?, r.parse().ok()?)));
        match parts {
            Some((block, row)) if block < SampleId::BLOCKS_MAX && row < SampleId::ROWS_MAX => {
                let text = index.describe_sample(SampleId::new(block, row));
                error.replace("sample", text)
            }
            _ => error,
        }
    }
}

/// The samples of rows that a Python source numbers by itself.
pub(crate) fn numbered(places: &[Place]) -> Arc<[RowId]> {
    places.iter().map(|p| RowId { sample: numbered_sample(p.row), epoch: p.epoch }).collect()
}

/// The sample of such a row.
pub(crate) fn numbered_sample(row: u64) -> SampleId {
    SampleId::new(row >> 16, row & 0xFFFF)
}
