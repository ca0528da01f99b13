//! The id of a service, which separates its blobs from those of other services in a shared folder.
//!
//! It lies beside the ledger: in a file of the state folder, or under a key in etcd. It is made when it is first
//! needed, and never again. A copy of the ledger belongs to the same service and must get a folder of its own.

#![expect(clippy::disallowed_methods, reason = "the random id of a service")]

use std::fs::File;
use std::io::Write;
use std::path::Path;

use forebay_core::{Error, Result};

use super::etcd::{Etcd, Keys, made_at, put, request};

/// The name of the file in a state folder.
const FILE: &str = "service";

/// The id of a service, not for display: 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceId(String);

impl ServiceId {
    /// Reads the id of the service whose ledger is in a folder, of which this process is the only user; makes one if
    /// there is none.
    ///
    /// # Errors
    /// Data when it is no id; errors of the disk.
    pub(crate) fn of_folder(state_dir: &Path) -> Result<Self> {
        let path = state_dir.join(FILE);
        let at = |e: std::io::Error| Error::from(e).with("file", path.display());
        match std::fs::read_to_string(&path) {
            Ok(text) => return Self::read(&text).ok_or_else(|| unreadable().with("file", path.display())),
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(at(e)),
            Err(_) => {}
        }
        let (made, part) = (Self::make(), path.with_extension("part"));
        let save = || {
            let mut file = File::create(&part)?;
            file.write_all(made.0.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&part, &path)?;
            File::open(state_dir)?.sync_all()
        };
        save().map_err(at)?;
        Ok(made)
    }

    /// Reads the id of the service whose ledger is in etcd; makes one if there is none.
    ///
    /// # Errors
    /// Data when it is no id; Unavailable when etcd does not answer.
    pub(crate) async fn of_etcd(etcd: &Etcd, keys: &Keys) -> Result<Self> {
        let key = keys.service();
        // If two dispatchers make it at once, one succeeds, and both read it.
        if etcd.get(&key).await?.is_none() {
            let made = put(key.clone(), Self::make().0.into_bytes(), 0);
            etcd.txn(request(vec![made_at(&key, 0)], vec![made])).await?;
        }
        let found = etcd.get(&key).await?;
        let found = found.and_then(|kv| Self::read(std::str::from_utf8(&kv.value).ok()?));
        found.ok_or_else(|| unreadable().with("key", String::from_utf8_lossy(&key)))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    fn make() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    /// The text becomes the name of a folder, so it must be an id.
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_one = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        is_one.then(|| Self(text.to_owned()))
    }
}

fn unreadable() -> Error {
    Error::data("the id of this service cannot be read").hint(
        "write the name of its folder in --blob-dir there, or remove it: the service then begins a new folder, and clients upload \
         their blobs again when they open jobs",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_the_same_one_for_ever_and_no_path() -> Result<()> {
        let [one, other] = [tempfile::tempdir()?, tempfile::tempdir()?];
        let first = ServiceId::of_folder(one.path())?;
        assert_eq!(ServiceId::of_folder(one.path())?, first);
        assert_ne!(ServiceId::of_folder(other.path())?, first);
        std::fs::write(one.path().join(FILE), "../../elsewhere")?;
        assert_eq!(ServiceId::of_folder(one.path()).map_err(|e| e.kind()), Err(forebay_core::ErrorKind::Data));
        Ok(())
    }
}
