//! Hands blobs to the dispatcher before a job is opened, and those of the tail's ops to this process's engine.

use std::collections::HashMap;

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use forebay_plan::{BlobId, Stages, TailStep};
use forebay_proto::{BLOB_PART_BYTES_MAX, BlobPart, MissingBlobsRequest};

use crate::service::Service;

/// Uploads those of `ids` that the dispatcher lacks.
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
    let missing = service.call(
        move |mut c| {
            let request = request.clone();
            async move { c.missing_blobs(request).await }
        },
        poll,
    )?;
    for id in missing.ids {
        let id = BlobId(id);
        let bytes = blobs(&id).ok_or_else(|| lacking(&id))?;
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

/// The parts share the blob's memory.
fn parts(id: &BlobId, bytes: Bytes) -> impl Iterator<Item = BlobPart> + Send + 'static {
    let id = id.0.clone();
    let count = bytes.len().div_ceil(BLOB_PART_BYTES_MAX).max(1);
    (0..count).map(move |i| {
        let start = i * BLOB_PART_BYTES_MAX;
        let data = bytes.slice(start..bytes.len().min(start + BLOB_PART_BYTES_MAX));
        BlobPart { id: if i == 0 { id.clone() } else { String::new() }, data }
    })
}

/// The blobs that this process runs by itself.
#[derive(Default)]
pub(crate) struct TailBlobs(HashMap<BlobId, Bytes>);

impl TailBlobs {
    /// Takes what the ops need that run after the merge.
    pub(crate) fn of(stages: &Stages, blobs: &dyn Fn(&BlobId) -> Option<Bytes>) -> Result<Self> {
        let mut kept = HashMap::new();
        for step in &stages.tail {
            let TailStep::Work(work) = step else { continue };
            for id in work.steps().iter().filter_map(|s| s.node.op.blob()) {
                kept.insert(id.clone(), blobs(id).ok_or_else(|| lacking(id))?);
            }
        }
        Ok(Self(kept))
    }
}

impl forebay_io::Blobs for TailBlobs {
    fn get(&self, id: &BlobId) -> Result<Bytes> {
        self.0.get(id).cloned().ok_or_else(|| lacking(id))
    }
}

fn lacking(id: &BlobId) -> Error {
    Error::new(ErrorKind::NotFound, format!("blob {} of the pipeline is not in this process", id.0))
}
