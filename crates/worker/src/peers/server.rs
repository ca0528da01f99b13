//! Shows other workers what is kept here: which blocks there are, and parts of them; and gives them rows that they would compute.
//!
//! Invariants: whoever does not show the key that the dispatcher tells its workers is shown nothing; of a question one part is in
//! memory at a time, and of rows that are given one answer, which has a bound.

use std::sync::Arc;
use std::time::Duration;

use forebay_cache::{Asked, Cache, FileKey, Given, Lent, Part, PrefixKey, RowKey};
use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::{Block, BlockPart, Frame, FrameHead, JobKey, ROWS_MAX, send_column, to_json};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::peers::membership::Membership;

/// The most blocks that are listed. Others are not found.
const BLOCKS_MAX: usize = 50_000;

/// See the module's documentation.
pub(crate) struct BlockServer {
    lent: Option<Lent>,
    membership: Arc<Membership>,
}

impl BlockServer {
    pub(crate) fn new(cache: Option<&Arc<Cache>>, membership: Arc<Membership>) -> Self {
        Self { lent: cache.and_then(|cache| cache.lent()), membership }
    }

    fn lent(&self, key: &JobKey) -> Result<Lent> {
        if !self.membership.admits(key) {
            let message = "what a worker keeps is shown to workers of its own service";
            return Err(Error::new(ErrorKind::PermissionDenied, message));
        }
        self.lent.clone().ok_or_else(|| Error::new(ErrorKind::NotFound, "this worker keeps nothing"))
    }

    /// Returns the JSON of the blocks of a prefix.
    ///
    /// # Errors
    /// PermissionDenied for another key; Invalid where it is no prefix; NotFound where nothing is kept.
    pub(crate) async fn list(&self, prefix: &str, key: &JobKey) -> Result<String> {
        let (lent, prefix) = (self.lent(key)?, PrefixKey::parse(prefix)?);
        let blocks = tokio::task::spawn_blocking(move || lent.blocks(prefix)).await;
        let blocks = blocks.map_err(|e| Error::internal(format!("listing blocks ended: {e}")))?;
        let blocks: Vec<_> =
            blocks.into_iter().take(BLOCKS_MAX).map(|block| Block { name: block.name, bytes: block.bytes }).collect();
        serde_json::to_string(&blocks).map_err(|e| Error::internal(e.to_string()))
    }

    /// Sends parts of blocks, or of each why it is not there.
    ///
    /// # Errors
    /// What the system says: the connection is of no more use.
    pub(crate) async fn send(
        &self,
        to: &mut (impl AsyncWrite + Unpin),
        parts: Vec<BlockPart>,
        key: &JobKey,
    ) -> std::io::Result<()> {
        let lent = self.lent(key);
        for BlockPart { name, start, end } in parts {
            let read = match lent.clone() {
                Ok(lent) => tokio::task::spawn_blocking(move || lent.read(&Part { name, range: start..end })).await,
                Err(refusal) => Ok(Err(refusal)),
            };
            match read.unwrap_or_else(|e| Err(Error::internal(format!("reading a block ended: {e}")))) {
                Ok(bytes) => part(to, &bytes).await?,
                Err(error) => failed(to, &error).await?,
            }
        }
        to.flush().await
    }
}

impl BlockServer {
    /// Gives rows to a worker that would compute them: sends blocks of what there is of them, or comes to be here while it waits.
    ///
    /// # Errors
    /// PermissionDenied for another key; Invalid where it is no prefix, or no rows; NotFound where nothing is kept; or what the system
    /// says, when the connection is of no more use.
    pub(crate) async fn give(
        &self,
        to: &mut (impl AsyncWrite + Unpin),
        wanted: RowsRequest,
        key: &JobKey,
    ) -> Result<()> {
        let (lent, prefix) = (self.lent(key)?, PrefixKey::parse(&wanted.prefix)?);
        let mut rows = Vec::new();
        for (file, numbers) in wanted.rows {
            let wrong = |_| Error::invalid(format!("{file:?} names no file"));
            let file = FileKey(u128::from_str_radix(&file, 16).map_err(wrong)?.to_be_bytes());
            rows.extend(numbers.into_iter().map(|row| RowKey { file, row }));
        }
        rows.truncate(ROWS_MAX);
        let (rank, limit) = (wanted.rank, Duration::from_millis(wanted.wait_ms));
        let given = tokio::task::spawn_blocking(move || lent.give(&Asked { prefix, rows: &rows, rank }, limit)).await;
        let Given { blocks, waited } = given.map_err(|e| Error::internal(format!("giving rows ended: {e}")))??;
        for block in blocks {
            part(to, &block).await?;
        }
        let waited = (waited.as_nanos() as u64).to_le_bytes();
        to.write_all(&FrameHead::of_body(Frame::End, waited.len()).to_bytes()).await?;
        to.write_all(&waited).await?;
        Ok(to.flush().await?)
    }
}

/// Rows that a worker would compute, as it asks for them.
pub(crate) struct RowsRequest {
    pub(crate) prefix: String,
    pub(crate) rows: Vec<(String, Vec<u64>)>,
    pub(crate) rank: u64,
    pub(crate) wait_ms: u64,
}

async fn part(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<()> {
    to.write_all(&FrameHead::of_body(Frame::Part, bytes.len()).to_bytes()).await?;
    send_column(to, bytes).await
}

async fn failed(to: &mut (impl AsyncWrite + Unpin), error: &Error) -> std::io::Result<()> {
    let json = to_json(error);
    to.write_all(&FrameHead::of_body(Frame::Failed, json.len()).to_bytes()).await?;
    to.write_all(json.as_bytes()).await
}
