//! The methods of the Python class.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use forebay_core::{ConsumerIndex, Error, Result, Seed};
use forebay_data::{Field, Kind};
use forebay_io::Blobs;
use forebay_plan::{
    Combined, Combining, EpochPlan, Graph, Node, OnError, Op, Reorder, Sharding, Site, Source, SourcePart, Stages, ops,
};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use serde::Deserialize;

use super::iterate::{ErrorBudget, Start};
use super::{Pipeline, attach, blame_source};
use crate::errors::{guard, interruptible, not_arguments, raise};
use crate::iter::NativeIterator;
use crate::pipeline::blobs::BlobSet;

/// A column for Python: name, dtype, shape, nullable.
type Described = (String, String, Option<Vec<Option<usize>>>, bool, bool);

#[pymethods]
impl Pipeline {
    /// Starts from files; looks up the properties that the JSON leaves open in the first of them.
    #[staticmethod]
    fn from_files(py: Python<'_>, json: String, name: &str, file: Option<String>, line: u32) -> PyResult<Self> {
        let site = site(file, line);
        let graph = interruptible(py, |poll| {
            let made = crate::sources::draft::infer(&json, poll)
                .and_then(|found| Ok(Graph::new(found.source, site.clone())?.with_times(found.times)));
            made.map_err(|e| blame_source(e, name, site.as_ref()))
        })?;
        Ok(Self::of(graph, BlobSet::default()))
    }

    /// Starts from a dictionary of arrays.
    #[staticmethod]
    fn from_memory(columns: &Bound<'_, PyAny>, name: &str, file: Option<String>, line: u32) -> PyResult<Self> {
        let py = columns.py();
        let site = site(file, line);
        let (source, bytes) = crate::sources::draft::memory(columns)
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
            self.with_node(Node { op, label, keep_position, site: site(file, line) }, blobs)
        })
    }

    /// Adds `select_rows`. The places are an array, because a million of them take a third of a second as JSON.
    #[pyo3(signature = (rows, label, keep_position, file, line))]
    fn select_rows(
        &self,
        py: Python<'_>,
        rows: PyBuffer<u64>,
        label: Option<String>,
        keep_position: bool,
        file: Option<String>,
        line: u32,
    ) -> PyResult<Self> {
        let op = Op::SelectRows(ops::SelectRows { rows: rows.to_vec(py)?.into() });
        let node = Node { op, label, keep_position, site: site(file, line) };
        guard(py, || self.with_node(node, self.blobs.clone()))
    }

    /// Returns the columns: name, dtype ("bytes", "string" or NumPy's name), shape (`None` for scalars), nullable.
    #[getter]
    fn schema(&self) -> Vec<Described> {
        self.graph.schema().fields().iter().map(describe).collect()
    }

    /// Returns the units of time columns, where they are known: "D", "s", "ms", "us" or "ns".
    #[getter]
    fn times(&self) -> BTreeMap<String, &'static str> {
        self.graph.times().iter().map(|(name, unit)| (name.clone(), unit.name())).collect()
    }

    /// Returns the name of an op by which a column differs between seeds or epochs; `None` if it never does.
    fn drawn_by(&self, py: Python<'_>, column: &str) -> PyResult<Option<&'static str>> {
        guard(py, || self.graph.drawn_by(column))
    }

    /// Sets the units of time columns of a source.
    fn with_times(&self, py: Python<'_>, times: BTreeMap<String, String>) -> PyResult<Self> {
        guard(py, || {
            let unit = |(name, unit): (String, String)| {
                serde_json::from_value(unit.to_lowercase().into()).map(|unit| (name, unit)).map_err(not_arguments)
            };
            Ok(self.with(self.graph.clone().with_times(times.into_iter().map(unit).collect::<Result<_>>()?)))
        })
    }

    /// Returns whether two epochs differ: whether it shuffles, mixes, or an op draws random numbers.
    #[getter]
    fn is_random(&self) -> bool {
        self.graph.is_random()
    }

    #[getter]
    fn dataset_id(&self) -> &str {
        self.id.get_or_init(|| self.graph.dataset_id().to_string())
    }

    /// Returns the source and the ops as they are written: their text, six digits that differ where they do, and the
    /// place in the user's code.
    fn outline(&self) -> Vec<(String, String, Option<String>)> {
        let ops = self.graph.outline().into_iter();
        ops.map(|op| (op.text, op.digest, op.site.map(|site| site.to_string()))).collect()
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
        interruptible(py, |poll| self.epoch_count(poll))
    }

    /// Returns why several consumers may get unequal numbers of batches: the op, and its line. `None` if the numbers
    /// are known, or an epoch has no end.
    fn uneven(&self, py: Python<'_>, consumers: u32) -> PyResult<Option<String>> {
        guard(py, || self.uneven_op(consumers))
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
            let divided = Sharding::choose(&self.graph, consumers, even, coordinated)?;
            self.consumer_count(divided, ConsumerIndex(consumer), poll)
        })
    }

    /// Returns the columns that a function returns, found by calling it on the first samples.
    fn probe(&self, py: Python<'_>, function: &str, pickle: &[u8], makes_rows: bool) -> PyResult<String> {
        self.try_function(py, function, pickle, makes_rows)
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
        let start = Start {
            seed,
            epoch,
            epochs,
            threads,
            consumer,
            consumers,
            even,
            coordinated,
            ordered,
            executor,
            budget,
            memory,
            state,
        };
        start.iterate(py, self)
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

impl Pipeline {
    /// Returns the pipeline with one more op.
    fn with_node(&self, node: Node, blobs: BlobSet) -> Result<Self> {
        let graph = self.graph.then(node.clone())?;
        forebay_exec::check(&node, &blobs)?;
        // The order of the ops may be impossible as a whole.
        Stages::new(&graph.clone().with_reorder(Reorder::Off))?;
        Ok(Self { graph, blobs, listing: self.listing.clone(), id: OnceLock::new() })
    }
}

/// How several pipelines are read as one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Combine {
    how: Combining,
    column: Option<String>,
}

fn site(file: Option<String>, line: u32) -> Option<Site> {
    file.map(|file| Site { file, line })
}

fn mode(order: &str) -> Result<Reorder> {
    serde_json::from_value(order.into()).map_err(|e| Error::invalid(format!("not a freedom to reorder ops: {e}")))
}

fn describe(field: &Field) -> Described {
    let (dtype, shape) = match &field.kind {
        Kind::Bytes => ("bytes", None),
        Kind::Utf8 => ("string", None),
        Kind::Texts => ("string", Some(vec![None])),
        Kind::Scalar { dtype } => (dtype.name(), None),
        Kind::Tensor { dtype, shape } => (dtype.name(), Some(shape.clone())),
    };
    (field.name.clone(), dtype.to_owned(), shape, field.nullable, field.uniform)
}
