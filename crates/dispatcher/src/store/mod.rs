//! The disk: the ledger (small, durable, one transaction at a time) and the blobs (large, named by their content).

mod blobs;
mod committer;
mod ledger;

pub(crate) use blobs::{BlobStore, Incoming};
pub(crate) use committer::Committer;
pub(crate) use ledger::LedgerStore;
