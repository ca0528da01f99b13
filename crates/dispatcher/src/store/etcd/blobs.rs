//! Blobs in etcd, in parts. They are named by their content, so two writers of a blob write the same, and no blob is
//! ever changed.
//!
//! The parts of a blob are written first, its size last: the blob exists if its size does. Readers verify it (see
//! `store::blobs`). The blobs of each tenant lie under its name. If etcd does not answer for a moment, the call is
//! repeated: otherwise opening a job would fail.

#![expect(clippy::disallowed_methods, reason = "etcd is asked again within a bound")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::not_leader;
use tokio::time::{Instant, sleep};

use super::client::{Etcd, VALUE_BYTES_MAX, delete, made_at, put, request};
use super::generated::{KeyValue, RequestOp, TxnRequest};
use super::keys::{Keys, behind};
use crate::store::blobs::key::{BlobKey, check};
use crate::tenant::check_name;

/// How long etcd may not answer: longer than its members take to elect their leader.
const SILENT_MAX: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

/// The blobs that all dispatchers share. Cheap to clone; call it on threads that may block.
#[derive(Clone)]
pub(crate) struct EtcdBlobs {
    etcd: Arc<Etcd>,
    keys: Keys,
    /// Their tenant; empty without tenants.
    tenant: String,
    runtime: tokio::runtime::Handle,
}

impl std::fmt::Debug for EtcdBlobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdBlobs").finish_non_exhaustive()
    }
}

impl EtcdBlobs {
    /// Must be called within a runtime.
    pub(crate) fn new(etcd: Arc<Etcd>, keys: Keys) -> Self {
        Self { etcd, keys, tenant: String::new(), runtime: tokio::runtime::Handle::current() }
    }

    /// Returns the blobs of a tenant, by its checked name.
    pub(crate) fn of(&self, tenant: &str) -> Self {
        Self { tenant: tenant.to_owned(), ..self.clone() }
    }

    /// Returns the number of bytes of a blob, if it exists.
    ///
    /// # Errors
    /// Unavailable when etcd does not answer; Data when the value is no number.
    pub(crate) fn size(&self, id: &str) -> Result<Option<u64>> {
        let Some(kv) = self.get(&self.keys.blob(&self.tenant, id))? else { return Ok(None) };
        let size = std::str::from_utf8(&kv.value).ok().and_then(|text| text.parse().ok());
        size.map(Some).ok_or_else(|| Error::data(format!("the size of blob {id} in etcd is no number")))
    }

    /// Writes a blob of `bytes` bytes, in the parts that `read` returns.
    ///
    /// # Errors
    /// Errors of etcd; errors of `read`.
    pub(crate) fn write(&self, id: &str, bytes: u64, mut read: impl FnMut(usize) -> Result<Vec<u8>>) -> Result<()> {
        for part in 0..parts(bytes) {
            self.put(put(self.keys.blob_part(&self.tenant, id, part), read(VALUE_BYTES_MAX)?, 0))?;
        }
        self.put(put(self.keys.blob(&self.tenant, id), bytes.to_string().into_bytes(), 0))
    }

    /// Calls `see` with the parts of a blob.
    ///
    /// # Errors
    /// Data when a part is missing; errors of etcd; errors of `see`.
    pub(crate) fn read(&self, id: &str, bytes: u64, mut see: impl FnMut(Bytes) -> Result<()>) -> Result<()> {
        for part in 0..parts(bytes) {
            let kv = self.get(&self.keys.blob_part(&self.tenant, id, part))?;
            let kv = kv.ok_or_else(|| Error::data(format!("part {part} of blob {id} is missing in etcd")))?;
            see(Bytes::from(kv.value))?;
        }
        Ok(())
    }

    /// Lists the blobs of all tenants, with their tenants.
    ///
    /// # Errors
    /// Unavailable when etcd does not answer.
    pub(crate) fn list(&self) -> Result<Vec<BlobKey>> {
        let prefix = self.keys.blobs();
        let keys = self.ask(async || self.etcd.names(&prefix).await)?;
        Ok(keys.iter().filter_map(|key| whose(key.strip_prefix(&prefix[..])?)).collect())
    }

    /// Removes a blob if the leader that was elected at `revision` still leads; returns whether it does.
    ///
    /// # Errors
    /// Unavailable when etcd does not answer.
    pub(crate) fn remove(&self, id: &str, revision: i64) -> Result<bool> {
        let size = self.keys.blob(&self.tenant, id);
        let parts = [&size[..], b"/"].concat();
        let ops = vec![delete(size, Vec::new()), delete(parts.clone(), behind(&parts))];
        let txn = request(vec![made_at(&self.keys.leader(), revision)], ops);
        Ok(self.ask(async || self.etcd.txn(txn.clone()).await)?.succeeded)
    }

    fn get(&self, key: &[u8]) -> Result<Option<KeyValue>> {
        self.ask(async || self.etcd.get(key).await)
    }

    fn put(&self, op: RequestOp) -> Result<()> {
        let txn = TxnRequest { success: vec![op], ..TxnRequest::default() };
        self.ask(async || self.etcd.txn(txn.clone()).await).map(drop)
    }

    /// Repeats a call until etcd answers, within a time limit. The call may be executed twice.
    fn ask<T>(&self, ask: impl AsyncFn() -> Result<T>) -> Result<T> {
        self.runtime.block_on(async {
            let end = Instant::now() + SILENT_MAX;
            loop {
                match ask().await {
                    Err(e) if e.kind() != ErrorKind::Unavailable => return Err(e),
                    Err(_) if Instant::now() < end => sleep(PAUSE).await,
                    // A term is shorter than that: the caller should ask another dispatcher, or this one once it leads
                    // again.
                    Err(e) => return Err(not_leader(e.message(), "")),
                    answer => return answer,
                }
            }
        })
    }
}

/// Reads the blob whose size a key holds: `id` or `tenant/id`; `None` for keys of parts.
fn whose(key: &[u8]) -> Option<BlobKey> {
    let key = std::str::from_utf8(key).ok()?;
    let (tenant, id) = key.split_once('/').unwrap_or(("", key));
    let is_one = check(id).is_ok() && (tenant.is_empty() || check_name(tenant).is_ok() && check(tenant).is_err());
    is_one.then(|| (tenant.to_owned(), id.to_owned()))
}

fn parts(bytes: u64) -> usize {
    (bytes as usize).div_ceil(VALUE_BYTES_MAX)
}
