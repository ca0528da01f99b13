//! The ledger (small, durable, one transaction at a time) and the blobs (large, named by their content): in files of
//! one dispatcher's state folder, or in etcd for several dispatchers of which one leads.
//!
//! - `blobs/`: the blobs.
//! - `ledger`: the ledger in a file; `rows`: its rows as JSON; `row_codec`: rows under a checksum; `rollback_guard`:
//!   notices an old file.
//! - `committer`: writes batches without blocking the actor; `failure`: errors of the ledger's file; `repair`: checks
//!   and mends a ledger.
//! - `etcd/`: the ledger, the election and the blobs in etcd; `service`: the id of the service.

mod blobs;
mod committer;
#[cfg(test)]
mod damage;
mod etcd;
mod failure;
#[cfg(test)]
mod golden;
mod ledger;
mod repair;
mod rollback_guard;
mod row_codec;
mod rows;
mod service;

pub(crate) use blobs::garbage::Pin;
pub(crate) use blobs::key::BlobKey;
pub use blobs::room::BlobLimits;
pub(crate) use blobs::store::BlobStore;
pub(crate) use blobs::upload::BlobUpload;
pub(crate) use committer::Committer;
pub(crate) use etcd::{Etcd, EtcdBlobs, EtcdLedger, EtcdUrl, KeyValue, Keys, made_at, put, request};
pub(crate) use ledger::LedgerStore;
pub use repair::{LedgerReport, Repaired, check_ledger, dump_ledger, repair_ledger};
pub(crate) use service::ServiceId;
