//! Remembers the disk of the folder. A folder that was deleted is created again, but only on that disk: when the disk
//! is no longer mounted, its mount point is a folder of the system's disk, which must not be filled.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::tiers::disk::folder::Folder;

/// See the module's documentation. The numbers are device numbers, which hold while a disk is mounted.
#[derive(Debug)]
pub(super) struct MountGuard {
    parent: PathBuf,
    of_parent: u64,
    of_folder: u64,
}

impl MountGuard {
    /// Records the disk of an existing folder.
    pub(super) fn of(folder: &Folder) -> io::Result<Self> {
        let root = folder.root();
        let parent = match root.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => root,
        };
        Ok(Self { parent: parent.to_owned(), of_parent: device(parent)?, of_folder: device(root)? })
    }

    /// Creates the folder if it is missing. A folder on another disk is accepted if it is a cache: its disk was mounted
    /// again.
    pub(super) fn make_again(&self, folder: &Folder) -> io::Result<()> {
        match self.look(folder) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.make(folder),
            there => there,
        }
    }

    /// Checks the folder that is there.
    fn look(&self, folder: &Folder) -> io::Result<()> {
        if device(folder.root())? == self.of_folder || folder.is_cache()? { Ok(()) } else { Err(other()) }
    }

    fn make(&self, folder: &Folder) -> io::Result<()> {
        if device(&self.parent)? != self.of_parent {
            return Err(other());
        }
        match std::fs::create_dir(folder.root()) {
            Ok(()) => folder.lock().map(drop),
            // Another thread or process has just created it.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => self.look(folder),
            Err(e) => Err(e),
        }
    }
}

fn other() -> io::Error {
    io::Error::other("another disk is in the place of the one that it was on")
}

fn device(path: &Path) -> io::Result<u64> {
    Ok(std::fs::metadata(path)?.dev())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// A folder in a temporary one, which deletes it, too.
    fn opened() -> io::Result<(tempfile::TempDir, Folder)> {
        let parent = tempfile::tempdir()?;
        let folder = Folder::open(&parent.path().join("cache"))?;
        Ok((parent, folder))
    }

    #[test]
    fn all_who_find_it_gone_at_once_find_it_made() -> io::Result<()> {
        let (_parent, folder) = opened()?;
        let mount_guard = MountGuard::of(&folder)?;
        assert_eq!(
            mount_guard.make(&folder).map_err(|e| e.to_string()),
            Ok(()),
            "another process made it after this one had looked"
        );
        let (gone, made) = (Barrier::new(3), Barrier::new(3));
        std::thread::scope(|scope| {
            let maker = || -> io::Result<()> {
                let made = (0..200).map(|_| {
                    gone.wait();
                    let is_made = mount_guard.make_again(&folder);
                    made.wait();
                    is_made
                });
                // The loop always runs to its end: the other threads wait for this one.
                made.collect::<Vec<_>>().into_iter().collect()
            };
            let makers = [scope.spawn(maker), scope.spawn(maker)];
            let removed: Vec<_> = (0..200)
                .map(|_| {
                    let is_removed = std::fs::remove_dir_all(folder.root());
                    gone.wait();
                    made.wait();
                    is_removed
                })
                .collect();
            removed.into_iter().collect::<io::Result<()>>()?;
            makers.into_iter().try_for_each(|maker| maker.join().map_err(|_| io::Error::other("it panicked"))?)
        })
    }

    #[test]
    fn on_another_disk_only_a_cache_is_right_and_nothing_is_made() -> io::Result<()> {
        let (_parent, folder) = opened()?;
        let here = MountGuard::of(&folder)?;
        // As if it had been on another disk, mounted there or one level above.
        let (mounted, above) = (here.of_folder + 1, here.of_parent + 1);
        let [at, below] = [here.of_parent, above].map(|of_parent| MountGuard {
            parent: here.parent.clone(),
            of_parent,
            of_folder: mounted,
        });
        let is_refused = |mount_guard: &MountGuard| {
            mount_guard.make_again(&folder).is_err_and(|e| e.to_string() == other().to_string())
        };
        assert!(at.make_again(&folder).is_ok() && below.make_again(&folder).is_ok(), "it is a cache: mounted again");
        std::fs::remove_dir_all(folder.root())?;
        assert!(is_refused(&below) && !folder.root().exists());
        std::fs::create_dir(folder.root())?;
        assert!(is_refused(&at) && is_refused(&below));
        assert_eq!(std::fs::read_dir(folder.root())?.count(), 0);
        assert!(here.make_again(&folder).is_ok(), "it is on its own disk");
        Ok(())
    }
}
