//! Blobs over the wire. Files are read and written on blocking threads, a few parts ahead.

use forebay_core::{Error, Result};
use forebay_plan::BlobId;
use forebay_proto::{BLOB_PART_BYTES_MAX, BlobPart, to_status};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::refuse;
use crate::store::{BlobStore, BlobUpload};

/// Parts on their way between the wire and the disk.
const PARTS_AHEAD: usize = 2;
/// Blobs that may be asked about at once.
const IDS_MAX: usize = 100_000;

pub(super) async fn missing(store: &BlobStore, ids: Vec<String>) -> Result<Vec<String>> {
    if ids.len() > IDS_MAX {
        return Err(Error::invalid(format!("{} blobs asked about at once; the most is {IDS_MAX}", ids.len())));
    }
    let store = store.clone();
    let look = move || store.missing(ids.into_iter().map(BlobId));
    let missing = tokio::task::spawn_blocking(look).await;
    let missing = missing.map_err(|e| Error::internal(format!("looking for blobs ended: {e}")))??;
    Ok(missing.into_iter().map(|id| id.0).collect())
}

pub(super) async fn put(store: &BlobStore, mut inbound: Streaming<BlobPart>) -> Result<(), Status> {
    let first = super::first(&mut inbound).await?;
    let id = BlobId(first.id.clone());
    let upload = store.receive(&id.0).map_err(refuse)?;
    if missing(store, vec![id.0]).await.map_err(refuse)?.is_empty() {
        return Ok(());
    }
    let (parts, inbox) = mpsc::channel(PARTS_AHEAD);
    let writing = tokio::task::spawn_blocking(move || write(upload, inbox));
    let mut part = Some(first);
    while let Some(BlobPart { data, .. }) = part {
        if data.len() > BLOB_PART_BYTES_MAX {
            let message = format!("a part of {} bytes; the most is {BLOB_PART_BYTES_MAX}", data.len());
            return Err(refuse(Error::invalid(message)));
        }
        // The writer ends early only with an error, which is returned below.
        if parts.send(Some(data)).await.is_err() {
            break;
        }
        part = inbound.message().await?;
    }
    // Without this message a broken stream would look like a complete one.
    let _ = parts.send(None).await;
    writing.await.map_err(|e| refuse(Error::internal(format!("writing a blob ended: {e}"))))?.map_err(refuse)
}

fn write(mut upload: BlobUpload, mut inbox: mpsc::Receiver<Option<bytes::Bytes>>) -> Result<()> {
    while let Some(part) = inbox.blocking_recv() {
        match part {
            Some(data) => upload.write(&data)?,
            None => return upload.finish(),
        }
    }
    Err(Error::unavailable("a blob's stream broke"))
}

pub(super) fn get(store: &BlobStore, id: String) -> ReceiverStream<Result<BlobPart, Status>> {
    let (parts, stream) = mpsc::channel(PARTS_AHEAD);
    let store = store.clone();
    tokio::task::spawn_blocking(move || {
        let mut name = id.clone();
        let sent = store.send(&BlobId(id), |data| {
            parts.blocking_send(Ok(BlobPart { id: std::mem::take(&mut name), data })).is_ok()
        });
        if let Err(error) = sent {
            // The caller may be gone.
            let _ = parts.blocking_send(Err(to_status(&error)));
        }
    });
    ReceiverStream::new(stream)
}
