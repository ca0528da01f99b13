//! The modes of files that Forebay stores: no other user of the machine may read them, unless the folder was made to be
//! shared.
//!
//! Invariant: modes do not depend on the umask. A folder made by this process is for its user alone. An existing folder
//! that its group, or all users, may write to was made to be shared: files in it are for those users, too.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const OWNER_FILE: u32 = 0o600;
const OWNER_FOLDER: u32 = 0o700;
const STICKY: u32 = 0o1000;
const SET_GROUP: u32 = 0o2000;

/// The modes of new files and folders in one folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    /// The read and write bits of the group and of others.
    shared: u32,
}

impl Modes {
    /// Makes a folder for this user alone, if there is none, and reads for whom it is.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn of(root: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(OWNER_FOLDER).create(root)?;
        Ok(Self::shown_by(std::fs::metadata(root)?.mode()))
    }

    fn shown_by(mode: u32) -> Self {
        // In a folder like /tmp all users may write, and each user only touches own files.
        if mode & 0o002 != 0 && mode & STICKY != 0 {
            return Self { shared: 0 };
        }
        let group = if mode & 0o020 != 0 { 0o060 } else { 0 };
        let others = if mode & 0o002 != 0 { 0o006 } else { 0 };
        Self { shared: group | others }
    }

    /// Makes a folder in it, if that is not there.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn folder(self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(OWNER_FOLDER).create(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Ok(()) if self.shared != 0 => {
                let own = std::fs::metadata(path)?.mode();
                // A user who may read a folder may also search it.
                let shared = self.shared | (self.shared & 0o044) >> 2;
                std::fs::set_permissions(path, Permissions::from_mode(own & SET_GROUP | OWNER_FOLDER | shared))
            }
            made => made,
        }
    }

    /// Makes a file that is not there yet, to be written and read.
    ///
    /// # Errors
    /// AlreadyExists; errors of the system.
    pub fn file(self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(OWNER_FILE).open(path)?;
        if self.shared != 0 {
            file.set_permissions(Permissions::from_mode(OWNER_FILE | self.shared))?;
        }
        Ok(file)
    }

    /// Opens a file to write, and makes it if it is not there.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn file_or_open(self, path: &Path) -> io::Result<File> {
        match self.file(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                // The last holder of the lock may have removed the file in the meantime.
                OpenOptions::new().write(true).create(true).truncate(false).mode(OWNER_FILE).open(path)
            }
            made => made,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_says_for_whom_it_is() {
        for (mode, file) in [
            (0o700, 0o600),
            (0o755, 0o600),
            (0o1777, 0o600),
            (0o2750, 0o600),
            (0o2770, 0o660),
            (0o1770, 0o660),
            (0o777, 0o666),
        ] {
            assert_eq!(OWNER_FILE | Modes::shown_by(mode).shared, file, "{mode:o}");
        }
    }

    #[test]
    fn what_is_made_is_for_its_user_alone_or_for_those_whom_the_folder_is_for() -> io::Result<()> {
        let parent = tempfile::tempdir()?;
        let mode = |path: &Path| std::fs::metadata(path).map(|of| of.mode() & 0o777);
        for (of_root, folder, file) in [(None, 0o700, 0o600), (Some(0o755), 0o700, 0o600), (Some(0o770), 0o770, 0o660)]
        {
            let root = parent.path().join(format!("{of_root:?}")).join("cache");
            if let Some(of_root) = of_root {
                std::fs::create_dir_all(&root)?;
                std::fs::set_permissions(&root, Permissions::from_mode(of_root))?;
            }
            let modes = Modes::of(&root)?;
            modes.folder(&root.join("a"))?;
            modes.folder(&root.join("a"))?;
            drop((
                modes.file_or_open(&root.join("a/b"))?,
                modes.file_or_open(&root.join("a/b"))?,
                modes.file(&root.join("c"))?,
            ));
            assert_eq!(mode(&root)?, of_root.unwrap_or(0o700));
            assert_eq!(
                (mode(&root.join("a"))?, mode(&root.join("a/b"))?, mode(&root.join("c"))?),
                (folder, file, file)
            );
        }
        Ok(())
    }
}
