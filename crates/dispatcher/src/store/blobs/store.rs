//! The folder of the blobs: files named by the BLAKE3 hash of their content, in `blobs/` of the state folder. Each
//! tenant has its own folder in it, so the hash of another tenant's blob does not allow reading it.
//!
//! A blob exists as a whole or not at all: it is written to a temporary file, verified, flushed and renamed. It is
//! verified again when it is read; a rotten blob is removed, so that clients upload it again. The dispatchers of a
//! service share their blobs: in a folder that all of them reach, or in etcd, where the folder is a cache. Calls may
//! block.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Modes, Result};
use forebay_plan::BlobId;
use forebay_proto::BLOB_PART_BYTES_MAX;

use super::garbage::GarbageTracker;
use super::key::{at, check};
use super::room::{BlobLimits, Room};
use super::upload::BlobUpload;
use crate::store::etcd::EtcdBlobs;
use crate::store::service::ServiceId;

/// The folder of the blobs. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct BlobStore {
    pub(in crate::store) dir: PathBuf,
    /// The folder of all tenants.
    pub(in crate::store) root: Arc<Path>,
    /// The permissions of the files that are made there.
    pub(in crate::store) modes: Modes,
    /// Their tenant; empty without tenants.
    pub(in crate::store) tenant: String,
    /// The most bytes of its tenant's blobs.
    pub(in crate::store) quota: Option<u64>,
    /// The room for the blobs of all tenants.
    pub(in crate::store) room: Arc<Room>,
    /// Finds the garbage among the blobs of all tenants.
    pub(in crate::store) garbage: Arc<GarbageTracker>,
    pub(in crate::store) bytes_max: u64,
    /// The copy of the blobs in etcd, for other dispatchers.
    pub(in crate::store) etcd: Option<EtcdBlobs>,
}

impl BlobStore {
    /// Opens the folder of this dispatcher alone, and removes the temporary files of a crash.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(crate) fn open(state_dir: &Path, bytes_max: u64) -> Result<Self> {
        let dir = state_dir.join("blobs");
        let modes = Modes::of(&dir).map_err(|e| at(&dir, e))?;
        clean(&dir)?;
        Ok(Self::at(dir, modes, bytes_max))
    }

    /// Opens this service's folder in a folder that the dispatchers of several services share. Each service collects
    /// garbage in its own folder only.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(crate) fn shared(dir: &Path, service: &ServiceId, bytes_max: u64) -> Result<Self> {
        let modes = Modes::of(dir).map_err(|e| at(dir, e))?;
        let dir = dir.join(service.as_str());
        modes.folder(&dir).map_err(|e| at(&dir, e))?;
        Ok(Self::at(dir, modes, bytes_max))
    }

    fn at(dir: PathBuf, modes: Modes, bytes_max: u64) -> Self {
        Self {
            root: dir.as_path().into(),
            dir,
            modes,
            tenant: String::new(),
            quota: None,
            room: Arc::default(),
            garbage: Arc::default(),
            bytes_max,
            etcd: None,
        }
    }

    /// Opens the folder of this dispatcher, as a cache of the blobs in etcd.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(crate) fn cached(state_dir: &Path, bytes_max: u64, etcd: EtcdBlobs) -> Result<Self> {
        Ok(Self { etcd: Some(etcd), ..Self::open(state_dir, bytes_max)? })
    }

    /// Bounds the bytes of all tenants' blobs.
    pub(crate) fn limited(self, limits: BlobLimits) -> Self {
        Self { room: Arc::new(Room::new(limits)), ..self }
    }

    /// Bounds the bytes of this tenant's blobs.
    pub(crate) fn within(self, quota: Option<u64>) -> Self {
        Self { quota, ..self }
    }

    /// Returns the bytes of all blobs, if they were counted.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.room.bytes()
    }

    /// Returns the blobs of a tenant, by its checked name; empty without tenants.
    pub(crate) fn of(&self, tenant: &str) -> Self {
        let dir = if tenant.is_empty() { self.root.to_path_buf() } else { self.root.join(tenant) };
        let etcd = self.etcd.as_ref().map(|etcd| etcd.of(tenant));
        Self { dir, tenant: tenant.to_owned(), etcd, ..self.clone() }
    }

    /// Returns whether a blob exists; if so, it stays for a grace period. Waits for a blob that is being deleted.
    ///
    /// # Errors
    /// Unavailable when etcd does not answer.
    pub(crate) fn has(&self, id: &BlobId) -> Result<bool> {
        self.touch(id);
        match &self.etcd {
            _ if check(&id.0).is_err() => Ok(false),
            Some(etcd) => Ok(etcd.size(&id.0)?.is_some()),
            None => Ok(self.is_here(id)),
        }
    }

    /// Returns the blobs that do not exist, of these.
    ///
    /// # Errors
    /// Errors of [`BlobStore::has`].
    pub(crate) fn missing(&self, ids: impl IntoIterator<Item = BlobId>) -> Result<Vec<BlobId>> {
        let lacks = |id: BlobId| match self.has(&id) {
            Ok(true) => None,
            Ok(false) => Some(Ok(id)),
            Err(e) => Some(Err(e)),
        };
        ids.into_iter().filter_map(lacks).collect()
    }

    /// Stores bytes as a blob.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<BlobId> {
        let id = BlobId::of(bytes);
        if !self.has(&id)? {
            let mut upload = self.receive(&id.0)?;
            upload.write(bytes)?;
            upload.finish()?;
        }
        Ok(id)
    }

    /// Begins an upload.
    ///
    /// # Errors
    /// Invalid when `id` is no hash; errors of the disk.
    pub(crate) fn receive(&self, id: &str) -> Result<BlobUpload> {
        check(id)?;
        BlobUpload::new(self.clone(), BlobId(id.to_owned()))
    }

    /// Calls `see` with the parts of a blob, until it returns false.
    ///
    /// # Errors
    /// NotFound when the blob does not exist; Data, after the last part, when its hash is not its id.
    pub(crate) fn send(&self, id: &BlobId, mut see: impl FnMut(Bytes) -> bool) -> Result<()> {
        check(&id.0)?;
        let path = self.path(id);
        if !self.is_here(id) {
            self.fetch(id)?;
        }
        let mut file = File::open(&path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => missing(&id.0),
            _ => at(&path, e),
        })?;
        let mut hasher = blake3::Hasher::new();
        loop {
            let mut part = Vec::with_capacity(BLOB_PART_BYTES_MAX);
            let read = (&mut file).take(BLOB_PART_BYTES_MAX as u64).read_to_end(&mut part).map_err(|e| at(&path, e))?;
            if read == 0 {
                break;
            }
            hasher.update(&part);
            if !see(Bytes::from(part)) {
                return Ok(());
            }
        }
        if hasher.finalize().to_hex().as_str() == id.0 {
            return Ok(());
        }
        // The next caller gets NotFound instead of the corrupt bytes.
        let bytes = std::fs::metadata(&path).map_or(0, |of| of.len());
        std::fs::remove_file(&path).map_err(|e| at(&path, e))?;
        if self.etcd.is_none() {
            self.room.give(&self.tenant, bytes);
        }
        Err(Error::data(format!("blob {} was damaged on the dispatcher's disk and was removed", id.0))
            .with("file", path.display())
            .hint("open the job again: the client then uploads the blob again"))
    }

    /// Copies a blob from etcd to the folder, if etcd has it.
    fn fetch(&self, id: &BlobId) -> Result<()> {
        let Some(etcd) = &self.etcd else { return Ok(()) };
        let Some(bytes) = etcd.size(&id.0)? else { return Ok(()) };
        // It is in etcd already: it must not be written or counted again.
        let mut upload = Self { etcd: None, ..self.clone() }.receive(&id.0)?.copy();
        etcd.read(&id.0, bytes, |part| upload.write(&part))?;
        upload.finish()
    }

    pub(in crate::store) fn path(&self, id: &BlobId) -> PathBuf {
        self.dir.join(&id.0)
    }
}

/// Removes temporary files that a crash left behind, also in the folders of tenants.
fn clean(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir).map_err(|e| at(dir, e))? {
        let path = entry.map_err(|e| at(dir, e))?.path();
        if path.is_dir() {
            clean(&path)?;
        } else if path.extension().is_some_and(|e| e == "part") {
            std::fs::remove_file(&path).map_err(|e| at(&path, e))?;
        }
    }
    Ok(())
}

fn missing(id: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("the dispatcher keeps no blob {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(store: &BlobStore, id: &BlobId) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        store.send(id, |part| {
            bytes.extend_from_slice(&part);
            true
        })?;
        Ok(bytes)
    }

    #[test]
    fn a_blob_is_there_whole_or_not_at_all() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let store = BlobStore::open(dir.path(), 4 << 20)?;
        let bytes: Vec<u8> = (0..3_000_000u32).map(|i| i as u8).collect();
        let id = store.put(&bytes)?;
        assert_eq!(read(&store, &id)?, bytes);
        let empty = store.put(&[])?;
        assert_eq!(read(&store, &empty)?, [0; 0]);

        let mut wrong = store.receive(&BlobId::of(b"right").0)?;
        wrong.write(b"wrong")?;
        assert_eq!(wrong.finish().err().map(|e| e.kind()), Some(ErrorKind::Data));
        let mut large = store.receive(&id.0)?;
        assert_eq!(large.write(&vec![0; 5 << 20]).err().map(|e| e.kind()), Some(ErrorKind::Exhausted));
        drop(large);
        let half = store.receive(&id.0)?;
        std::mem::forget(half);
        BlobStore::open(dir.path(), 1)?;
        assert_eq!(std::fs::read_dir(dir.path().join("blobs"))?.count(), 2);
        Ok(())
    }

    #[test]
    fn room_is_taken_by_what_is_kept_once_and_a_restart_forgets_nothing() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let limits = BlobLimits { bytes: Some(10_000), keep_free: Some(0) };
        let refused = |put: Result<BlobId>| put.err().and_then(|e| Some((e.kind(), e.get("quota")?.to_owned())));
        let full = |what: &str| Some((ErrorKind::Exhausted, what.to_owned()));
        for start in 0..2u8 {
            let store = BlobStore::open(dir.path(), 1 << 20)?.limited(limits);
            let (a, b) = (store.of("a").within(Some(4000)), store.of("b"));
            a.put(&[1; 2000])?;
            // Two clients upload it at once, and a third gives up.
            let mut uploads = [a.receive(&BlobId::of(&[1; 500]).0)?, a.receive(&BlobId::of(&[1; 500]).0)?];
            uploads.iter_mut().try_for_each(|upload| upload.write(&[1; 500]))?;
            assert_eq!(refused(a.put(&[2; 1001])), full("blob bytes"), "with what arrives");
            uploads.into_iter().try_for_each(BlobUpload::finish)?;
            assert_eq!(refused(a.put(&[2; 1501])), full("blob bytes"));
            // A tenant without a quota may take half of the room.
            b.put(&[3; 5000])?;
            assert_eq!(refused(b.put(&[4; 1])), full("blob bytes"));
            assert_eq!(refused(store.of("c").put(&[5; 2501])), full("blob bytes"));
            assert_eq!((store.bytes(), start), (Some(7500), start));
        }
        let store = BlobStore::open(dir.path(), 1 << 20)?.limited(BlobLimits { bytes: None, keep_free: Some(1 << 62) });
        assert_eq!(refused(store.put(&[6; 1])), full("free bytes"));
        assert!(store.of("a").has(&BlobId::of(&[1; 2000]))?, "what is there is read");
        Ok(())
    }

    #[test]
    fn what_one_tenant_has_another_has_not() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let store = BlobStore::open(dir.path(), 1 << 20)?;
        let [a, b] = ["a", "b"].map(|tenant| store.of(tenant));
        let id = a.put(b"bytes")?;
        assert!(a.has(&id)? && !b.has(&id)? && !store.has(&id)? && read(&b, &id).is_err());
        std::mem::forget(b.receive(&id.0)?);
        BlobStore::open(dir.path(), 1)?;
        assert_eq!(read(&a, &id)?, b"bytes");
        assert_eq!(std::fs::read_dir(dir.path().join("blobs/b"))?.count(), 0);
        Ok(())
    }

    #[test]
    fn rot_is_noticed_once_and_ids_are_no_paths() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let store = BlobStore::open(dir.path(), 1 << 20)?;
        let id = store.put(b"bytes")?;
        std::fs::write(dir.path().join("blobs").join(&id.0), b"bytez")?;
        assert_eq!(read(&store, &id).err().map(|e| e.kind()), Some(ErrorKind::Data));
        assert_eq!(read(&store, &id).err().map(|e| e.kind()), Some(ErrorKind::NotFound));
        for id in ["../ledger.redb", "", &"A".repeat(64)] {
            assert_eq!(store.receive(id).err().map(|e| e.kind()), Some(ErrorKind::Invalid));
            assert!(!store.has(&BlobId(id.to_owned()))?);
        }
        Ok(())
    }
}
