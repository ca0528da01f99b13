//! The names of bytes that travel with a graph.

use serde::{Deserialize, Serialize};

/// The BLAKE3 hash, in hexadecimal, of bytes kept beside the graph: arrays, or a pickled Python object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobId(pub String);

impl BlobId {
    /// Returns the hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).to_hex().to_string())
    }

    /// Replaces the hash of a pickle by the name of its code, if it has one.
    pub(crate) fn name_by(&mut self, code: &mut String) {
        if !code.is_empty() {
            self.0 = std::mem::take(code);
        }
    }
}
