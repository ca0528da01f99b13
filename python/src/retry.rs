//! Samples from quarantine: their contents, and whether they pass now.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use forebay_core::{Error, Result, Seed, SystemClock};
use forebay_data::{Chunk, Memory, Schema, read_ipc};
use forebay_exec::{Environment, Executable};
use forebay_plan::{EpochPlan, Extent, Graph, Stages};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::Columns;
use crate::blobs::BlobSet;
use crate::errors::{detached, guard};
use crate::runner::Runner;

/// Reads a record of a quarantine file.
fn read(graph: &Graph, record: &[u8]) -> Result<Chunk> {
    let (_, batches) = read_ipc(record)?;
    let batch = batches.first().ok_or_else(|| Error::data("a record in quarantine holds no row"))?;
    let schema: Schema = Stages::new(graph)?.source.schema()?;
    Chunk::from_record_batch(&Arc::new(schema), batch)
}

/// Runs the row ops of a pipeline on a record, with functions in a separate process; raises the error if it still
/// fails.
#[pyfunction]
pub(crate) fn retry(
    py: Python<'_>,
    graph: &str,
    blobs: HashMap<String, Vec<u8>>,
    seed: u64,
    record: Vec<u8>,
) -> PyResult<()> {
    let blobs = blobs.into_values().fold(BlobSet::default(), |set, blob| set.with(Bytes::from(blob)).0);
    let runner = Runner::new(py, "process", blobs.iter().map(|(id, _)| id.clone()).collect())?;
    let functions = runner.functions();
    let graph = guard(py, || Graph::from_json(graph))?;
    let ran = detached(py, || {
        let chunk = read(&graph, &record)?;
        let stages = Arc::new(Stages::new(&graph)?);
        let extent = Extent { rows: None, blocks: 1, bytes: 0, is_compressed: false, parts: Vec::new() };
        let plan = Arc::new(EpochPlan::new(&stages, extent, Seed(seed), 1, None)?);
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
pub(crate) fn record_row<'py>(py: Python<'py>, graph: &str, record: &[u8]) -> PyResult<Bound<'py, PyDict>> {
    let chunk = guard(py, || read(&Graph::from_json(graph)?, record))?;
    Columns::of(py, chunk)?.row(py, 0)
}
