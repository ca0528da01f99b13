//! The pipeline as the user wrote it: a source and its ops, checked as they are added.
//!
//! - `stored`: the JSON of a graph, its dataset id, and the first difference to another graph
//! - `node`: an op in its place
//! - `order_checks`: whether an op that chooses or orders rows may stand where the user wrote it
//! - `declared`: the columns that follow an image
//! - `steady`: whether a column is the same with every seed
//! - `times`: the units of time columns

mod declared;
mod node;
mod order_checks;
mod steady;
mod stored;
mod times;

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::{Kind, Ragged, Schema};

use crate::chosen_order::{Chosen, Reorder};
use crate::on_error::OnError;
use crate::ops::expr::TimeUnit;
use crate::ops::{self, Class, Op, ShuffleWindow};
use crate::source::{Combining, Source};
use declared::Declared;
use times::Times;

pub use node::{Node, Site, WrittenOp};

/// A source and the ops on its rows. Immutable: adding an op returns a new graph that shares the old nodes.
#[derive(Debug, Clone)]
pub struct Graph {
    source: Source,
    site: Option<Site>,
    nodes: Vec<Arc<Node>>,
    schema: Schema,
    /// The columns that follow an image at the end.
    declared: Declared,
    /// The units of time columns: of the source, if its files have them, and at the end.
    source_times: Times,
    times: Times,
    /// Whether rows are in batches at the end.
    batch: Option<(usize, bool)>,
    on_error: OnError,
    reorder: Reorder,
    chosen: Option<Chosen>,
    /// Whether its rows travel with their ids, because ops behind the mix that it is a part of need them.
    keeps_ids: bool,
}

impl PartialEq for Graph {
    /// Compares the ops as written; the columns follow from them.
    fn eq(&self, other: &Self) -> bool {
        (&self.source, &self.site, &self.nodes) == (&other.source, &other.site, &other.nodes)
            && (self.on_error, self.reorder, &self.chosen) == (other.on_error, other.reorder, &other.chosen)
            && self.keeps_ids == other.keeps_ids
    }
}

impl Graph {
    /// Starts a pipeline.
    ///
    /// # Errors
    /// Invalid when the source's columns clash or its arguments are out of range.
    pub fn new(source: Source, site: Option<Site>) -> Result<Self> {
        if matches!(source, Source::Range { step: 0, .. }) {
            return Err(Error::invalid("range: step must not be 0"));
        }
        if let Source::Combined(combined) = &source {
            combined.check()?;
        }
        let schema = source.schema()?;
        let declared = declared_of(&source)?;
        let times = times_of(&source)?;
        Ok(Self {
            declared,
            source_times: Times::default(),
            times,
            source,
            site,
            nodes: Vec::new(),
            schema,
            batch: None,
            on_error: OnError::Raise,
            reorder: Reorder::Exact,
            chosen: None,
            keeps_ids: false,
        })
    }

    /// Adds an op.
    ///
    /// # Errors
    /// Any fault of the op, with its name and the user's line.
    pub fn then(&self, mut node: Node) -> Result<Self> {
        node.op = self.declared.attach(node.op.clone()).map_err(|e| node.blame(e))?;
        let (schema, batch) = self.check(&node).map_err(|e| node.blame(e))?;
        let declared = self.declared.after(&node.op, &schema).map_err(|e| node.blame(e))?;
        let mut graph = self.clone();
        graph.times = self.times.after(&node.op, &schema);
        (graph.schema, graph.batch, graph.declared) = (schema, batch, declared);
        graph.nodes.push(Arc::new(node));
        Ok(graph)
    }

    fn check(&self, node: &Node) -> Result<(Schema, Option<(usize, bool)>)> {
        let schema = node.op.apply(&self.schema)?;
        self.check_numbered_rows(&node.op)?;
        if self.batch.is_some() {
            if let Some(with) = node.op.annotations() {
                with.check_ragged(node.op.name(), &self.schema)?;
            }
            match node.op.class() {
                Class::Hint | Class::RowWise => {}
                // After `batch`, these ops count batches.
                Class::Order if matches!(node.op, Op::Take(_) | Op::Skip(_)) => {}
                _ => {
                    return Err(Error::invalid(format!("{} comes after batch", node.op.name()))
                        .hint(instead_of_after_batch(&node.op)));
                }
            }
        }
        if node.op.needs_batch() && self.batch.is_none() {
            return Err(Error::invalid(format!("{} comes before batch", node.op.name()))
                .hint("put it behind batch: it mixes the samples of a batch"));
        }
        let batched = match &node.op {
            Op::Batch(batch) => Some((batch.size, batch.drop_remainder, true)),
            Op::PaddedBatch(batch) => Some((batch.size, batch.drop_remainder, batch.padding.is_none())),
            _ => None,
        };
        if let Some((size, drop_remainder, same_shapes)) = batched {
            // `exec` checks the lengths of lists.
            let is_other = |kind: &Kind| is_ragged(kind) && Ragged::inner(kind).is_none();
            if same_shapes && let Some(field) = schema.fields().iter().find(|f| is_other(&f.kind)) {
                return Err(Error::invalid(format!(
                    "batch: column {:?} is {}, and rows of different shapes make no batch",
                    field.name, field.kind
                ))
                .hint("resize or crop it to one shape first, use bucket_by_length, or drop the column"));
            }
            return Ok((schema, Some((size, drop_remainder))));
        }
        match &node.op {
            Op::BucketByLength(op) => return Ok((schema, Some((op.rows_max(), op.drop_remainder)))),
            Op::BatchByKey(op) => return Ok((schema, Some((op.size, op.drop_remainder)))),
            _ => {}
        }
        if matches!(node.op.class(), Class::Order) {
            self.check_order(&node.op)?;
        }
        if self.nodes.iter().any(|n| n.op.class() == Class::Global) {
            check_after_global(&node.op)?;
        }
        Ok((schema, self.batch))
    }

    /// Returns the source.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Checks that the graph can be one job of a service.
    ///
    /// # Errors
    /// Invalid for a mix whose rows are put together at the consumer.
    pub fn check_on_service(&self) -> Result<()> {
        if !self.source.is_streamed_mix() {
            return Ok(());
        }
        let error = Error::invalid(
            "this mix is no single job: how many rows its datasets give is not known before they are read",
        );
        Err(self.blame_source(error.hint("open each dataset as a job (Service::open_mix)")))
    }

    /// Returns the line of the source.
    pub fn site(&self) -> Option<&Site> {
        self.site.as_ref()
    }

    /// Adds the source and its line to an error.
    pub fn blame_source(&self, error: Error) -> Error {
        let error = error.with("op", self.source.name());
        self.site.iter().fold(error, |error, site| error.with("line", site))
    }

    /// Returns the ops in order.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// Returns the columns of a row at the end.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the size of (the largest) batches, and whether batches that are not full are dropped, if rows are in
    /// batches at the end.
    pub fn batch(&self) -> Option<(usize, bool)> {
        self.batch
    }

    /// Returns the error policy for samples that fail.
    pub fn on_error(&self) -> OnError {
        self.on_error
    }

    /// Sets the error policy for samples that fail.
    #[must_use]
    pub fn with_on_error(self, on_error: OnError) -> Self {
        Self { on_error, ..self }
    }

    /// Returns how much the order in which its ops run may change.
    pub fn reorder(&self) -> Reorder {
        self.reorder
    }

    /// Sets how much the order in which its ops run may change.
    #[must_use]
    pub fn with_reorder(self, reorder: Reorder) -> Self {
        Self { reorder, ..self }
    }

    /// Returns the order that was chosen for its first ops by measuring. It holds in the mode in which it was chosen.
    pub fn chosen(&self) -> Option<&Chosen> {
        self.chosen.as_ref()
    }

    /// Returns this graph with its ops in the run order of `other`, which computes the same.
    #[must_use]
    pub fn ordered_as(self, other: &Graph) -> Self {
        Self { reorder: other.reorder, chosen: other.chosen.clone(), ..self }
    }

    /// Returns whether an epoch never ends.
    pub fn is_endless(&self) -> bool {
        let is_endless = |node: &Arc<Node>| matches!(node.op, Op::Repeat(ops::Repeat { count: None }));
        self.source.is_endless() || self.nodes.iter().any(is_endless)
    }

    /// Returns the same pipeline as one of `sharers` pipelines that share the memory for the windows of shuffles.
    #[must_use]
    pub(crate) fn sharing_memory(&self, sharers: u64) -> Self {
        let mut graph = self.clone();
        for node in &mut graph.nodes {
            if let Op::Shuffle(ops::Shuffle { window: ShuffleWindow::Auto }) = node.op {
                let op = Op::Shuffle(ops::Shuffle { window: ShuffleWindow::Shared(sharers) });
                *node = Arc::new(Node { op, ..(**node).clone() });
            }
        }
        graph
    }

    /// Sets the units of time columns of its source. It has no op yet.
    #[must_use]
    pub fn with_times(self, units: BTreeMap<String, TimeUnit>) -> Self {
        if units.is_empty() {
            return self;
        }
        let times = Times::of_columns(&units, &self.schema);
        Self { source_times: times.clone(), times, ..self }
    }

    /// Returns the units of time columns, where they are known.
    pub fn times(&self) -> &BTreeMap<String, TimeUnit> {
        self.times.units()
    }

    /// Returns the same pipeline with rows that travel with their ids, if `keeps`.
    #[must_use]
    pub(crate) fn with_ids(self, keeps: bool) -> Self {
        Self { keeps_ids: keeps, ..self }
    }

    /// Returns whether its rows travel with their ids, also where its own ops need none.
    pub(crate) fn keeps_ids(&self) -> bool {
        self.keeps_ids
    }

    /// Returns the same ops over another source with the same columns.
    #[must_use]
    pub(crate) fn with_source(&self, source: Source) -> Self {
        Self { source, ..self.clone() }
    }

    /// Returns the blobs that travel with the graph.
    pub fn blobs(&self) -> Vec<&crate::source::BlobId> {
        let source = match &self.source {
            Source::Memory { blob, .. } | Source::MapDataset { blob, .. } | Source::Generator { blob, .. } => {
                vec![blob]
            }
            Source::Combined(combined) => combined.parts.iter().flat_map(|part| part.graph.blobs()).collect(),
            _ => Vec::new(),
        };
        source.into_iter().chain(self.nodes.iter().filter_map(|n| n.op.blob())).collect()
    }

    /// Returns the blobs of its ops, and of the ops of the datasets that are its source.
    pub fn op_blobs(&self) -> Vec<&crate::source::BlobId> {
        let of_parts = match &self.source {
            Source::Combined(combined) => combined.parts.iter().flat_map(|part| part.graph.op_blobs()).collect(),
            _ => Vec::new(),
        };
        self.nodes.iter().filter_map(|n| n.op.blob()).chain(of_parts).collect()
    }
}

/// Returns the columns that follow an image in the rows of a source.
///
/// # Errors
/// Invalid when datasets that are read one after another declare differently.
fn declared_of(source: &Source) -> Result<Declared> {
    let Source::Combined(combined) = source else { return Ok(Declared::default()) };
    let parts = &combined.parts;
    if matches!(combined.how, Combining::Window { .. }) {
        return Ok(Declared::default());
    }
    if matches!(combined.how, Combining::Zip { .. }) {
        return Ok(Declared::joined(parts.iter().map(|part| &part.graph.declared)));
    }
    let Some(first) = parts.first() else { return Ok(Declared::default()) };
    match parts.iter().find(|part| part.graph.declared != first.graph.declared) {
        None => Ok(first.graph.declared.clone()),
        Some(other) => {
            let (name, first, other) = (combined.name(), &first.name, &other.name);
            Err(Error::invalid(format!("{name}: {first:?} and {other:?} have different annotations"))
                .hint(format!("write the same annotate for each dataset, or one behind {name}")))
        }
    }
}

/// Returns the units of the time columns of several datasets that are read as one; of another source, none.
///
/// # Errors
/// Invalid when datasets that are read one after another have different units for a column.
fn times_of(source: &Source) -> Result<Times> {
    let Source::Combined(combined) = source else { return Ok(Times::default()) };
    let parts = &combined.parts;
    if matches!(combined.how, Combining::Zip { .. }) {
        return Ok(Times::joined(parts.iter().map(|part| &part.graph.times)));
    }
    let named: Vec<_> = parts.iter().map(|part| (part.name.as_str(), &part.graph.times)).collect();
    Times::common(combined.name(), &named)
}

/// Returns a hint for an op that cannot follow `batch`.
fn instead_of_after_batch(op: &Op) -> &'static str {
    match op {
        Op::Repeat(_) => "put it before batch, or give iter() a number of epochs, across which no batch runs",
        Op::Shard(_) => "give iter() consumers=(index, count): each consumer gets every count-th batch",
        Op::Batch(_) | Op::PaddedBatch(_) | Op::BucketByLength(_) | Op::BatchByKey(_) => {
            "give the batch op before it the size that you want"
        }
        _ => "put it before batch, where it works on rows",
    }
}

/// Checks an op after a global op: it can only process rows in the order in which they come.
fn check_after_global(op: &Op) -> Result<()> {
    match op {
        Op::Shuffle(_) | Op::Repeat(_) => {
            Err(Error::invalid(format!("{} comes after pack, whose rows are made as they come", op.name()))
                .hint(format!("put {} before pack, where it works on documents", op.name())))
        }
        Op::Pack(_) => Err(Error::invalid("pack comes after pack").hint("one is enough: give it the length")),
        _ => Ok(()),
    }
}

fn is_ragged(kind: &Kind) -> bool {
    matches!(kind, Kind::Tensor { .. }) && kind.known_shape().is_none()
}
