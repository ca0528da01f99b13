//! What outlives the dispatcher: the ledger (small, durable, one transaction at a time) and the blobs (large, named by
//! their content). In files of one dispatcher's state folder, or in etcd for several of which one leads.

mod blobs;
mod committer;
#[cfg(test)]
mod damage;
mod etcd;
mod failure;
#[cfg(test)]
mod golden;
mod incoming;
mod leaving;
mod ledger;
mod needless;
mod repair;
mod room;
mod rows;
mod sealed;
mod service;
mod witness;

pub(crate) use blobs::{BlobKey, BlobStore};
pub(crate) use committer::Committer;
pub(crate) use etcd::{Etcd, EtcdBlobs, EtcdLedger, EtcdUrl, KeyValue, Keys, made_at, put, request};
pub(crate) use incoming::Incoming;
pub(crate) use ledger::LedgerStore;
pub(crate) use needless::Pin;
pub use repair::{LedgerReport, Repaired, check_ledger, dump_ledger, repair_ledger};
pub use room::BlobLimits;
pub(crate) use service::ServiceId;
