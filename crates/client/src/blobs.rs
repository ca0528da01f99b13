//! Uploads blobs to the dispatcher before a job is opened, and keeps the blobs of the ops that this process runs.

use std::collections::HashMap;

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use forebay_plan::{BlobId, Stages, TailStep};
use forebay_proto::{BLOB_PART_BYTES_MAX, BlobPart, MissingBlobsRequest};

use crate::service::Service;

/// Uploads the blobs of `ids` that the dispatcher lacks.
pub(crate) fn upload(
    service: &Service,
    ids: &[&BlobId],
    blobs: &dyn Fn(&BlobId) -> Option<Bytes>,
    poll: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let request = MissingBlobsRequest { ids: ids.iter().map(|id| id.0.clone()).collect() };
    let answer = service.call(
        move |mut c| {
            let request = request.clone();
            async move { c.missing_blobs(request).await }
        },
        poll,
    )?;
    for id in answer.ids {
        let id = BlobId(id);
        let bytes = blobs(&id).ok_or_else(|| missing(&id))?;
        service.call(
            move |mut c| {
                let parts: Vec<_> = parts(&id, bytes.clone()).collect();
                async move { c.put_blob(futures::stream::iter(parts)).await }
            },
            poll,
        )?;
    }
    Ok(())
}

/// Splits a blob into upload parts, which share its memory.
fn parts(id: &BlobId, bytes: Bytes) -> impl Iterator<Item = BlobPart> + Send + 'static {
    let id = id.0.clone();
    let count = bytes.len().div_ceil(BLOB_PART_BYTES_MAX).max(1);
    (0..count).map(move |i| {
        let start = i * BLOB_PART_BYTES_MAX;
        let data = bytes.slice(start..bytes.len().min(start + BLOB_PART_BYTES_MAX));
        BlobPart { id: if i == 0 { id.clone() } else { String::new() }, data }
    })
}

/// The blobs of the ops that run in this process.
#[derive(Default)]
pub(crate) struct TailBlobs(HashMap<BlobId, Bytes>);

impl TailBlobs {
    /// Takes the blobs of the ops that run after the merge.
    pub(crate) fn of(stages: &Stages, blobs: &dyn Fn(&BlobId) -> Option<Bytes>) -> Result<Self> {
        let mut kept = HashMap::new();
        for step in &stages.tail {
            let TailStep::RowOps(fused) = step else { continue };
            for id in fused.steps().iter().filter_map(|s| s.node.op.blob()) {
                kept.insert(id.clone(), blobs(id).ok_or_else(|| missing(id))?);
            }
        }
        Ok(Self(kept))
    }
}

impl forebay_io::Blobs for TailBlobs {
    fn get(&self, id: &BlobId) -> Result<Bytes> {
        self.0.get(id).cloned().ok_or_else(|| missing(id))
    }
}

fn missing(id: &BlobId) -> Error {
    Error::new(ErrorKind::NotFound, format!("blob {} of the pipeline is not in this process", id.0))
}
