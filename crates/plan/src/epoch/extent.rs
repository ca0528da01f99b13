//! The size of a source, as known when a job starts.

use serde::{Deserialize, Serialize};

/// The size of a source, as known when a job starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Its rows, if they were counted. For datasets that are read as one: the rows of all their sources.
    pub rows: Option<u64>,
    /// Its blocks.
    pub blocks: u64,
    /// Its bytes, as stored; for compressed files, those of their content, or an estimate if they are not counted.
    pub bytes: u64,
    /// Whether its files can only be read from their start, because their names show that they are compressed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_compressed: bool,
    /// For datasets that are read as one: the size of the source of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Extent>,
}
