//! Serves cached rows to other workers: lists blocks, sends parts of them, and sends rows that a peer is about to
//! compute.
//!
//! Invariants: a peer that does not show the key of this service gets nothing; of a request for parts, one part is in
//! memory at a time; of a request for rows, one answer, which is bounded.

use std::sync::Arc;
use std::time::Duration;

use forebay_cache::{Cache, FileKey, Part, PeerExports, PeerReply, PeerRequest, PrefixKey, RowKey};
use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::{Block, BlockPart, Frame, FrameHead, JobKey, ROWS_MAX, send_column, to_json};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::peers::membership::Membership;

/// The most blocks that are listed. Peers do not find the others.
const BLOCKS_MAX: usize = 50_000;

/// See the module's documentation.
pub(crate) struct BlockServer {
    exports: Option<PeerExports>,
    membership: Arc<Membership>,
}

impl BlockServer {
    pub(crate) fn new(cache: Option<&Arc<Cache>>, membership: Arc<Membership>) -> Self {
        Self { exports: cache.and_then(|cache| cache.exports()), membership }
    }

    fn exports(&self, key: &JobKey) -> Result<PeerExports> {
        if !self.membership.admits(key) {
            let message = "cached rows are served to workers of the same service only";
            return Err(Error::new(ErrorKind::PermissionDenied, message));
        }
        self.exports.clone().ok_or_else(|| Error::new(ErrorKind::NotFound, "this worker has no cache"))
    }

    /// Returns the JSON of the blocks of a prefix.
    ///
    /// # Errors
    /// PermissionDenied for another key; Invalid if the prefix cannot be parsed; NotFound if this worker has no cache.
    pub(crate) async fn list(&self, prefix: &str, key: &JobKey) -> Result<String> {
        let (exports, prefix) = (self.exports(key)?, PrefixKey::parse(prefix)?);
        let blocks = tokio::task::spawn_blocking(move || exports.blocks(prefix)).await;
        let blocks = blocks.map_err(|e| Error::internal(format!("listing blocks ended: {e}")))?;
        let blocks: Vec<_> =
            blocks.into_iter().take(BLOCKS_MAX).map(|block| Block { name: block.name, bytes: block.bytes }).collect();
        serde_json::to_string(&blocks).map_err(|e| Error::internal(e.to_string()))
    }

    /// Sends each part of a block, or the reason why it is not there.
    ///
    /// # Errors
    /// The system's error: the connection is of no more use.
    pub(crate) async fn send(
        &self,
        to: &mut (impl AsyncWrite + Unpin),
        parts: Vec<BlockPart>,
        key: &JobKey,
    ) -> std::io::Result<()> {
        let exports = self.exports(key);
        for BlockPart { name, start, end } in parts {
            let read = match exports.clone() {
                Ok(exports) => {
                    tokio::task::spawn_blocking(move || exports.read(&Part { name, range: start..end })).await
                }
                Err(refusal) => Ok(Err(refusal)),
            };
            match read.unwrap_or_else(|e| Err(Error::internal(format!("reading a block ended: {e}")))) {
                Ok(bytes) => send_part(to, &bytes).await?,
                Err(error) => send_error(to, &error).await?,
            }
        }
        to.flush().await
    }

    /// Sends rows to a peer that would compute them: blocks of rows that are here, or arrive while it waits.
    ///
    /// # Errors
    /// PermissionDenied for another key; Invalid if the prefix or the rows cannot be parsed; NotFound if this worker
    /// has no cache; the system's error, when the connection is of no more use.
    pub(crate) async fn give(
        &self,
        to: &mut (impl AsyncWrite + Unpin),
        request: RowsRequest,
        key: &JobKey,
    ) -> Result<()> {
        let (exports, prefix) = (self.exports(key)?, PrefixKey::parse(&request.prefix)?);
        let mut rows = Vec::new();
        for (file, numbers) in request.rows {
            let wrong = |_| Error::invalid(format!("{file:?} names no file"));
            let file = FileKey(u128::from_str_radix(&file, 16).map_err(wrong)?.to_be_bytes());
            rows.extend(numbers.into_iter().map(|row| RowKey { file, row }));
        }
        rows.truncate(ROWS_MAX);
        let (rank, limit) = (request.rank, Duration::from_millis(request.wait_ms));
        let reply =
            tokio::task::spawn_blocking(move || exports.rows(&PeerRequest { prefix, rows: &rows, rank }, limit)).await;
        let PeerReply { blocks, waited } = reply.map_err(|e| Error::internal(format!("giving rows ended: {e}")))??;
        for block in blocks {
            send_part(to, &block).await?;
        }
        let waited = (waited.as_nanos() as u64).to_le_bytes();
        to.write_all(&FrameHead::of_body(Frame::End, waited.len()).to_bytes()).await?;
        to.write_all(&waited).await?;
        Ok(to.flush().await?)
    }
}

/// A request for rows that a peer would compute.
pub(crate) struct RowsRequest {
    pub(crate) prefix: String,
    pub(crate) rows: Vec<(String, Vec<u64>)>,
    pub(crate) rank: u64,
    pub(crate) wait_ms: u64,
}

async fn send_part(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<()> {
    to.write_all(&FrameHead::of_body(Frame::Part, bytes.len()).to_bytes()).await?;
    send_column(to, bytes).await
}

async fn send_error(to: &mut (impl AsyncWrite + Unpin), error: &Error) -> std::io::Result<()> {
    let json = to_json(error);
    to.write_all(&FrameHead::of_body(Frame::Failed, json.len()).to_bytes()).await?;
    to.write_all(json.as_bytes()).await
}
