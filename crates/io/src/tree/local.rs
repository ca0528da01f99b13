//! A folder of this machine, read by descriptors. No name is followed through a link, even if another process replaces
//! a name by a link in the meantime.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use forebay_core::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat as SystemStat};
use rustix::io::Errno;

use super::{Attributes, EntryKind, Pinned, TreeEntry};
use crate::fail;
use crate::store::{Mark, Stat};

/// How names are resolved: below the folder, and through no link.
const BELOW: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A folder of this machine, or one file of it.
#[derive(Debug)]
pub(super) struct LocalTree {
    path: PathBuf,
    root: File,
    /// The only visible name, if the source is one file.
    only: Option<std::ffi::OsString>,
}

impl LocalTree {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let name = path.to_string_lossy();
        let path = std::fs::canonicalize(path).map_err(|e| fail::io(&name, e))?;
        let meta = std::fs::metadata(&path).map_err(|e| fail::io(&name, e))?;
        let (folder, only) = match (meta.is_dir(), path.parent(), path.file_name()) {
            (true, ..) => (path.clone(), None),
            (false, Some(folder), Some(name)) if meta.is_file() => (folder.to_owned(), Some(name.to_owned())),
            _ => return Err(Error::invalid("this is neither a folder nor a regular file").with("source", name)),
        };
        let root = rustix::fs::open(&folder, FOLDER, Mode::empty()).map_err(|e| fail::io(&name, e.into()))?;
        Ok(Self { path: folder, root: root.into(), only })
    }

    pub(super) fn path_of(&self, path: &Path) -> PathBuf {
        if path.as_os_str().is_empty() { self.path.clone() } else { self.path.join(path) }
    }

    fn failed(&self, path: &Path, e: Errno) -> Error {
        fail::io(&self.path_of(path).to_string_lossy(), e.into())
    }

    fn folder(&self, path: &Path) -> Result<File> {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let opened = rustix::fs::openat2(&self.root, here, FOLDER, Mode::empty(), BELOW);
        opened.map(File::from).map_err(|e| self.failed(path, e))
    }

    pub(super) fn list(&self, path: &Path, most: usize) -> Result<Vec<TreeEntry>> {
        let folder = self.folder(path)?;
        if let Some(name) = &self.only {
            return Ok(entry(&folder, name).map_err(|e| self.failed(path, e))?.into_iter().collect());
        }
        let mut found = Vec::new();
        for listed in Dir::read_from(&folder).map_err(|e| self.failed(path, e))? {
            let listed = listed.map_err(|e| self.failed(path, e))?;
            let name = OsStr::from_bytes(listed.file_name().to_bytes());
            if name != "." && name != ".." {
                found.extend(entry(&folder, name).map_err(|e| self.failed(&path.join(name), e))?);
            }
            if found.len() > most {
                let message = format!("this folder has more than {most} names");
                return Err(Error::new(ErrorKind::Exhausted, message).with("folder", self.path_of(path).display()));
            }
        }
        Ok(found)
    }

    pub(super) fn look(&self, path: &Path) -> Result<Option<TreeEntry>> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            let stat = rustix::fs::fstat(&self.root).map_err(|e| self.failed(path, e))?;
            return Ok(Some(TreeEntry { name: "".into(), kind: EntryKind::Folder, attributes: attributes(&stat) }));
        };
        if self.only.as_ref().is_some_and(|only| only != name) {
            return Ok(None);
        }
        match self.folder(folder) {
            Ok(folder) => entry(&folder, name).map_err(|e| self.failed(path, e)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub(super) fn space(&self) -> Option<(u64, u64)> {
        let stat = rustix::fs::fstatvfs(&self.root).ok()?;
        Some((stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize))
    }

    pub(super) fn file(&self, path: &Path, pinned: &Pinned) -> Result<LocalFile> {
        // `check` refuses all but regular files. NONBLOCK keeps the open of a pipe or a device from blocking before
        // that.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let uri = self.path_of(path).to_string_lossy().into_owned();
        let opened = rustix::fs::openat2(&self.root, path, flags, Mode::empty(), BELOW);
        let file = LocalFile {
            file: opened.map_err(|e| if e == Errno::NOENT { fail::gone(&uri) } else { self.failed(path, e) })?.into(),
            uri,
            pinned: pinned.clone(),
        };
        file.check()?;
        Ok(file)
    }
}

/// Returns the entry of a name; `None` when it is gone, or is a pipe, a socket or a device.
fn entry(folder: &File, name: &OsStr) -> rustix::io::Result<Option<TreeEntry>> {
    let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(e) => return Err(e),
    };
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => EntryKind::Folder,
        FileType::RegularFile => EntryKind::File(pinned(&stat)),
        FileType::Symlink => match rustix::fs::readlinkat(folder, name, Vec::new()) {
            Ok(target) => EntryKind::Link(PathBuf::from(OsStr::from_bytes(target.to_bytes()))),
            // The link was replaced or removed meanwhile.
            Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
            Err(e) => return Err(e),
        },
        _ => return Ok(None),
    };
    Ok(Some(TreeEntry { name: name.to_owned(), kind, attributes: attributes(&stat) }))
}

fn nanos(stat: &SystemStat) -> i64 {
    stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec as i64)
}

fn pinned(stat: &SystemStat) -> Pinned {
    Pinned { stat: Stat { size: stat.st_size as u64, mark: Mark::Mtime(nanos(stat)) }, number: stat.st_ino }
}

fn attributes(stat: &SystemStat) -> Attributes {
    let owner = Some((stat.st_uid, stat.st_gid, (stat.st_mode & 0o7777) as u16));
    Attributes { mtime: Some(nanos(stat)), owner }
}

/// An open file of this machine.
#[derive(Debug)]
pub(super) struct LocalFile {
    file: File,
    uri: String,
    pinned: Pinned,
}

impl LocalFile {
    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    pub(super) fn size(&self) -> u64 {
        self.pinned.size()
    }

    pub(super) fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact_at(to, offset).map_err(|e| fail::io(&self.uri, e).with("offset", offset));
        // A read beyond the end of an overwritten file must report that the file has changed.
        self.check()?;
        read
    }

    fn check(&self) -> Result<()> {
        let stat = rustix::fs::fstat(&self.file).map_err(|e| fail::io(&self.uri, e.into()))?;
        let now = pinned(&stat);
        if now == self.pinned && FileType::from_raw_mode(stat.st_mode).is_file() {
            Ok(())
        } else {
            Err(fail::changed(&self.uri, &self.pinned.stat, now))
        }
    }
}
