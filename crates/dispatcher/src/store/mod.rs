//! What outlives the dispatcher: the ledger (small, durable, one transaction at a time) and the blobs (large, named by
//! their content). In files of one dispatcher's state folder, or in etcd for several of which one leads.

mod blobs;
mod committer;
mod etcd;
mod ledger;
mod rows;

pub(crate) use blobs::{BlobStore, Incoming};
pub(crate) use committer::Committer;
pub(crate) use etcd::{Etcd, EtcdBlobs, EtcdLedger, EtcdUrl, KeyValue, Keys, made_at, put, request};
pub(crate) use ledger::LedgerStore;
