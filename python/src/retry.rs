//! Samples from quarantine: their contents, and whether they pass now.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use forebay_core::{Error, Result, Seed, SystemClock};
use forebay_data::{Chunk, Memory, Schema, read_ipc};
use forebay_exec::{Environment, Executable};
use forebay_plan::{Combination, EpochPlan, Extent, Graph, Source, Stages};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::arrays::Columns;
use crate::errors::{detached, guard};
use crate::functions::runner::Runner;
use crate::pipeline::blobs::BlobSet;

/// The pipeline whose op failed on a record: the whole one, or one of the datasets that are read as one.
struct Failed {
    stages: Stages,
    seed: Seed,
}

impl Failed {
    /// Finds it by the name of the dataset in the error of a sample.
    fn of(graph: &Graph, part: Option<&str>, seed: Seed) -> Result<Self> {
        let stages = Stages::new(graph)?;
        let Some(name) = part else { return Ok(Self { stages, seed }) };
        let missing = || Error::data(format!("the pipeline has no dataset {name:?}"));
        let (graph, seed) = find(&stages.source, name, seed).ok_or_else(missing)?;
        Ok(Self { stages: Stages::new(&graph)?, seed })
    }

    /// Reads a record of a quarantine file.
    fn read(&self, record: &[u8]) -> Result<Chunk> {
        let (_, batches) = read_ipc(record)?;
        let batch = batches.first().ok_or_else(|| Error::data("a record in quarantine holds no row"))?;
        let schema: Schema = self.stages.source.schema()?;
        Chunk::from_record_batch(&Arc::new(schema), batch)
    }
}

/// Returns a dataset of a source by its name, and the seed of its random numbers.
fn find(source: &Source, name: &str, seed: Seed) -> Option<(Arc<Graph>, Seed)> {
    let Source::Combined(combined) = source else { return None };
    let mut parts = combined.parts.iter().enumerate();
    parts.find_map(|(number, part)| {
        let seed = Combination::part_seed(seed, number);
        if part.name == name { Some((part.graph.clone(), seed)) } else { find(part.graph.source(), name, seed) }
    })
}

/// Runs the row ops of a pipeline on a record, with functions in a separate process; raises the error if it still
/// fails. `part` is the dataset whose op failed, of the datasets that are read as one.
#[pyfunction]
#[pyo3(signature = (graph, blobs, seed, record, part=None))]
pub(crate) fn retry(
    py: Python<'_>,
    graph: &str,
    blobs: HashMap<String, Vec<u8>>,
    seed: u64,
    record: Vec<u8>,
    part: Option<&str>,
) -> PyResult<()> {
    let blobs = blobs.into_values().fold(BlobSet::default(), |set, blob| set.with(Bytes::from(blob)).0);
    let runner = Runner::new(py, "process", blobs.iter().map(|(id, _)| id.clone()).collect())?;
    let functions = runner.functions();
    let graph = guard(py, || Graph::from_json(graph))?;
    let ran = detached(py, || {
        let failed = Failed::of(&graph, part, Seed(seed))?;
        let chunk = failed.read(&record)?;
        let (stages, seed) = (Arc::new(failed.stages), failed.seed);
        let extent = Extent { rows: None, blocks: 1, bytes: 0, is_compressed: false, parts: Vec::new() };
        let plan = Arc::new(EpochPlan::new(&stages, extent, seed, 1, None)?);
        let environment = Environment {
            blobs: Arc::new(blobs),
            functions,
            memory: Memory::default(),
            cache_context: None,
            watch: Arc::new(SystemClock::default()),
        };
        Executable::for_rows(stages, plan, &environment)?.finish(chunk, 0).map(drop)
    });
    runner.stop();
    ran
}

/// Returns the columns of a record.
#[pyfunction]
#[pyo3(signature = (graph, record, part=None))]
pub(crate) fn record_row<'py>(
    py: Python<'py>,
    graph: &str,
    record: &[u8],
    part: Option<&str>,
) -> PyResult<Bound<'py, PyDict>> {
    let chunk = guard(py, || Failed::of(&Graph::from_json(graph)?, part, Seed(0))?.read(record))?;
    Columns::by_row(py, chunk)?.row(py, 0)
}
