//! Decides which process fetches a page: the one that holds the lock on the page's claim, an empty file.
//!
//! Invariants: a claim ends with its process, even in a crash. It is released after the page can be found, so the next
//! process that takes it and looks finds the page. A claim that cannot be made stops no process from fetching.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use forebay_core::Modes;
use rustix::fs::{FlockOperation, flock, fstat};

use crate::pages::PageKey;

/// The number of attempts to take a claim that its last owner is deleting.
const TRIES: usize = 4;

/// A page that this process fetches. When it is dropped, others may fetch the page.
#[derive(Debug)]
pub(super) struct PageClaim {
    file: File,
    path: PathBuf,
}

/// The result of an attempt to claim a page.
#[derive(Debug)]
pub(super) enum Claimed {
    /// This process has the claim; without a file where none could be made.
    Ours(Option<PageClaim>),
    /// Another process fetches the page.
    Theirs,
}

impl PageClaim {
    /// Claims a page, in the folder of claims.
    pub(super) fn take(folder: &Path, modes: Modes, key: &PageKey) -> Claimed {
        match Self::try_take(&folder.join(key.to_string()), modes) {
            Ok(claimed) => claimed,
            // The folder of the cache is not created here.
            Err(e) if e.kind() == io::ErrorKind::NotFound && modes.folder(folder).is_ok() => {
                Self::try_take(&folder.join(key.to_string()), modes).unwrap_or(Claimed::Ours(None))
            }
            Err(_) => Claimed::Ours(None),
        }
    }

    fn try_take(path: &Path, modes: Modes) -> io::Result<Claimed> {
        for _ in 0..TRIES {
            let file = modes.file_or_open(path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Claimed::Theirs),
                locked => locked?,
            }
            // Its last owner may have deleted it since it was opened: then another process may lock a new one.
            if fstat(&file)?.st_nlink > 0 {
                return Ok(Claimed::Ours(Some(Self { file, path: path.to_owned() })));
            }
        }
        Ok(Claimed::Theirs)
    }
}

impl Drop for PageClaim {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        // A child process may have inherited the file, and would keep the lock.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::FileKey;

    #[test]
    fn one_at_a_time_has_a_claim_and_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let (claims, modes) = (folder.path().join("claims"), Modes::of(folder.path()).expect("it is there"));
        let key = PageKey { file: FileKey([1; 16]), page: 7 };
        let Claimed::Ours(Some(first)) = PageClaim::take(&claims, modes, &key) else { panic!("free") };
        assert!(matches!(PageClaim::take(&claims, modes, &key), Claimed::Theirs));
        let other = PageKey { page: 8, ..key };
        assert!(matches!(PageClaim::take(&claims, modes, &other), Claimed::Ours(Some(_))));
        drop(first);
        assert!(matches!(PageClaim::take(&claims, modes, &key), Claimed::Ours(Some(_))));
        assert_eq!(std::fs::read_dir(&claims).expect("a folder").count(), 0);
        let file = folder.path().join("file");
        std::fs::write(&file, "in the way").expect("written");
        assert!(
            matches!(PageClaim::take(&file, modes, &key), Claimed::Ours(None)),
            "another process may fetch the page"
        );
    }
}
