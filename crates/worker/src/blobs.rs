//! Fetches arrays, pickled functions and source indexes from the dispatcher, and caches them for later jobs.
//!
//! Invariant: a returned blob has the requested hash. Bound: the cache has [`BLOB_CACHE_BYTES_MAX`] bytes; a running
//! job holds its own blobs besides.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use bytes::{Bytes, BytesMut};
use forebay_core::{Error, ErrorKind, Result};
use forebay_plan::BlobId;
use forebay_proto::{GetBlobRequest, Link, Remote, attempt, client, to_error};

use crate::lock::lock;
use crate::options::BLOB_CACHE_BYTES_MAX;

#[derive(Default)]
struct Cache {
    blobs: HashMap<BlobId, Bytes>,
    /// The oldest first.
    order: VecDeque<BlobId>,
    bytes: usize,
}

/// The dispatcher's blobs.
pub(crate) struct BlobStore {
    dispatcher: Remote,
    /// The connection to the leading dispatcher, as long as it answers.
    link: Mutex<Option<Link>>,
    cache: Mutex<Cache>,
}

impl BlobStore {
    /// Connects when the first blob is needed.
    pub(crate) fn new(dispatcher: Remote) -> Self {
        Self { dispatcher, link: Mutex::default(), cache: Mutex::default() }
    }

    /// Returns a blob of a tenant. The cache is shared by tenants: an equal id means equal bytes, and the dispatcher
    /// has checked that this tenant has the blob when it defined the job.
    ///
    /// # Errors
    /// NotFound when the dispatcher has no such blob; Unavailable when it does not answer; Data when the bytes do not
    /// have this hash.
    pub(crate) async fn get(&self, id: &BlobId, tenant: &str) -> Result<Bytes> {
        if let Some(bytes) = lock(&self.cache).blobs.get(id) {
            return Ok(bytes.clone());
        }
        let fetched = self.fetch(id, tenant).await;
        if fetched.as_ref().is_err_and(|e| e.kind() == ErrorKind::Unavailable) {
            *lock(&self.link) = None;
        }
        let bytes = fetched?;
        lock(&self.cache).keep(id, &bytes);
        Ok(bytes)
    }

    async fn link(&self) -> Result<Link> {
        let known = lock(&self.link).clone();
        let link = match known {
            Some(link) => link,
            None => attempt(&self.dispatcher).await?,
        };
        Ok(lock(&self.link).get_or_insert(link).clone())
    }

    async fn fetch(&self, id: &BlobId, tenant: &str) -> Result<Bytes> {
        let failed = |status: tonic::Status| to_error(&status, &self.dispatcher.address);
        let request = GetBlobRequest { id: id.0.clone(), tenant: tenant.to_owned() };
        let mut parts = client(self.link().await?).get_blob(request).await.map_err(failed)?.into_inner();
        let mut bytes = BytesMut::new();
        while let Some(part) = parts.message().await.map_err(failed)? {
            bytes.extend_from_slice(&part.data);
        }
        let bytes = bytes.freeze();
        if BlobId::of(&bytes) != *id {
            return Err(Error::new(ErrorKind::Data, format!("blob {} arrived with other bytes", id.0))
                .with("address", &self.dispatcher.address));
        }
        Ok(bytes)
    }
}

impl Cache {
    fn keep(&mut self, id: &BlobId, bytes: &Bytes) {
        if bytes.len() > BLOB_CACHE_BYTES_MAX || self.blobs.insert(id.clone(), bytes.clone()).is_some() {
            return;
        }
        self.order.push_back(id.clone());
        self.bytes += bytes.len();
        while self.bytes > BLOB_CACHE_BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.blobs.remove(&oldest).map_or(0, |b| b.len());
        }
    }
}

/// The blobs of one job, fetched before the job is opened.
pub(crate) struct Fetched(pub(crate) HashMap<BlobId, Bytes>);

impl forebay_io::Blobs for Fetched {
    fn get(&self, id: &BlobId) -> Result<Bytes> {
        self.0
            .get(id)
            .cloned()
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("blob {} is not part of this job", id.0)))
    }
}
