//! The stored form of a graph: its JSON, its dataset id, and the order of ops that was chosen for it.
//!
//! Invariant: the dataset id depends only on the computation, never on the user's lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::{DatasetId, Error, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::times::Times;
use super::{Graph, Node, Site, WrittenOp};
use crate::chosen_order::{Chosen, Reorder};
use crate::on_error::OnError;
use crate::ops::Class;
use crate::ops::expr::TimeUnit;
use crate::reorder::{self, RunOrder};
use crate::source::Source;

/// The stored form of a graph. The version rises when an older version of Forebay could misread it.
#[derive(Serialize, Deserialize)]
struct StoredGraph {
    version: u32,
    source: Source,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    site: Option<Site>,
    nodes: Vec<Node>,
    #[serde(default, skip_serializing_if = "OnError::is_raise")]
    on_error: OnError,
    #[serde(default, skip_serializing_if = "Reorder::is_exact")]
    order: Reorder,
    /// The order that was chosen by measuring. For the dataset id: the run order, if it changes bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chosen: Option<Chosen>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    keeps_ids: bool,
    /// The units of time columns of the source. The dataset id does not depend on them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    times: BTreeMap<String, TimeUnit>,
}

/// The version of the stored form, and the version for a graph that may run in an order that changes bytes.
const VERSION: u32 = 1;
const VERSION_RELAXED: u32 = 2;

/// The most characters of an op in words.
const WRITTEN_CHARS_MAX: usize = 60;

fn digest(of: &impl Serialize) -> String {
    let bytes = serde_json::to_vec(of).unwrap_or_default();
    blake3::hash(&bytes).as_bytes()[..3].iter().map(|byte| format!("{byte:02x}")).collect()
}

impl From<Graph> for StoredGraph {
    fn from(g: Graph) -> Self {
        let nodes = g.nodes.iter().map(|n| (**n).clone()).collect();
        let version = if g.reorder == Reorder::Relaxed { VERSION_RELAXED } else { VERSION };
        let (order, chosen, keeps_ids) = (g.reorder, g.chosen, g.keeps_ids);
        let times = g.source_times.units().clone();
        Self { version, source: g.source, site: g.site, nodes, on_error: g.on_error, order, chosen, keeps_ids, times }
    }
}

impl TryFrom<StoredGraph> for Graph {
    type Error = Error;

    fn try_from(stored: StoredGraph) -> Result<Self> {
        if !(VERSION..=VERSION_RELAXED).contains(&stored.version) {
            return Err(Error::new(
                forebay_core::ErrorKind::Version,
                format!("a graph of version {} cannot be read: this is version {VERSION_RELAXED}", stored.version),
            ));
        }
        let graph = Graph::new(stored.source, stored.site)?.with_on_error(stored.on_error).with_reorder(stored.order);
        let graph = graph.with_ids(stored.keeps_ids).with_times(stored.times);
        let graph = stored.nodes.into_iter().try_fold(graph, |g, n| g.then(n))?;
        match stored.chosen {
            Some(chosen) => graph.with_chosen(chosen),
            None => Ok(graph),
        }
    }
}

impl Serialize for Graph {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        StoredGraph::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Graph {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        StoredGraph::deserialize(deserializer)?.try_into().map_err(de::Error::custom)
    }
}

impl Graph {
    /// Sets the order in which its ops run. Ops that are added later run after them.
    ///
    /// # Errors
    /// Invalid when it is no order of its first ops, or its mode does not allow it.
    pub fn with_chosen(self, chosen: Chosen) -> Result<Self> {
        reorder::check(&self, &chosen)?;
        Ok(Self { chosen: Some(chosen), ..self })
    }

    /// Returns the id of the rows that this graph computes. Orders with the same bytes have the same id.
    pub fn dataset_id(&self) -> DatasetId {
        let canonical = serde_json::to_vec(&self.named()).unwrap_or_default();
        DatasetId(*blake3::hash(&canonical).as_bytes())
    }

    /// Returns the graph as part of another one that is hashed or compared.
    pub(crate) fn canonical(&self) -> Self {
        let StoredGraph { source, site, nodes, on_error, order, chosen, .. } = self.named();
        let nodes = nodes.into_iter().map(Arc::new).collect();
        let source_times = Times::default();
        Self { source, site, nodes, on_error, reorder: order, chosen, source_times, ..self.clone() }
    }

    /// Returns the parts of the graph that determine the rows.
    fn named(&self) -> StoredGraph {
        let mut stored = StoredGraph::from(self.clone());
        stored.site = None;
        stored.times.clear();
        stored.source = stored.source.named();
        // The place where the bytes of skipped samples are saved changes no other sample.
        stored.on_error = if stored.on_error.is_tolerant() { OnError::Skip } else { OnError::Raise };
        (stored.version, stored.order, stored.chosen) = (VERSION, Reorder::Exact, None);
        if let Some(places) = self.other_bytes() {
            (stored.order, stored.chosen) =
                (Reorder::Relaxed, Some(Chosen { mode: Reorder::Exact, places, speedup: 0.0 }));
        }
        stored.nodes.retain(|n| n.op.class() != Class::Hint);
        for node in &mut stored.nodes {
            (node.site, node.label, node.keep_position) = (None, None, false);
            node.op = node.op.named();
        }
        stored
    }

    /// Returns the order in which its ops run, without hints, if that order changes bytes.
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

    /// Returns its source and its ops, as they are written and compared. Hints are left out.
    pub fn outline(&self) -> Vec<WrittenOp> {
        let show = |name: &str, arguments: &str| {
            let text = format!("{name}({arguments})");
            match text.char_indices().nth(WRITTEN_CHARS_MAX) {
                Some((end, _)) => format!("{}…)", &text[..end]),
                None => text,
            }
        };
        let source = &self.source;
        let first = WrittenOp {
            text: show(source.name(), &source.describe()),
            digest: digest(&source.named()),
            site: self.site.clone(),
        };
        let ops = self.nodes.iter().filter(|n| n.op.class() != Class::Hint).map(|n| WrittenOp {
            text: show(n.op.name(), &n.op.spec().arguments()),
            digest: digest(&n.op.named()),
            site: n.site.clone(),
        });
        std::iter::once(first).chain(ops).collect()
    }

    /// Returns the JSON of the graph, which processes exchange.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads [`Graph::to_json`].
    ///
    /// # Errors
    /// Invalid when it is not a graph, Version when its version is a later one.
    pub fn from_json(text: &str) -> Result<Self> {
        let stored: StoredGraph =
            serde_json::from_str(text).map_err(|e| Error::invalid(format!("not a pipeline: {e}")))?;
        stored.try_into()
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
