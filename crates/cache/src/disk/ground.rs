//! On which disk the folder is. Where somebody removed it, it is made again, but only there: when a disk is not mounted any more,
//! what is in its place is mostly the system's, which is not to be filled.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::folder::Folder;

/// See the module's documentation. Devices, as the system numbers them while they are mounted.
#[derive(Debug)]
pub(super) struct Ground {
    parent: PathBuf,
    of_parent: u64,
    of_folder: u64,
}

impl Ground {
    /// Takes note of where a folder is that is there.
    pub(super) fn of(folder: &Folder) -> io::Result<Self> {
        let root = folder.root();
        let parent = match root.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => root,
        };
        Ok(Self { parent: parent.to_owned(), of_parent: device(parent)?, of_folder: device(root)? })
    }

    /// Makes the folder where it is not there. One that is there on another disk is right if it is a cache: its disk was mounted again.
    pub(super) fn make_again(&self, folder: &Folder) -> io::Result<()> {
        let other = || io::Error::other("another disk is in the place of the one that it was on");
        match device(folder.root()) {
            Ok(device) if device == self.of_folder || folder.is_cache()? => Ok(()),
            Ok(_) => Err(other()),
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            Err(_) if device(&self.parent)? != self.of_parent => Err(other()),
            Err(_) => {
                std::fs::create_dir(folder.root())?;
                folder.lock().map(drop)
            }
        }
    }
}

fn device(path: &Path) -> io::Result<u64> {
    Ok(std::fs::metadata(path)?.dev())
}
