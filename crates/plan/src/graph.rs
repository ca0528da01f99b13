//! The pipeline as the user wrote it, checked as it is written, and its canonical name.
//!
//! Invariant: the dataset id depends on what is computed alone, never on where in the user's file it was written.

use std::sync::Arc;

use forebay_core::{DatasetId, Error, Result};
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use crate::on_error::OnError;
use crate::ops::op::{Class, Op};
use crate::reorder::{self, Chosen, Reorder, RunOrder};
use crate::source::Source;

/// A line of the user's code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// An op in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// What the user calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether the optimiser must leave it where it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_position: bool,
    /// Where the user wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<Site>,
}

impl Node {
    /// Makes a node without label or site.
    pub fn new(op: Op) -> Self {
        Self { op, label: None, keep_position: false, site: None }
    }

    /// Adds to an error which op it came from and where that was written.
    pub fn blame(&self, error: Error) -> Error {
        let error = error.with("op", self.title());
        match &self.site {
            Some(site) => error.with("line", site),
            None => error,
        }
    }

    /// Returns what people call it: the op, and the name that the user gave it.
    pub fn title(&self) -> String {
        match &self.label {
            Some(label) => format!("{} ({label})", self.op.name()),
            None => self.op.name().to_owned(),
        }
    }
}

/// A source and what is done to its rows. Immutable: adding an op gives a new graph that shares the old nodes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Graph {
    source: Source,
    site: Option<Site>,
    nodes: Vec<Arc<Node>>,
    schema: Schema,
    /// Whether rows are in batches at the end.
    batch: Option<(usize, bool)>,
    on_error: OnError,
    reorder: Reorder,
    chosen: Option<Chosen>,
}

/// What is written down of a graph. The version rises when an old reader could misunderstand.
#[derive(Serialize, Deserialize)]
struct Wire {
    version: u32,
    source: Source,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    site: Option<Site>,
    nodes: Vec<Node>,
    #[serde(default, skip_serializing_if = "OnError::is_raise")]
    on_error: OnError,
    #[serde(default, skip_serializing_if = "Reorder::is_exact")]
    order: Reorder,
    /// The order that was chosen by measuring; in what the dataset's id is the hash of, one that changes bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chosen: Option<Chosen>,
}

/// The version of the written form, and of one that may run in an order that gives other bytes.
const VERSION: u32 = 1;
const VERSION_RELAXED: u32 = 2;

impl From<Graph> for Wire {
    fn from(g: Graph) -> Self {
        let nodes = g.nodes.iter().map(|n| (**n).clone()).collect();
        let version = if g.reorder == Reorder::Relaxed { VERSION_RELAXED } else { VERSION };
        let (order, chosen) = (g.reorder, g.chosen);
        Self { version, source: g.source, site: g.site, nodes, on_error: g.on_error, order, chosen }
    }
}

impl TryFrom<Wire> for Graph {
    type Error = Error;

    fn try_from(wire: Wire) -> Result<Self> {
        if !(VERSION..=VERSION_RELAXED).contains(&wire.version) {
            return Err(Error::new(
                forebay_core::ErrorKind::Version,
                format!("a graph of version {} cannot be read: this is version {VERSION_RELAXED}", wire.version),
            ));
        }
        let graph = Graph::new(wire.source, wire.site)?.with_on_error(wire.on_error).with_reorder(wire.order);
        let graph = wire.nodes.into_iter().try_fold(graph, |g, n| g.then(n))?;
        match wire.chosen {
            Some(chosen) => graph.with_chosen(chosen),
            None => Ok(graph),
        }
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
        let schema = source.schema()?;
        Ok(Self {
            source,
            site,
            nodes: Vec::new(),
            schema,
            batch: None,
            on_error: OnError::Raise,
            reorder: Reorder::Exact,
            chosen: None,
        })
    }

    /// Adds an op.
    ///
    /// # Errors
    /// Whatever is wrong with it, naming the op and the user's line.
    pub fn then(&self, node: Node) -> Result<Self> {
        let (schema, batch) = self.check(&node).map_err(|e| node.blame(e))?;
        let mut graph = self.clone();
        (graph.schema, graph.batch) = (schema, batch);
        graph.nodes.push(Arc::new(node));
        Ok(graph)
    }

    fn check(&self, node: &Node) -> Result<(Schema, Option<(usize, bool)>)> {
        let schema = node.op.apply(&self.schema)?;
        if self.batch.is_some() {
            match node.op.class() {
                Class::Hint | Class::RowWise => {}
                _ => {
                    return Err(Error::invalid(format!("{} comes after batch", node.op.name()))
                        .hint("put it before batch, where it works on rows"));
                }
            }
        }
        if let (Op::Mix { .. }, None) = (&node.op, self.batch) {
            return Err(Error::invalid(format!("{} comes before batch", node.op.name()))
                .hint("put it behind batch: it mixes the samples of a batch"));
        }
        if let Op::Batch { size, drop_remainder } = node.op {
            if let Some(field) = schema.fields().iter().find(|f| is_ragged(&f.kind)) {
                return Err(Error::invalid(format!(
                    "batch: column {:?} is {}, and rows of different shapes make no batch",
                    field.name, field.kind
                ))
                .hint("resize or crop it to one shape first, use bucket_by_length, or drop the column"));
            }
            return Ok((schema, Some((size, drop_remainder))));
        }
        if let Op::BucketByLength(bucket) = &node.op {
            let most = bucket.batch_sizes.iter().copied().max().unwrap_or(0);
            return Ok((schema, Some((most, bucket.drop_remainder))));
        }
        if matches!(node.op.class(), Class::Order) {
            self.check_order(&node.op)?;
        }
        if self.nodes.iter().any(|n| n.op.class() == Class::Global) {
            check_after_global(&node.op)?;
        }
        Ok((schema, self.batch))
    }

    /// Order ops that the epoch plan does need a source that can be counted and no unknown count before them.
    fn check_order(&self, op: &Op) -> Result<()> {
        let streams = matches!(op, Op::Take { .. } | Op::Skip { .. } | Op::Shard { .. });
        if !self.source.can_index() && !streams {
            return Err(Error::invalid(format!(
                "{}: {} cannot be read in any other order",
                op.name(),
                self.source.name()
            ))
            .hint("use from_map_dataset, or write the samples to files first; epochs= repeats a generator"));
        }
        let cut = self.nodes.iter().position(|n| matches!(n.op.class(), Class::Filter));
        let streamed = |n: &Arc<Node>| matches!(n.op, Op::Take { .. } | Op::Skip { .. } | Op::Shard { .. });
        let from = if self.source.can_index() { cut } else { Some(0) };
        if let (false, Some(cut)) = (streams, from)
            && self.nodes[cut..].iter().any(streamed)
        {
            return Err(Error::invalid(format!(
                "{} after take, skip or shard of a number of rows that is not known before it runs",
                op.name()
            ))
            .hint(format!("put {} before the filter", op.name())));
        }
        Ok(())
    }

    /// Returns the source.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns where the source was written.
    pub fn site(&self) -> Option<&Site> {
        self.site.as_ref()
    }

    /// Adds to an error which source it came from and where that was written.
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

    /// Returns the size of (the largest) batches, and whether those that are not full are dropped, if rows are in batches
    /// at the end.
    pub fn batch(&self) -> Option<(usize, bool)> {
        self.batch
    }

    /// Returns what becomes of samples that fail.
    pub fn on_error(&self) -> OnError {
        self.on_error
    }

    /// Says what becomes of samples that fail.
    #[must_use]
    pub fn with_on_error(self, on_error: OnError) -> Self {
        Self { on_error, ..self }
    }

    /// Returns how much the order in which its ops run may change.
    pub fn reorder(&self) -> Reorder {
        self.reorder
    }

    /// Says how much the order in which its ops run may change.
    #[must_use]
    pub fn with_reorder(self, reorder: Reorder) -> Self {
        Self { reorder, ..self }
    }

    /// Returns the order that was chosen for its first ops by measuring. It is taken in the mode that it was chosen in.
    pub fn chosen(&self) -> Option<&Chosen> {
        self.chosen.as_ref()
    }

    /// Chooses the order in which its ops run. Ops that are added later stay behind them.
    ///
    /// # Errors
    /// Invalid when that is no order of its first ops, or one that its mode does not allow.
    pub fn with_chosen(self, chosen: Chosen) -> Result<Self> {
        reorder::check(&self, &chosen)?;
        Ok(Self { chosen: Some(chosen), ..self })
    }

    /// Returns this graph with the ops in the order in which they run in `other`, which computes the same.
    #[must_use]
    pub fn ordered_as(self, other: &Graph) -> Self {
        Self { reorder: other.reorder, chosen: other.chosen.clone(), ..self }
    }

    /// Returns the name of what this graph computes. Orders that give the same bytes have the same name.
    pub fn dataset_id(&self) -> DatasetId {
        let mut wire = Wire::from(self.clone());
        wire.site = None;
        wire.source = wire.source.named();
        // What is kept of a sample that was left out changes nothing about the others.
        wire.on_error = if wire.on_error.is_tolerant() { OnError::Skip } else { OnError::Raise };
        (wire.version, wire.order, wire.chosen) = (VERSION, Reorder::Exact, None);
        if let Some(places) = self.other_bytes() {
            (wire.order, wire.chosen) = (Reorder::Relaxed, Some(Chosen { mode: Reorder::Exact, places, speedup: 0.0 }));
        }
        wire.nodes.retain(|n| n.op.class() != Class::Hint);
        for node in &mut wire.nodes {
            (node.site, node.label, node.keep_position) = (None, None, false);
            node.op = node.op.named();
        }
        let canonical = serde_json::to_vec(&wire).unwrap_or_default();
        DatasetId(*blake3::hash(&canonical).as_bytes())
    }

    /// Returns the order in which its ops run, hints left out, if that gives other bytes than the order as written.
    fn other_bytes(&self) -> Option<Vec<usize>> {
        if self.reorder != Reorder::Relaxed {
            return None;
        }
        let order = RunOrder::of(self).ok().filter(|order| !order.is_exact())?;
        let numbers: Vec<_> = self
            .nodes
            .iter()
            .scan(0, |next, node| {
                let number = (node.op.class() != Class::Hint).then_some(*next);
                *next += usize::from(number.is_some());
                Some(number)
            })
            .collect();
        Some(order.places().iter().filter_map(|&place| numbers[place]).collect())
    }

    /// Returns the graph as it crosses processes.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads [`Graph::to_json`].
    ///
    /// # Errors
    /// Invalid when it is not a graph, Version when it is a later one.
    pub fn from_json(text: &str) -> Result<Self> {
        let wire: Wire = serde_json::from_str(text).map_err(|e| Error::invalid(format!("not a pipeline: {e}")))?;
        wire.try_into()
    }

    /// Returns the blobs that travel with the graph.
    pub fn blobs(&self) -> Vec<&crate::source::BlobId> {
        let source = match &self.source {
            Source::Memory { blob, .. } | Source::MapDataset { blob, .. } | Source::Generator { blob, .. } => {
                Some(blob)
            }
            _ => None,
        };
        source.into_iter().chain(self.nodes.iter().filter_map(|n| n.op.blob())).collect()
    }

    /// Returns the first difference to another graph, for people.
    pub fn difference(&self, other: &Graph) -> Option<String> {
        if self.source.named() != other.source.named() {
            let show = |s: &Source| format!("{}({})", s.name(), s.describe());
            return Some(format!("the source is {}, and was {}", show(&other.source), show(&self.source)));
        }
        if self.on_error != other.on_error {
            return Some(format!("on_error is {}, and was {}", other.on_error, self.on_error));
        }
        if self.other_bytes() != other.other_bytes() {
            return Some(format!("order is {}, and was {}", other.reorder, self.reorder));
        }
        let kept = |g: &Graph| g.nodes.iter().filter(|n| n.op.class() != Class::Hint).cloned().collect::<Vec<_>>();
        let (ours, theirs) = (kept(self), kept(other));
        let place = (0..ours.len().max(theirs.len()))
            .find(|&i| ours.get(i).map(|n| n.op.named()) != theirs.get(i).map(|n| n.op.named()))?;
        let show = |n: Option<&Arc<Node>>| n.map_or("nothing".to_owned(), |n| crate::explain::describe(&n.op));
        Some(format!("op {} is {}, and was {}", place + 1, show(theirs.get(place)), show(ours.get(place))))
    }
}

/// What comes after an op that makes other rows can only take them as they come.
fn check_after_global(op: &Op) -> Result<()> {
    match op {
        Op::Shuffle { .. } | Op::Repeat { .. } => {
            Err(Error::invalid(format!("{} comes after pack, whose rows are made as they come", op.name()))
                .hint(format!("put {} before pack, where it works on documents", op.name())))
        }
        Op::Pack(_) => Err(Error::invalid("pack comes after pack").hint("one is enough: give it the length")),
        _ => Ok(()),
    }
}

fn is_ragged(kind: &forebay_data::Kind) -> bool {
    matches!(kind, forebay_data::Kind::Tensor { .. }) && kind.known_shape().is_none()
}
