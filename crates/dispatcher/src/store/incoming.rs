//! A blob on its way in: written beside its place, verified, flushed, copied to etcd where that has the blobs, and renamed.

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;

use forebay_core::{Error, ErrorKind, Result};
use forebay_plan::BlobId;

use super::blobs::{BlobStore, at};

/// A blob on its way in. Dropped before its end, it leaves nothing behind.
pub(crate) struct Incoming {
    store: BlobStore,
    id: BlobId,
    part: PathBuf,
    file: File,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Incoming {
    /// # Errors
    /// What the disk says.
    pub(super) fn new(store: BlobStore, id: BlobId) -> Result<Self> {
        store.modes.folder(&store.dir).map_err(|e| at(&store.dir, e))?;
        let part = store.dir.join(format!("{}.part", uuid::Uuid::new_v4()));
        let file = store.modes.file(&part).map_err(|e| at(&part, e))?;
        Ok(Self { store, id, part, file, hasher: blake3::Hasher::new(), bytes: 0 })
    }

    /// Takes the next part.
    ///
    /// # Errors
    /// Exhausted when the blob is too large; what the disk says.
    pub(crate) fn write(&mut self, part: &[u8]) -> Result<()> {
        self.bytes += part.len() as u64;
        if self.bytes > self.store.bytes_max {
            let max = self.store.bytes_max;
            return Err(Error::new(ErrorKind::Exhausted, format!("a blob is larger than {max} bytes")).hint(
                "put the data in files that every worker can read; with etcd, larger blobs need --blob-dir, a folder that all \
                 dispatchers share",
            ));
        }
        self.hasher.update(part);
        self.file.write_all(part).map_err(|e| at(&self.part, e))
    }

    /// Puts the blob in its place.
    ///
    /// # Errors
    /// Data when the bytes are not what the id says; what the disk says.
    pub(crate) fn finish(self) -> Result<()> {
        let hash = self.hasher.finalize().to_hex();
        if hash.as_str() != self.id.0 {
            return Err(Error::data(format!("the bytes of blob {} have the hash {hash}", self.id.0))
                .hint("they were changed on the way: try again"));
        }
        let path = self.store.path(&self.id);
        self.file.sync_all().map_err(|e| at(&self.part, e))?;
        // What is there of it may be on its way out.
        let _wanted = self.store.pin([self.id.clone()]);
        self.store.touch(&self.id);
        self.replicate()?;
        let save = || {
            std::fs::rename(&self.part, &path)?;
            File::open(&self.store.dir)?.sync_all()
        };
        save().map_err(|e| at(&path, e))
    }

    /// Writes the blob to etcd, too.
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

impl Drop for Incoming {
    fn drop(&mut self) {
        // After a rename there is nothing here to remove.
        let _ = std::fs::remove_file(&self.part);
    }
}
