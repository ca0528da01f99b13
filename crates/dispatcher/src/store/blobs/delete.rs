//! Removes garbage: blobs that `garbage` found to be due, of all tenants.
//!
//! A file is removed in two steps, a grace period apart. The first step sets it aside, where it is still found if it is
//! wanted. The second step removes it. A file system cannot check who leads, so the first step of a former leader may
//! come late, from a disk that hung: it then costs nothing, and the second step finds nothing to remove. etcd checks
//! the leader, so one step is enough there. Other files in the folder are not touched.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_core::{Result, Ticks};
use forebay_plan::BlobId;

use super::garbage::Pin;
use super::key::{BlobKey, at, check};
use super::store::BlobStore;
use crate::leader::term::Term;
use crate::tenant::check_name;

/// The suffix of files that were set aside.
const ASIDE: &str = ".needless";

impl BlobStore {
    /// Notes that a blob is wanted; waits while it is being removed.
    pub(in crate::store) fn touch(&self, id: &BlobId) {
        self.garbage.touch(&(self.tenant.clone(), id.0.clone()));
    }

    /// Keeps blobs from becoming garbage until the returned value is dropped.
    pub(crate) fn pin(&self, ids: impl IntoIterator<Item = BlobId>) -> Pin {
        self.garbage.pin(ids.into_iter().map(|id| (self.tenant.clone(), id.0)).collect())
    }

    /// Returns the path of a file that was set aside.
    fn aside(&self, id: &BlobId) -> PathBuf {
        self.dir.join(format!("{}{ASIDE}", id.0))
    }

    /// Returns whether the file of a blob exists; a file that was set aside is put back.
    pub(in crate::store) fn is_here(&self, id: &BlobId) -> bool {
        let path = self.path(id);
        // If two callers put it back at once, one of them succeeds.
        path.exists() || std::fs::rename(self.aside(id), &path).is_ok() || path.exists()
    }

    /// Removes the blobs of all tenants that were not in `needed` for `grace`. Returns how many were removed.
    ///
    /// # Errors
    /// Errors of the disk; Unavailable when etcd does not answer.
    pub(crate) fn collect_garbage(
        &self,
        needed: &HashSet<BlobKey>,
        now: Ticks,
        grace: Duration,
        term: &Term,
    ) -> Result<u64> {
        let mut stored = list(&self.dir)?;
        if let Some(etcd) = &self.etcd {
            stored.extend(etcd.list()?);
        }
        let mut removed = 0;
        for key in self.garbage.find_due(stored, needed, now, grace) {
            if !term.holds() {
                return Ok(removed);
            }
            // A client may have requested it since.
            let Some(_deleting) = self.garbage.take(&key) else { continue };
            let of = self.of(&key.0);
            // If another dispatcher leads, that one collects the garbage.
            if let Some(etcd) = &of.etcd {
                let bytes = etcd.size(&key.1)?.unwrap_or(0);
                if !etcd.remove(&key.1, term.revision())? {
                    return Ok(removed);
                }
                self.room.give(&key.0, bytes);
            }
            let id = BlobId(key.1);
            let (path, aside) = (of.path(&id), of.aside(&id));
            let bytes = std::fs::metadata(&aside).map_or(0, |file| file.len());
            match std::fs::rename(&path, &aside) {
                Ok(()) => {}
                Err(e) if e.kind() == NotFound => match std::fs::remove_file(&aside) {
                    Err(e) if e.kind() != NotFound => return Err(at(&aside, e)),
                    _ => {
                        removed += 1;
                        if of.etcd.is_none() {
                            self.room.give(&key.0, bytes);
                        }
                    }
                },
                Err(e) => return Err(at(&path, e)),
            }
        }
        Ok(removed)
    }
}

impl BlobStore {
    /// Counts the bytes of each tenant, without uploads under way.
    ///
    /// # Errors
    /// Errors of the disk; Unavailable when etcd does not answer.
    pub(in crate::store) fn count(&self) -> Result<BTreeMap<String, u64>> {
        let mut bytes = BTreeMap::new();
        let keys = match &self.etcd {
            Some(etcd) => etcd.list()?,
            None => list(&self.root)?.into_iter().collect(),
        };
        for (tenant, id) in keys {
            let of = self.of(&tenant);
            let size = |path: PathBuf| std::fs::metadata(path).ok().map(|file| file.len());
            let id = BlobId(id);
            let has = match &of.etcd {
                Some(etcd) => etcd.size(&id.0)?,
                None => size(of.path(&id)).or_else(|| size(of.aside(&id))),
            };
            *bytes.entry(tenant).or_default() += has.unwrap_or(0);
        }
        Ok(bytes)
    }
}

/// Lists the blobs in a folder and in the folders of tenants, including blobs that were set aside.
fn list(dir: &Path) -> Result<BTreeSet<BlobKey>> {
    let names = |dir: &Path| -> Result<Vec<String>> {
        let entries = std::fs::read_dir(dir).map_err(|e| at(dir, e))?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    };
    let mut found = BTreeSet::new();
    for name in names(dir)? {
        if let Some(id) = id(&name) {
            found.insert((String::new(), id));
        } else if check_name(&name).is_ok() && dir.join(&name).is_dir() {
            let of_tenant = names(&dir.join(&name))?;
            found.extend(of_tenant.iter().filter_map(|file| Some((name.clone(), id(file)?))));
        }
    }
    Ok(found)
}

/// Returns the id of the blob that a file holds.
fn id(file: &str) -> Option<String> {
    let id = file.strip_suffix(ASIDE).unwrap_or(file);
    check(id).is_ok().then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::RecvTimeoutError;

    use super::*;
    use crate::store::ServiceId;
    use crate::store::blobs::garbage::tests::NOTHING_SAID;

    const GRACE: Duration = Duration::from_millis(100);

    fn term() -> Term {
        Term::endless(Arc::new(forebay_core::SystemClock::default()))
    }

    #[test]
    fn what_no_job_needs_is_removed_and_nothing_else() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let (store, term) = (BlobStore::open(dir.path(), 1 << 20)?, term());
        let tenants = ["", "a", "b"].map(|tenant| store.of(tenant));
        let ids: Vec<BlobId> = tenants.iter().map(|of| of.put(b"bytes")).collect::<Result<_>>()?;
        // Other files in the folder are no blobs.
        for other in ["notes.txt", "a/notes.txt", "A/x"] {
            let path = dir.path().join("blobs").join(other);
            std::fs::create_dir_all(path.parent().unwrap_or(dir.path()))?;
            std::fs::write(path, b"other")?;
        }
        let needed = [("a".to_owned(), ids[1].0.clone())].into();
        let collect_garbage = |at| store.collect_garbage(&needed, Ticks(at), GRACE, &term);
        let kept = || tenants.each_ref().map(|of| of.path(&ids[0]).exists());
        let aside = || tenants.each_ref().map(|of| of.aside(&ids[0]).exists());
        assert_eq!((collect_garbage(1000)?, collect_garbage(1099)?), (0, 0));
        assert!(tenants[2].has(&ids[2])?);
        assert_eq!(collect_garbage(1100)?, 0);
        assert_eq!((kept(), aside()), ([false, true, true], [true, false, false]), "one is needed, one was asked for");
        assert_eq!((collect_garbage(1200)?, collect_garbage(1300)?), (0, 1), "a grace later it is gone");
        assert_eq!((kept(), aside()), ([false, true, false], [false, false, true]));
        assert_eq!(store.bytes(), Some(10), "what is set aside takes room");
        assert_eq!((collect_garbage(1400)?, aside(), collect_garbage(1500)?), (1, [false; 3], 0));
        assert_eq!(store.bytes(), Some(5));
        assert!(["notes.txt", "a/notes.txt", "A/x"].iter().all(|other| dir.path().join("blobs").join(other).exists()));
        term.end();
        assert_eq!(store.collect_garbage(&HashSet::new(), Ticks(1300), GRACE, &term)?, 0);
        assert_eq!(store.collect_garbage(&HashSet::new(), Ticks(1400), GRACE, &term)?, 0, "it leads no more");
        Ok(())
    }

    #[test]
    fn what_was_set_aside_is_there_when_it_is_wanted() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let (store, term) = (BlobStore::open(dir.path(), 1 << 20)?, term());
        let collect_garbage = |at| store.collect_garbage(&HashSet::new(), Ticks(at), GRACE, &term);
        let id = store.put(b"bytes")?;
        let mut bytes = Vec::new();
        // A former leader set it aside late; workers of the next leader's jobs still read it.
        assert_eq!((collect_garbage(1000)?, collect_garbage(1100)?, store.path(&id).exists()), (0, 0, false));
        store.send(&id, |part| {
            bytes.extend_from_slice(&part);
            true
        })?;
        assert_eq!(bytes, b"bytes");
        assert_eq!((collect_garbage(2000)?, collect_garbage(2100)?, store.path(&id).exists()), (0, 0, false));
        assert!(store.has(&id)? && store.path(&id).exists());
        assert_eq!(
            (collect_garbage(3000)?, collect_garbage(3100)?, collect_garbage(3200)?, collect_garbage(3300)?),
            (0, 0, 0, 1)
        );
        assert!(!store.has(&id)?);
        Ok(())
    }

    #[test]
    fn what_is_on_its_way_out_is_not_said_to_be_there_and_not_lost_when_it_is_handed_in() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let store = BlobStore::open(dir.path(), 1 << 20)?;
        let id = store.put(b"bytes")?;
        let key = (String::new(), id.0.clone());
        store.garbage.find_due([key.clone()].into(), &HashSet::new(), Ticks(1000), GRACE);
        let deleting = store.garbage.take(&key);
        let (says, said) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let store = &store;
            scope.spawn(move || {
                says.send(None).expect("the test receives");
                says.send(Some(store.put(b"bytes"))).expect("the test receives");
            });
            assert_eq!(said.recv(), Ok(None), "it hands it in");
            assert_eq!(said.recv_timeout(NOTHING_SAID), Err(RecvTimeoutError::Timeout), "it is on its way out");
            // Removing from etcd takes time.
            std::fs::remove_file(store.path(&id))?;
            drop(deleting);
            assert_eq!(said.recv(), Ok(Some(Ok(id.clone()))));
            Ok::<_, forebay_core::Error>(())
        })?;
        assert!(store.path(&id).exists(), "it was written again");
        Ok(())
    }

    #[test]
    fn services_that_share_a_folder_leave_each_other_alone() -> Result<()> {
        let (dir, states) = (tempfile::tempdir()?, [tempfile::tempdir()?, tempfile::tempdir()?]);
        let open =
            |state: &tempfile::TempDir| BlobStore::shared(dir.path(), &ServiceId::of_folder(state.path())?, 1 << 20);
        let [a, b] = [open(&states[0])?, open(&states[1])?];
        let (id, term) = (a.put(b"bytes")?, term());
        for at in [1000, 1100, 1200, 1300] {
            b.collect_garbage(&HashSet::new(), Ticks(at), GRACE, &term)?;
        }
        assert!(a.path(&id).exists());
        assert!(open(&states[0])?.has(&id)?, "it is the same service after a restart");
        Ok(())
    }
}
