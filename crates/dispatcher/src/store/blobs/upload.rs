//! A blob that is being uploaded: written to a temporary file, verified, flushed, copied to etcd if blobs are there,
//! and renamed.

#![expect(clippy::disallowed_methods, reason = "the name of a temporary file")]

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use forebay_core::{Error, ErrorKind, Result};
use forebay_plan::BlobId;

use super::key::at;
use super::room::Whose;
use super::store::BlobStore;

/// An upload. If it is dropped before its end, it leaves nothing behind.
pub(crate) struct BlobUpload {
    store: BlobStore,
    id: BlobId,
    part: PathBuf,
    file: File,
    hasher: blake3::Hasher,
    bytes: u64,
    /// The bytes that are counted against the tenant, and not stored yet.
    counted: u64,
    is_copy: bool,
}

impl BlobUpload {
    /// # Errors
    /// Errors of the disk.
    pub(in crate::store) fn new(store: BlobStore, id: BlobId) -> Result<Self> {
        store.modes.folder(&store.dir).map_err(|e| at(&store.dir, e))?;
        let part = store.dir.join(format!("{}.part", uuid::Uuid::new_v4()));
        let file = store.modes.file(&part).map_err(|e| at(&part, e))?;
        Ok(Self { store, id, part, file, hasher: blake3::Hasher::new(), bytes: 0, counted: 0, is_copy: false })
    }

    /// Makes this a copy of a blob that is stored and counted elsewhere.
    pub(in crate::store) fn copy(mut self) -> Self {
        self.is_copy = true;
        self
    }

    /// Takes room for bytes that arrived.
    fn take_room(&mut self, bytes: u64) -> Result<()> {
        let store = &self.store;
        if self.is_copy {
            return store.room.check_disk(&store.dir, bytes).map(drop);
        }
        let whose = Whose { tenant: &store.tenant, quota: store.quota };
        store.room.take(whose, &store.dir, bytes, || store.count())?;
        self.counted += bytes;
        Ok(())
    }

    /// Takes the next part.
    ///
    /// # Errors
    /// Exhausted when the blob is too large; errors of the disk.
    pub(crate) fn write(&mut self, part: &[u8]) -> Result<()> {
        self.bytes += part.len() as u64;
        if self.bytes > self.store.bytes_max {
            let max = self.store.bytes_max;
            return Err(Error::new(ErrorKind::Exhausted, format!("a blob is larger than {max} bytes")).hint(
                "put the data in files that every worker can read; with etcd, larger blobs need --blob-dir, a folder that all \
                 dispatchers share",
            ));
        }
        self.take_room(part.len() as u64)?;
        self.hasher.update(part);
        self.file.write_all(part).map_err(|e| at(&self.part, e))
    }

    /// Moves the blob to its place.
    ///
    /// # Errors
    /// Data when the bytes do not have the id's hash; errors of the disk.
    pub(crate) fn finish(mut self) -> Result<()> {
        let hash = self.hasher.finalize().to_hex();
        if hash.as_str() != self.id.0 {
            return Err(Error::data(format!("the bytes of blob {} have the hash {hash}", self.id.0))
                .hint("they were changed on the way: try again"));
        }
        let path = self.store.path(&self.id);
        self.file.sync_all().map_err(|e| at(&self.part, e))?;
        // An existing copy may be on its way to deletion.
        let _wanted = self.store.pin([self.id.clone()]);
        self.store.touch(&self.id);
        self.replicate()?;
        self.place(&path).map_err(|e| at(&path, e))?;
        File::open(&self.store.dir).and_then(|dir| dir.sync_all()).map_err(|e| at(&path, e))
    }

    /// If the blob exists already, the bytes of this copy are subtracted.
    fn place(&mut self, path: &Path) -> std::io::Result<()> {
        let room = self.store.room.clone();
        let _one_at_a_time = room.placing.lock().unwrap_or_else(PoisonError::into_inner);
        let was = std::fs::metadata(path).map(|of| of.len());
        std::fs::rename(&self.part, path)?;
        let counted = std::mem::take(&mut self.counted);
        if was.is_ok() {
            room.give(&self.store.tenant, counted);
        }
        Ok(())
    }

    /// Copies the blob to etcd, too.
    fn replicate(&self) -> Result<()> {
        let Some(etcd) = &self.store.etcd else { return Ok(()) };
        let mut file = File::open(&self.part).map_err(|e| at(&self.part, e))?;
        etcd.write(&self.id.0, self.bytes, |most| {
            let mut part = Vec::with_capacity(most);
            (&mut file).take(most as u64).read_to_end(&mut part).map_err(|e| at(&self.part, e))?;
            Ok(part)
        })
    }
}

impl Drop for BlobUpload {
    fn drop(&mut self) {
        // After a rename there is nothing to remove.
        let _ = std::fs::remove_file(&self.part);
        self.store.room.give(&self.store.tenant, self.counted);
    }
}
