//! A pipeline in Python's hands: the checked graph, and the blobs that travel with it.
//!
//! - `methods`: the methods of the Python class
//! - `counts`: batches and samples of an epoch; `trial`: the columns of a function, found on the first samples
//! - `iterate`: begins an iteration in this process

pub(super) mod blobs;
mod counts;
pub(crate) mod iterate;
mod methods;
mod trial;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use forebay_core::{Error, Result, Seed};
use forebay_exec::{Environment, Executable};
use forebay_io::SourceIndex;
use forebay_plan::{EpochPlan, Graph, Sharding, Site, Sizing, Stages};
use pyo3::prelude::*;

use crate::sources::indexing::Listing;
use blobs::BlobSet;

/// An immutable pipeline.
#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct Pipeline {
    pub(crate) graph: Graph,
    pub(crate) blobs: BlobSet,
    /// The listing of the source's files, for all pipelines made from this one.
    pub(crate) listing: Listing,
    /// The dataset id, once it was requested: to compute it writes the whole graph, which may hold a million rows' places.
    id: OnceLock<String>,
}

impl Pipeline {
    /// Returns a pipeline whose source has not been listed yet.
    fn of(graph: Graph, blobs: BlobSet) -> Self {
        Self { graph, blobs, listing: Listing::default(), id: OnceLock::new() }
    }

    /// Returns the same with another graph of the same source.
    pub(crate) fn with(&self, graph: Graph) -> Self {
        Self { graph, blobs: self.blobs.clone(), listing: self.listing.clone(), id: OnceLock::new() }
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

/// Adds the source and its line to an error.
fn blame_source(error: Error, name: &str, site: Option<&Site>) -> Error {
    let error = error.with("op", name);
    match site {
        Some(site) => error.with("line", site),
        None => error,
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
