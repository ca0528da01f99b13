//! The error policy for samples that fail. It affects the output of a pipeline, so it is stored with the graph.

use serde::{Deserialize, Serialize};

/// The action for a sample that fails by itself: a corrupt record, an image that cannot be decoded, an exception in a
/// user's function. A fault of the whole pipeline ends it in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// End with its error.
    #[default]
    Raise,
    /// Skip it, and report it.
    Skip,
    /// Skip it, and save its record.
    Quarantine,
}

impl OnError {
    /// Returns whether samples that fail are skipped.
    pub fn is_tolerant(self) -> bool {
        self != OnError::Raise
    }

    pub(crate) fn is_raise(&self) -> bool {
        *self == OnError::Raise
    }
}

impl std::fmt::Display for OnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            OnError::Raise => "raise",
            OnError::Skip => "skip",
            OnError::Quarantine => "quarantine",
        })
    }
}
