//! How much the order of ops may change, and an order that was chosen by measuring. Both are stored with a graph.

use serde::{Deserialize, Serialize};

/// How much the order in which ops run may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reorder {
    /// No byte of any sample may change.
    #[default]
    Exact,
    /// Bytes may change, but not their distribution: an image is resized before its colours are changed. The order is
    /// decided by the pipeline alone, which includes an order that was measured before, and is part of the dataset id.
    Relaxed,
    /// Ops run as written.
    Off,
}

impl Reorder {
    pub(crate) fn is_exact(&self) -> bool {
        *self == Self::Exact
    }
}

impl std::fmt::Display for Reorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Reorder::Exact => "exact",
            Reorder::Relaxed => "relaxed",
            Reorder::Off => "off",
        })
    }
}

/// An order of the first ops of a graph that was chosen by measuring. It is checked when a graph is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chosen {
    /// The mode in which it was chosen, and in which it holds: exact or relaxed.
    #[serde(default, skip_serializing_if = "Reorder::is_exact")]
    pub mode: Reorder,
    /// The op that runs at each place.
    pub places: Vec<usize>,
    /// The time of the order as written, divided by the time of this order.
    pub speedup: f64,
}
