//! An upload of a file to a store: in one request if it is small, otherwise in blocks. The file exists only once it is
//! finished.
//!
//! Bound: `BLOCKS_AT_ONCE` blocks in flight and the current one, of `BLOCK_BYTES` each. Invariant: blocks are joined in
//! the order in which they were written, in any order of arrival.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{MultipartId, ObjectStoreExt};

use super::fetch::Store;
use super::refusal;
use super::retry::Policy;
use super::{polled, shared, wait_polling};
use crate::poll::Poll;

/// The bytes of a block: stores require at least 5 MiB, and some require equal sizes of all but the last.
const BLOCK_BYTES: usize = 8 << 20;
/// Blocks of a file in flight.
const BLOCKS_AT_ONCE: usize = 3;
/// The most blocks of one file that a store accepts.
const BLOCKS_MAX: usize = 10_000;
/// A block may take this many times the timeout of a silent store (`FOREBAY_STORE_TIMEOUT`): the store sends nothing
/// while it receives a block.
const SILENCES: u32 = 6;
/// How long to wait for the blocks of an abandoned file, so that the store can delete them.
const ABORT_WAIT: Duration = Duration::from_secs(5);

/// An upload in progress. The file is complete once [`Upload::finish`] succeeds, and never visible in part.
pub(crate) struct Upload {
    store: Arc<Store>,
    path: Path,
    uri: String,
    /// The current block.
    block: Vec<u8>,
    begun: Option<(Arc<dyn MultipartStore>, MultipartId)>,
    under_way: VecDeque<Receiver<Result<PartId>>>,
    arrived: Vec<PartId>,
    bytes: u64,
    poll: Poll,
}

impl Upload {
    pub(in crate::store) fn new(store: Arc<Store>, path: Path, uri: String, poll: Poll) -> Self {
        let policy = Policy { stall: store.policy.stall * SILENCES, ..store.policy };
        let store = Arc::new(Store { policy, ..(*store).clone() });
        let (under_way, arrived) = (VecDeque::new(), Vec::new());
        Self { store, path, uri, block: Vec::new(), begun: None, under_way, arrived, bytes: 0, poll }
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// Sends the rest, and publishes the file.
    ///
    /// # Errors
    /// NotFound (no such bucket), PermissionDenied, Exhausted, Unavailable, naming the file.
    pub(crate) fn finish(mut self) -> Result<()> {
        if self.begun.is_none() {
            let (store, path, uri) = (self.store.clone(), self.path.clone(), self.uri.clone());
            let bytes = Bytes::from(std::mem::take(&mut self.block));
            return wait_polling(&self.poll, async move {
                let put = store.tried(&uri, || store.inner.put(&path, bytes.clone().into())).await;
                put.map(|_| ()).map_err(|e| refusal::unwritten(&uri, e))
            });
        }
        self.send()?;
        while !self.under_way.is_empty() {
            self.arrive()?;
        }
        let Some((blocks, id)) = self.begun.take() else { return Ok(()) };
        let (store, path, uri, all) = (self.store.clone(), self.path.clone(), self.uri.clone(), self.bytes);
        let parts = std::mem::take(&mut self.arrived);
        wait_polling(&self.poll, async move {
            let complete = || blocks.complete_multipart(&path, &id, parts.clone());
            match store.tried(&uri, complete).await.map(|_| ()) {
                // An attempt whose answer was lost may have finished the upload, and the store has then deleted its
                // blocks.
                Err(e) if e.kind() == ErrorKind::NotFound => match store.stat(&path, &uri).await {
                    Ok(there) if there.size == all => Ok(()),
                    _ => Err(lost(&uri)),
                },
                done => done.map_err(|e| refusal::unwritten(&uri, e)),
            }
        })
    }

    /// Begins an upload in blocks, if it has not begun.
    fn begin(&mut self) -> Result<(Arc<dyn MultipartStore>, MultipartId)> {
        if let Some(begun) = &self.begun {
            return Ok(begun.clone());
        }
        let blocks = self.store.blocks.as_ref().ok_or_else(|| Error::internal("a store without blocks"))?.0.clone();
        let (store, path, uri, to) = (self.store.clone(), self.path.clone(), self.uri.clone(), blocks.clone());
        let id = wait_polling(&self.poll, async move {
            let id = store.tried(&uri, || to.create_multipart(&path)).await;
            id.map_err(|e| refusal::unwritten(&uri, e))
        })?;
        Ok(self.begun.insert((blocks, id)).clone())
    }

    /// Sends the current block, once fewer than the most are in flight.
    fn send(&mut self) -> Result<()> {
        let (blocks, id) = self.begin()?;
        while self.under_way.len() >= BLOCKS_AT_ONCE {
            self.arrive()?;
        }
        let place = self.arrived.len() + self.under_way.len();
        if place >= BLOCKS_MAX {
            let most = BLOCKS_MAX as u64 * BLOCK_BYTES as u64;
            return Err(Error::new(ErrorKind::Exhausted, format!("a file of more than {most} bytes"))
                .with("file", &self.uri)
                .hint("save smaller files: file_bytes="));
        }
        let block = Bytes::from(std::mem::take(&mut self.block));
        let (send, receive) = sync_channel(1);
        let (store, path, uri) = (self.store.clone(), self.path.clone(), self.uri.clone());
        shared()?.runtime.spawn(async move {
            let put = store.tried(&uri, || blocks.put_part(&path, &id, place, block.clone().into())).await;
            let failed = |e: Error| match e.kind() {
                ErrorKind::NotFound => lost(&uri),
                _ => refusal::unwritten(&uri, e),
            };
            let _ = send.send(put.map_err(failed));
        });
        self.under_way.push_back(receive);
        Ok(())
    }

    /// Waits for the oldest block in flight.
    fn arrive(&mut self) -> Result<()> {
        let Some(block) = self.under_way.pop_front() else { return Ok(()) };
        self.arrived.push(polled(&self.poll, &block)?);
        Ok(())
    }
}

/// Returns the error when another party, or a rule of the bucket, has ended this upload.
fn lost(uri: &str) -> Error {
    Error::unavailable("the store lost the blocks of this file")
        .with("file", uri)
        .hint("save again: it goes on behind the last file")
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full block is sent only when more bytes follow, so that a file of one block is put whole.
        if self.block.len() >= BLOCK_BYTES {
            self.send().map_err(io::Error::other)?;
        }
        let taken = bytes.len().min(BLOCK_BYTES - self.block.len());
        self.block.extend_from_slice(&bytes[..taken]);
        self.bytes += taken as u64;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Upload {
    /// Aborts an unfinished upload, or the store would keep its blocks.
    fn drop(&mut self) {
        let (Some((blocks, id)), Ok(shared)) = (self.begun.take(), shared()) else { return };
        let (path, (send, receive)) = (self.path.clone(), sync_channel(1));
        shared.runtime.spawn(async move {
            let _ = blocks.abort_multipart(&path, &id).await;
            let _ = send.send(());
        });
        let _ = receive.recv_timeout(ABORT_WAIT);
    }
}
