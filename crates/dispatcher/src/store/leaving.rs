//! Blobs leave when no job needs them: which those are is found out in `needless`, and they are removed here, whosever they are.
//!
//! Whatever else lies in a folder of blobs is left alone: others may use it, too.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::time::Duration;

use forebay_core::{Result, Ticks};
use forebay_plan::BlobId;

use super::blobs::{BlobKey, BlobStore, at, check};
use super::needless::Pin;
use crate::tenant::check_name;
use crate::term::Term;

impl BlobStore {
    /// Notes that somebody wants a blob.
    pub(super) fn touch(&self, id: &BlobId) {
        self.needless.touch(&(self.tenant.clone(), id.0.clone()));
    }

    /// Keeps blobs for as long as what it returns lives.
    pub(crate) fn pin(&self, ids: impl IntoIterator<Item = BlobId>) -> Pin {
        self.needless.pin(ids.into_iter().map(|id| (self.tenant.clone(), id.0)).collect())
    }

    /// Removes what nobody has needed for `grace`, of all tenants: `needed` says what jobs need. Returns how many there were.
    ///
    /// # Errors
    /// What the disk says; Unavailable when etcd does not answer.
    pub(crate) fn sweep(&self, needed: &HashSet<BlobKey>, now: Ticks, grace: Duration, term: &Term) -> Result<u64> {
        let mut kept = list(&self.dir)?;
        if let Some(etcd) = &self.etcd {
            kept.extend(etcd.list()?);
        }
        let mut removed = 0;
        for key in self.needless.look(kept, needed, now, grace) {
            // Somebody may have asked for it since.
            if !term.holds() || !self.needless.take(&key) {
                continue;
            }
            let of = self.of(&key.0);
            // Another leads: which are needless is for that one to say.
            if let Some(etcd) = &of.etcd
                && !etcd.remove(&key.1, term.revision())?
            {
                return Ok(removed);
            }
            let path = of.path(&BlobId(key.1));
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(at(&path, e)),
                _ => removed += 1,
            }
        }
        Ok(removed)
    }
}

/// Lists the blobs in a folder, and those of tenants.
fn list(dir: &Path) -> Result<BTreeSet<BlobKey>> {
    let names = |dir: &Path| -> Result<Vec<String>> {
        let entries = std::fs::read_dir(dir).map_err(|e| at(dir, e))?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    };
    let mut found = BTreeSet::new();
    for name in names(dir)? {
        if check(&name).is_ok() {
            found.insert((String::new(), name));
        } else if check_name(&name).is_ok() && dir.join(&name).is_dir() {
            let of_tenant = names(&dir.join(&name))?.into_iter().filter(|id| check(id).is_ok());
            found.extend(of_tenant.map(|id| (name.clone(), id)));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_no_job_needs_is_removed_and_nothing_else() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let (store, grace) = (BlobStore::open(dir.path(), 1 << 20)?, Duration::from_millis(100));
        let term = Term::endless(Arc::new(forebay_core::SystemClock::default()));
        let tenants = ["", "a", "b"].map(|tenant| store.of(tenant));
        let ids: Vec<BlobId> = tenants.iter().map(|of| of.put(b"bytes")).collect::<Result<_>>()?;
        // Whatever else lies there is nobody's blob.
        for other in ["notes.txt", "a/notes.txt", "A/x"] {
            let path = dir.path().join("blobs").join(other);
            std::fs::create_dir_all(path.parent().unwrap_or(dir.path()))?;
            std::fs::write(path, b"other")?;
        }
        let needed = [("a".to_owned(), ids[1].0.clone())].into();
        let sweep = |at| store.sweep(&needed, Ticks(at), grace, &term);
        assert_eq!((sweep(1000)?, sweep(1099)?), (0, 0));
        assert!(tenants[2].has(&ids[2])?);
        assert_eq!(sweep(1100)?, 1);
        let kept = || tenants.each_ref().map(|of| of.path(&ids[0]).exists());
        assert_eq!(kept(), [false, true, true], "one is needed, one was asked for");
        assert_eq!(sweep(1200)?, 1);
        assert_eq!((kept(), sweep(1300)?), ([false, true, false], 0));
        assert!(["notes.txt", "a/notes.txt", "A/x"].iter().all(|other| dir.path().join("blobs").join(other).exists()));
        term.end();
        assert_eq!(store.sweep(&HashSet::new(), Ticks(1300), grace, &term)?, 0);
        assert_eq!(store.sweep(&HashSet::new(), Ticks(1400), grace, &term)?, 0, "it leads no more");
        Ok(())
    }
}
