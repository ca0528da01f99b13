//! A pipeline in Python's hands: the checked graph, and the blobs that travel with it.

use std::sync::Arc;

use bytes::Bytes;
use forebay_core::{ConsumerIndex, Error, Result, Seed, SystemClock};
use forebay_data::{Field, Kind, Memory};
use forebay_exec::{
    Budget, Environment, Executable, LocalIteration, LocalOptions, Position, Randomness, SavedSkip, SavedState,
};
use forebay_io::{Blobs, SourceIndex};
use forebay_plan::{
    Combined, Combining, EpochPlan, Function, Graph, Node, OnError, Op, Reorder, RowCount, Sharding, Site, Sizing,
    Source, SourcePart, Stages, ops,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use serde::Deserialize;

use crate::blobs::BlobSet;
use crate::errors::{guard, interruptible, raise};
use crate::functions::PyFunctions;
use crate::indexing::Listing;
use crate::iter::{Iteration, NativeIterator};
use crate::runner::Runner;

/// A column for Python: name, dtype, shape, nullable.
type Described = (String, String, Option<Vec<Option<usize>>>, bool);

/// An immutable pipeline.
#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct Pipeline {
    pub(crate) graph: Graph,
    pub(crate) blobs: BlobSet,
    /// The listing of the source's files, for all pipelines made from this one.
    pub(crate) listing: Listing,
}

fn site(file: Option<String>, line: u32) -> Option<Site> {
    file.map(|file| Site { file, line })
}

fn mode(order: &str) -> Result<Reorder> {
    serde_json::from_value(order.into()).map_err(|e| Error::invalid(format!("not a freedom to reorder ops: {e}")))
}

fn blame_source(error: Error, name: &str, site: Option<&Site>) -> Error {
    let error = error.with("op", name);
    match site {
        Some(site) => error.with("line", site),
        None => error,
    }
}

#[pymethods]
impl Pipeline {
    /// Starts from files; looks up the properties that the JSON leaves open in the first of them.
    #[staticmethod]
    fn from_files(py: Python<'_>, json: String, name: &str, file: Option<String>, line: u32) -> PyResult<Self> {
        let site = site(file, line);
        let graph = interruptible(py, |poll| {
            let made = crate::draft::infer(&json, poll).and_then(|source| Graph::new(source, site.clone()));
            made.map_err(|e| blame_source(e, name, site.as_ref()))
        })?;
        Ok(Self::of(graph, BlobSet::default()))
    }

    /// Starts from a dictionary of arrays.
    #[staticmethod]
    fn from_memory(columns: &Bound<'_, PyAny>, name: &str, file: Option<String>, line: u32) -> PyResult<Self> {
        let py = columns.py();
        let site = site(file, line);
        let (source, bytes) = crate::draft::memory(columns)
            .map_err(|e| raise(py, &blame_source(crate::errors::from_exception(py, &e), name, site.as_ref())))?;
        let blobs = BlobSet::default().with(bytes).0;
        guard(py, || Ok(Self::of(Graph::new(source, site)?, blobs)))
    }

    /// Starts from a pickled Python object, or from numbers only. `{blob}` in the JSON is the pickle's name.
    #[staticmethod]
    #[pyo3(signature = (json, pickle, name, file, line))]
    fn from_source(
        py: Python<'_>,
        json: &str,
        pickle: Option<&[u8]>,
        name: &str,
        file: Option<String>,
        line: u32,
    ) -> PyResult<Self> {
        let site = site(file, line);
        guard(py, || {
            let (blobs, json) = attach(&BlobSet::default(), json, pickle);
            let source: Source = serde_json::from_str(&json).map_err(not_arguments)?;
            let graph = Graph::new(source, site.clone()).map_err(|e| blame_source(e, name, site.as_ref()))?;
            Ok(Self::of(graph, blobs))
        })
    }

    /// Reads several pipelines as one. The JSON says how.
    #[staticmethod]
    fn combine(
        py: Python<'_>,
        json: &str,
        parts: Vec<(String, PyRef<'_, Self>)>,
        name: &str,
        file: Option<String>,
        line: u32,
    ) -> PyResult<Self> {
        let site = site(file, line);
        guard(py, || {
            let Combine { how, column } = serde_json::from_str(json).map_err(not_arguments)?;
            let blobs = parts.iter().fold(BlobSet::default(), |blobs, (_, part)| blobs.and(&part.blobs));
            let part = |(name, part): &(String, PyRef<'_, Self>)| SourcePart {
                name: name.clone(),
                graph: Arc::new(part.graph.clone()),
            };
            let combined = Combined { how, parts: parts.iter().map(part).collect(), column };
            let graph = Graph::new(Source::Combined(combined), site.clone());
            let graph = graph.map_err(|e| blame_source(e, name, site.as_ref()))?;
            Stages::new(&graph)?;
            Ok(Self::of(graph, blobs))
        })
    }

    /// Reads the results of `to_json` and `blobs`, of this or another process.
    #[staticmethod]
    fn from_json(py: Python<'_>, json: &str, blobs: Vec<PyBackedBytes>) -> PyResult<Self> {
        let set = |set: BlobSet, blob: PyBackedBytes| set.with(Bytes::copy_from_slice(&blob)).0;
        let blobs = blobs.into_iter().fold(BlobSet::default(), set);
        guard(py, || Ok(Self::of(Graph::from_json(json)?, blobs)))
    }

    /// Adds an op. `{blob}` in the JSON is the name of its pickle or tokenizer.
    #[pyo3(signature = (json, pickle, label, keep_position, file, line))]
    #[expect(clippy::too_many_arguments, reason = "one call for each op, from one place in Python")]
    fn then(
        &self,
        py: Python<'_>,
        json: &str,
        pickle: Option<&[u8]>,
        label: Option<String>,
        keep_position: bool,
        file: Option<String>,
        line: u32,
    ) -> PyResult<Self> {
        guard(py, || {
            let (blobs, json) = attach(&self.blobs, json, pickle);
            let op: Op = serde_json::from_str(&json).map_err(not_arguments)?;
            let node = Node { op, label, keep_position, site: site(file, line) };
            let graph = self.graph.then(node.clone())?;
            forebay_exec::check(&node, &blobs)?;
            // The order of the ops may be impossible as a whole.
            Stages::new(&graph.clone().with_reorder(Reorder::Off))?;
            Ok(Self { graph, blobs, listing: self.listing.clone() })
        })
    }

    /// Returns the columns: name, dtype ("bytes", "string" or NumPy's name), shape (`None` for scalars), nullable.
    #[getter]
    fn schema(&self) -> Vec<Described> {
        self.graph.schema().fields().iter().map(describe).collect()
    }

    #[getter]
    fn dataset_id(&self) -> String {
        self.graph.dataset_id().to_string()
    }

    /// Returns the batch size, when rows are in batches.
    #[getter]
    fn batch_size(&self) -> Option<usize> {
        self.graph.batch().map(|b| b.0)
    }

    /// Returns the same pipeline with another action on samples that fail: "raise", "skip" or "quarantine".
    fn tolerate(&self, py: Python<'_>, on_error: &str) -> PyResult<Self> {
        guard(py, || {
            let on_error: OnError = serde_json::from_value(on_error.into())
                .map_err(|e| Error::invalid(format!("not an answer to errors: {e}")))?;
            Ok(self.with(self.graph.clone().with_on_error(on_error)))
        })
    }

    /// Returns the same pipeline with another freedom to reorder its ops: "exact", "relaxed" or "off".
    fn reorder(&self, py: Python<'_>, order: &str) -> PyResult<Self> {
        guard(py, || Ok(self.with(self.graph.clone().with_reorder(mode(order)?))))
    }

    /// Returns the same pipeline in the order of a mode ("exact" or "relaxed") that is fastest on the first rows of its
    /// source.
    fn optimize(&self, py: Python<'_>, order: &str, samples: usize) -> PyResult<Self> {
        let mode = guard(py, || mode(order))?;
        let graph = interruptible(py, |poll| self.optimized(mode, samples, poll))?;
        Ok(self.with(graph))
    }

    /// Returns the pipeline of the rows that `cache()` keeps, each row of the source once; `None` without one.
    fn kept(&self, py: Python<'_>) -> PyResult<Option<Self>> {
        guard(py, || Ok(self.graph.cached_prefix()?.map(|graph| self.with(graph))))
    }

    /// Returns the graph in the form that crosses processes.
    fn to_json(&self) -> String {
        self.graph.to_json()
    }

    /// Returns the pipeline as text; with `plan`, also the splits and shares of an epoch, which needs the files.
    fn explain(
        &self,
        py: Python<'_>,
        plan: bool,
        consumers: u32,
        even: Option<bool>,
        coordinated: bool,
    ) -> PyResult<String> {
        interruptible(py, |poll| {
            let (stages, sharding) = Sharding::choose(&self.graph, consumers, even, coordinated)?;
            if !plan {
                return Ok(forebay_plan::explain(&stages, None));
            }
            let index = self.index(&self.graph, stages.counted, poll)?;
            let plan = EpochPlan::new(&stages, index.extent(), Seed(0), sharding, None)?;
            Ok(forebay_plan::explain(&stages, Some(&plan)))
        })
    }

    /// Returns the files of its source, in order.
    fn files(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        interruptible(py, |poll| {
            Ok(self.index(&self.graph, false, poll)?.files().map(|file| file.uri.to_owned()).collect())
        })
    }

    /// Returns the batches (or samples) of an epoch: a number; `None` when not known before it runs; -1 when endless.
    fn cardinality(&self, py: Python<'_>) -> PyResult<Option<i128>> {
        interruptible(py, |poll| {
            let uncounted = |n: &Arc<Node>| n.op.is_uncounted();
            if self.graph.nodes().iter().any(uncounted) || matches!(self.graph.source(), Source::Generator { .. }) {
                return Ok(None);
            }
            let rows = match self.graph.source().rows().or_else(|| self.graph.source().rows_of_mix()) {
                Some(rows) => i128::from(rows),
                None if self.graph.is_endless() && self.graph.source().is_streamed_mix() => -1,
                None if self.graph.source().is_streamed_mix() => return Ok(None),
                None => {
                    let extent = self.index(&self.graph, true, poll)?.extent();
                    let rows = forebay_plan::rows_of_source(&self.graph, &extent);
                    match rows.map_err(|e| self.graph.blame_source(e))? {
                        RowCount::Unknown => return Ok(None),
                        RowCount::Endless => -1,
                        RowCount::Rows(rows) => i128::from(rows),
                    }
                }
            };
            Ok(Some(counted(&self.graph, rows)))
        })
    }

    /// Returns why several consumers may get unequal numbers of batches: the op, and its line. `None` if the numbers
    /// are known, or an epoch has no end.
    fn uneven(&self, py: Python<'_>, consumers: u32) -> PyResult<Option<String>> {
        guard(py, || {
            let (stages, _) = Sharding::choose(&self.graph, consumers, None, false)?;
            if self.graph.is_endless() {
                return Ok(None);
            }
            if self.graph.on_error().is_tolerant() {
                return Ok(Some("on_error (samples that fail are left out)".to_owned()));
            }
            let at = |node: &Node| node.site.as_ref().map_or(String::new(), |site| format!(" ({site})"));
            let named = |node: &Arc<Node>| format!("{}{}", node.title(), at(node));
            let op = stages.first_uncounted().map_or_else(|| self.graph.source().name().to_owned(), named);
            Ok(Some(op).filter(|_| !stages.counts_known))
        })
    }

    /// Returns an epoch's batches for one of several consumers, as `cardinality` counts; `None` if not known before it
    /// runs.
    fn share(
        &self,
        py: Python<'_>,
        consumer: u32,
        consumers: u32,
        even: Option<bool>,
        coordinated: bool,
    ) -> PyResult<Option<i128>> {
        if consumers == 1 {
            return self.cardinality(py);
        }
        interruptible(py, |poll| {
            let (stages, sharding) = Sharding::choose(&self.graph, consumers, even, coordinated)?;
            let consumer = ConsumerIndex(consumer);
            // A coordinated epoch is dealt by the lengths of rows.
            if !stages.counts_known || sharding.coordinated {
                return Ok(None);
            }
            let index = self.index(&self.graph, stages.counted, poll)?;
            let plan = EpochPlan::new(&stages, index.extent(), Seed(0), sharding, None)?;
            let Some(units) = plan.share(consumer, 0).or_else(|| plan.consumer_units(consumer)) else {
                return Ok(Some(-1));
            };
            if !plan.knows_counts() {
                return Ok(None);
            }
            // A unit is a batch, or a run of samples, of which the last one may be shorter.
            let size = plan.sizing().unit_rows;
            let (parts, part) = (plan.sharding().parts(), plan.sharding().part(consumer));
            let rows = |unit: u64| plan.rows().unwrap_or(0).saturating_sub((unit * parts + part) * size).min(size);
            let has_batches = self.graph.batch().is_some();
            let last = units.checked_sub(1).map_or(0, rows);
            let samples = units.saturating_sub(1) * size + last;
            Ok(Some(i128::from(if has_batches { units } else { samples })))
        })
    }

    /// Returns the columns that a function returns, found by calling it on the first samples.
    fn probe(&self, py: Python<'_>, function: &str, pickle: &[u8], makes_rows: bool) -> PyResult<String> {
        let (blobs, json) = attach(&self.blobs, function, Some(pickle));
        let function: Function =
            serde_json::from_str(&json).map_err(|e| raise(py, &Error::internal(format!("not a function: {e}"))))?;
        let function = Function { batched: function.batched || self.graph.batch().is_some(), ..function };
        let (input, of) = interruptible(py, |poll| self.first_rows(PROBE_ROWS, poll))?;
        let fields = guard(py, || {
            let Some(input) = input else {
                return Err(Error::invalid("the pipeline gives no sample to try the function on")
                    .hint("give schema={\"column\": \"dtype\", ...}"));
            };
            let input = match &function.reads {
                Some(columns) => input.project(columns)?,
                None => input,
            };
            let random = self.graph.nodes().iter().filter(|n| n.op.is_random()).count() as u64;
            let randomness = function.with_rng.then_some(Randomness { seed: Seed(0), random });
            let found = PyFunctions::default().fields(&function, &blobs, &input, randomness, makes_rows);
            let found = found.map_err(|e| of.locate(e))?;
            if makes_rows && found.is_empty() {
                let message = format!("{} made no row of the first {} samples", function.name, input.num_rows());
                return Err(Error::invalid(message).hint("give schema={\"column\": \"dtype\", ...}"));
            }
            Ok(found)
        })?;
        Ok(serde_json::to_string(&fields).unwrap_or_default())
    }

    /// Starts iterating in this process.
    #[pyo3(signature = (*, seed, epoch, epochs, threads, consumer, consumers, even, coordinated, ordered, executor, budget, memory, state))]
    #[expect(clippy::too_many_arguments, reason = "keywords, named in Python")]
    fn iterate(
        &self,
        py: Python<'_>,
        seed: u64,
        epoch: u64,
        epochs: Option<u64>,
        threads: usize,
        consumer: u32,
        consumers: u32,
        even: Option<bool>,
        coordinated: bool,
        ordered: bool,
        executor: &str,
        budget: ErrorBudget,
        memory: Option<&str>,
        state: Option<&str>,
    ) -> PyResult<NativeIterator> {
        let (state, said) = guard(py, || Ok((state.map(saved).transpose()?, crate::memory_budget::said(memory)?)))?;
        let runner = Runner::new(py, executor, self.blobs.iter().map(|(id, _)| id.clone()).collect())?;
        let started = interruptible(py, |poll| {
            let blobs = Arc::new(self.blobs.clone());
            let (functions, keeping) = (runner.functions(), crate::cache::keeping(&self.graph)?);
            let environment = Environment {
                blobs,
                functions,
                memory: Memory::reused().with_budget(forebay_server::memory_budget(said)),
                cache_context: keeping,
                watch: Arc::new(SystemClock::default()),
            };
            let sizing = state.as_ref().and_then(|s| s.sizing);
            let divided = Sharding::choose(&self.graph, consumers, even, coordinated)?;
            let executable = self.prepare(divided, Seed(seed), sizing, &environment, poll)?;
            let (plan, consumer) = (executable.plan().clone(), ConsumerIndex(consumer));
            crate::memory_budget::check(said, executable.stages(), &plan)?;
            let from = match &state {
                Some(saved) => saved.position_in(&plan, consumer)?,
                None => Position { epoch, ..Position::default() },
            };
            let left_out = state.map(|s| s.left_out).unwrap_or_default();
            let end_epoch = epochs.map(|n| epoch.saturating_add(n));
            check_epoch(from.epoch, epoch, end_epoch)?;
            let (budget, known_skips) = (budget.into(), SavedSkip::known_skips(&left_out));
            let options = LocalOptions {
                threads,
                end_epoch,
                ordered,
                consumer,
                from: from.clone(),
                budget,
                known_skips,
                until_empty: false,
            };
            Ok((LocalIteration::start(executable, options)?, from, plan, consumer, left_out))
        });
        let (stream, from, plan, consumer, left_out) = started?;
        let iteration = Iteration::Local(Box::new(stream), self.listing.clone());
        Ok(NativeIterator::new(iteration, from, plan, consumer, left_out, runner))
    }

    /// Returns the pickles and tokenizers of the ops, also of datasets that are read as one, without those of sources.
    fn op_blobs<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Bound<'py, PyBytes>)>> {
        let blob = |id: &forebay_plan::BlobId| Ok((id.0.clone(), PyBytes::new(py, &guard(py, || self.blobs.get(id))?)));
        self.graph.op_blobs().into_iter().map(blob).collect()
    }

    /// Returns the blobs by name.
    fn blobs<'py>(&self, py: Python<'py>) -> Vec<(String, Bound<'py, PyBytes>)> {
        self.blobs.iter().map(|(id, bytes)| (id.0.clone(), PyBytes::new(py, bytes))).collect()
    }
}

/// The most samples that may be skipped: a whole number, or a share.
#[derive(Clone, Copy, FromPyObject)]
pub(crate) enum ErrorBudget {
    Count(u64),
    Share(f64),
}

impl From<ErrorBudget> for Budget {
    fn from(budget: ErrorBudget) -> Self {
        match budget {
            ErrorBudget::Count(count) => Budget::Count(count),
            ErrorBudget::Share(share) => Budget::Share(share),
        }
    }
}

/// How several pipelines are read as one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Combine {
    how: Combining,
    column: Option<String>,
}

/// Samples for the trial of a function: enough to see that shapes differ.
const PROBE_ROWS: usize = 4;

/// Reads the saved state of an iterator.
pub(crate) fn saved(json: &str) -> Result<SavedState> {
    serde_json::from_str(json).map_err(|e| Error::invalid(format!("this is not a state of an iterator: {e}")))
}

/// Refuses a state of an epoch outside of the iteration: it would yield nothing, or the wrong epochs.
fn check_epoch(at: u64, first: u64, end: Option<u64>) -> Result<()> {
    if at >= first && end.is_none_or(|end| at <= end) {
        return Ok(());
    }
    let all = end.map_or(format!("{first} and all that follow"), |end| format!("{first}..{end}"));
    Err(Error::invalid(format!("the saved state is in epoch {at}, and this iterator has epochs {all}"))
        .hint("give iter() the epoch and the epochs that the saved iterator had"))
}

impl Pipeline {
    /// Returns a pipeline whose source has not been listed yet.
    fn of(graph: Graph, blobs: BlobSet) -> Self {
        Self { graph, blobs, listing: Listing::default() }
    }

    /// Returns the same with another graph of the same source.
    pub(crate) fn with(&self, graph: Graph) -> Self {
        Self { graph, blobs: self.blobs.clone(), listing: self.listing.clone() }
    }

    /// Finds the files of a graph of this source.
    fn index(&self, graph: &Graph, counted: bool, poll: &mut dyn FnMut() -> Result<()>) -> Result<SourceIndex> {
        let index = self.listing.index(graph.source(), counted, poll);
        index.map_err(|e| blame_source(e, graph.source().name(), graph.site()))
    }

    /// Makes a pipeline of this source ready to run here.
    pub(crate) fn prepare(
        &self,
        (stages, sharding): (Stages, Sharding),
        seed: Seed,
        sizing: Option<Sizing>,
        environment: &Environment,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Arc<Executable>> {
        let index = self.index(&stages.graph, stages.counted, poll)?;
        let plan = EpochPlan::new(&stages, index.extent(), seed, sharding, sizing)?;
        let executable = Executable::new(Arc::new(stages), Arc::new(plan), Some(index), environment);
        executable.inspect_err(|_| self.listing.forget())
    }
}

/// Returns the error for arguments whose types were not checked before.
pub(crate) fn not_arguments(error: serde_json::Error) -> Error {
    // The position in our own JSON is of no use to a user.
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    match what.split_once("\n  hint: ") {
        // An error of our own, which serde has turned into text.
        Some((message, hint)) => Error::invalid(message).hint(hint),
        None => Error::invalid(format!("an argument is of another type than it takes: {what}"))
            .hint("see help() of the function for what it takes"),
    }
}

/// Puts a pickle among the blobs, and its name into the JSON.
fn attach(blobs: &BlobSet, json: &str, pickle: Option<&[u8]>) -> (BlobSet, String) {
    match pickle {
        Some(pickle) => {
            let (blobs, id) = blobs.with(Bytes::copy_from_slice(pickle));
            (blobs, json.replace("{blob}", &id.0))
        }
        None => (blobs.clone(), json.to_owned()),
    }
}

fn describe(field: &Field) -> (String, String, Option<Vec<Option<usize>>>, bool) {
    let (dtype, shape) = match &field.kind {
        Kind::Bytes => ("bytes", None),
        Kind::Utf8 => ("string", None),
        Kind::Scalar { dtype } => (dtype.name(), None),
        Kind::Tensor { dtype, shape } => (dtype.name(), Some(shape.clone())),
    };
    (field.name.clone(), dtype.to_owned(), shape, field.nullable)
}

/// Returns the batches or samples of an epoch of `rows` rows; -1 is endless.
fn counted(graph: &Graph, rows: i128) -> i128 {
    // The rows, and how many of them are made of one row.
    let (mut n, mut made) = (rows, 1);
    for node in graph.nodes() {
        let endless = n < 0;
        n = match &node.op {
            Op::Repeat(ops::Repeat { count: None }) if n != 0 => -1,
            Op::Repeat(ops::Repeat { count: Some(count) }) if !endless => n * i128::from(*count),
            Op::Take(ops::Take { count }) if endless => i128::from(*count),
            Op::Take(ops::Take { count }) => n.min(i128::from(*count)),
            Op::Skip(ops::Skip { count }) if !endless => (n - i128::from(*count)).max(0),
            Op::Shard(ops::Shard { count, index }) if !endless => {
                (n - i128::from(*index) + i128::from(*count) - 1).max(0) / i128::from(*count)
            }
            Op::FlatMap(ops::FlatMap { count: Some(count), .. }) if !endless => {
                made *= i128::from(*count);
                n * i128::from(*count)
            }
            Op::SelectRows(ops::SelectRows { rows }) => rows.len() as i128,
            Op::Part(part) if !endless => u64::try_from(n / made).map_or(n, |n| i128::from(part.count(n)) * made),
            Op::Batch(ops::Batch { size, drop_remainder })
            | Op::PaddedBatch(ops::PaddedBatch { size, drop_remainder, .. })
                if !endless =>
            {
                let short = if *drop_remainder { 0 } else { *size as i128 - 1 };
                (n + short) / *size as i128
            }
            _ => n,
        };
    }
    n
}
