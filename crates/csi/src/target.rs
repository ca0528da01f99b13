//! Target paths of pods: bind mounts of a volume's mount.
//!
//! Invariant: the driver unmounts only mounts of Forebay.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use forebay_core::{Error, ErrorKind, Result};
use forebay_mount::{detach, top_mount};
use rustix::mount::{MountFlags, mount_bind, mount_remount};

/// Most stacked mounts at one path that the driver unmounts.
const STACKED_MAX: usize = 32;

/// Returns the path of a target with its parent resolved.
///
/// # Errors
/// Invalid for a path that is not absolute, or has `..`; NotFound for a missing parent.
pub(crate) fn whole(target: &str) -> Result<PathBuf> {
    let path = Path::new(target);
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let (Some(parent), Some(name), true) = (path.parent(), path.file_name(), path.is_absolute() && is_plain) else {
        return Err(Error::invalid(format!("{target:?} is no absolute path below /")));
    };
    let parent = std::fs::canonicalize(parent)
        .map_err(|e| Error::from(e).with("target", target).hint("the folder above a target must exist"))?;
    Ok(parent.join(name))
}

/// Whether the topmost mount at a target is of this device.
pub(crate) fn shows(target: &Path, device: &str) -> bool {
    top_mount(target).is_some_and(|line| line.device == device)
}

/// Whether the topmost mount at a target is Forebay's.
pub(crate) fn is_ours(target: &Path) -> bool {
    top_mount(target).is_some_and(|line| line.is_ours())
}

/// Creates the folder of a target if it is missing.
///
/// # Errors
/// Conflict when the target has another mount, or is not an empty folder.
pub(crate) fn make(target: &Path) -> Result<()> {
    let conflict = |message: String| Error::new(ErrorKind::Conflict, message).with("target", target.display());
    if let Some(line) = top_mount(target) {
        return Err(conflict(format!("something else is mounted at the target: {} ({})", line.source, line.kind)));
    }
    match std::fs::DirBuilder::new().mode(0o750).create(target) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            let is_empty = std::fs::read_dir(target).is_ok_and(|mut names| names.next().is_none());
            if is_empty { Ok(()) } else { Err(conflict("the target is no empty folder".to_owned())) }
        }
        made => made.map_err(|e| Error::from(e).with("target", target.display())),
    }
}

/// Bind-mounts a volume's mount at a target, also on top of a dead mount. Pods with mount propagation see the new
/// mount.
///
/// # Errors
/// Errors of the system. A failed call leaves no mount.
pub(crate) fn bind(mount: &Path, target: &Path) -> Result<()> {
    let named = |e: rustix::io::Errno| Error::from(std::io::Error::from(e)).with("target", target.display());
    mount_bind(mount, target).map_err(named)?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    mount_remount(target, flags, "").map_err(|e| {
        let _ = detach(target);
        named(e)
    })
}

/// Unmounts all mounts of Forebay at a target, and removes its folder.
///
/// # Errors
/// Conflict when the target has another mount, or its folder is not empty; errors of the system.
pub(crate) fn remove(target: &Path) -> Result<()> {
    clear(target)?;
    let named = |e: Error| e.with("target", target.display());
    if let Some(line) = top_mount(target) {
        let message = format!("something else is mounted at the target: {} ({})", line.source, line.kind);
        return Err(named(Error::new(ErrorKind::Conflict, message)));
    }
    match std::fs::remove_dir(target) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(named(e.into())),
        _ => Ok(()),
    }
}

/// Unmounts all mounts of Forebay at a folder.
///
/// # Errors
/// Errors of the system.
pub(crate) fn clear(folder: &Path) -> Result<()> {
    for _ in 0..STACKED_MAX {
        if !is_ours(folder) {
            break;
        }
        detach(folder).map_err(|e| e.with("folder", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_whole_paths() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = std::fs::canonicalize(folder.path()).expect("there");
        std::os::unix::fs::symlink(&at, at.join("link")).expect("made");
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        assert_eq!(whole(&text(at.join("link/target"))), Ok(at.join("target")));
        for wrong in ["", "a/b", "/", "/a/../b", "/a/./.."] {
            assert_eq!(whole(wrong).expect_err(wrong).kind(), ErrorKind::Invalid, "{wrong}");
        }
        assert_eq!(whole(&text(at.join("none/target"))).expect_err("none").kind(), ErrorKind::NotFound);
        std::fs::write(at.join("file"), "").expect("written");
        make(&at.join("new")).expect("made");
        make(&at.join("new")).expect("there");
        assert_eq!(make(&at).expect_err("not empty").kind(), ErrorKind::Conflict);
        assert_eq!(make(&at.join("file")).expect_err("a file").kind(), ErrorKind::Conflict);
        remove(&at.join("new")).expect("removed");
        remove(&at.join("new")).expect("gone");
        assert_eq!(remove(&at).expect_err("not empty").kind(), ErrorKind::Conflict);
    }
}
