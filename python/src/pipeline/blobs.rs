//! The arrays and pickles that travel with a pipeline.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use forebay_plan::BlobId;

/// Blobs by their hash. Cheap to clone; adding makes a new set that shares the bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct BlobSet(Arc<HashMap<BlobId, Bytes>>);

impl BlobSet {
    pub(crate) fn with(&self, bytes: Bytes) -> (Self, BlobId) {
        let id = BlobId::of(&bytes);
        if self.0.contains_key(&id) {
            return (self.clone(), id);
        }
        let mut blobs = (*self.0).clone();
        blobs.insert(id.clone(), bytes);
        (Self(Arc::new(blobs)), id)
    }

    /// Returns the blobs of both.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let mut blobs = (*self.0).clone();
        blobs.extend(other.0.iter().map(|(id, bytes)| (id.clone(), bytes.clone())));
        Self(Arc::new(blobs))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&BlobId, &Bytes)> {
        self.0.iter()
    }
}

impl forebay_io::Blobs for BlobSet {
    fn get(&self, id: &BlobId) -> Result<Bytes> {
        self.0.get(id).cloned().ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no blob {}", id.0)))
    }
}
