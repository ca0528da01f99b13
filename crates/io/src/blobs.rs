//! The bytes that travel with a pipeline.

use forebay_core::{Error, ErrorKind, Result};
use forebay_plan::BlobId;

/// Returns the bytes of a blob that travels with a graph (arrays).
pub trait Blobs: Send + Sync {
    /// Returns the bytes whose hash is `id`.
    ///
    /// # Errors
    /// NotFound when there is no such blob.
    fn get(&self, id: &BlobId) -> Result<bytes::Bytes>;
}

/// For pipelines without arrays and pickles: it has no blobs.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBlobs;

impl Blobs for NoBlobs {
    fn get(&self, id: &BlobId) -> Result<bytes::Bytes> {
        Err(Error::new(ErrorKind::NotFound, format!("there is no blob {}", id.0)))
    }
}
