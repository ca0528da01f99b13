//! The Flight ticket: the split whose chunks a consumer requests.
//!
//! A ticket is JSON, so that any Arrow Flight client can write one. A worker answers `DoGet(ticket)` with the
//! split's chunks in order; the stream's end with status OK means that the split is complete.

use forebay_core::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::messages::key::JobKey;

/// The split that a consumer requests from a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ticket {
    /// The job.
    pub job: u64,
    /// The epoch.
    pub epoch: u64,
    /// The consumer.
    pub consumer: u32,
    /// The split's number in the consumer's epoch.
    pub ordinal: u64,
    /// The fencing token of the lease; a worker refuses any but its own.
    pub token: u64,
    /// The first chunk to send. Default: 0.
    #[serde(default)]
    pub from_chunk: u64,
    /// The key of the job. Default: none.
    #[serde(default, skip_serializing_if = "JobKey::is_none")]
    pub key: JobKey,
    /// Whether the consumer records a trace: the worker then says when it computed each chunk. Default: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trace: bool,
}

impl Ticket {
    /// Writes the ticket.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a ticket.
    ///
    /// # Errors
    /// Invalid for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(|e| Error::invalid(format!("not a ticket: {e}")))
    }
}
