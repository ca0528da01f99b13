//! Mount points: whether a folder is free, and which mount it has.
//!
//! Invariants: Forebay unmounts only its own mounts whose process has ended. It waits for a folder at most
//! [`ANSWER_MAX`].

use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result};
use rustix::mount::{UnmountFlags, unmount};

/// File system type of Forebay's mounts.
const KIND: &str = "fuse.forebay";
/// Timeout for an answer of a mount.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Most stacked dead mounts at one folder that are unmounted.
const STACKED_MAX: usize = 16;

/// A line of the kernel's list of mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountLine {
    /// Device number: `0:45`.
    pub device: String,
    /// File system type: `ext4`.
    pub kind: String,
    /// Source of the mount, as its creator named it.
    pub source: String,
}

impl MountLine {
    /// Whether it is a mount of Forebay.
    pub fn is_ours(&self) -> bool {
        self.kind == KIND
    }
}

/// Returns the topmost mount at a folder, given with symbolic links resolved; `None` without a mount.
pub fn top_mount(folder: &Path) -> Option<MountLine> {
    top(&std::fs::read("/proc/self/mountinfo").ok()?, folder)
}

/// Parses the kernel's list of mounts, in which the last line of a folder is the topmost mount.
fn top(mounts: &[u8], folder: &Path) -> Option<MountLine> {
    let lines = mounts.split(|byte| *byte == b'\n').rev();
    lines
        .filter_map(|line| {
            let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
            let dash = fields.iter().position(|field| *field == b"-")?;
            let at = PathBuf::from(std::ffi::OsString::from_vec(unescaped(fields.get(4)?)));
            let text = |field: &[u8]| String::from_utf8_lossy(&unescaped(field)).into_owned();
            let line = MountLine {
                device: text(fields.get(2)?),
                kind: text(fields.get(dash + 1)?),
                source: text(fields.get(dash + 2)?),
            };
            (at == folder).then_some(line)
        })
        .next()
}

/// Decodes octal escapes such as `\040`.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let octal = field.get(at + 1..at + 4).filter(|_| field[at] == b'\\');
        let octal = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(octal.unwrap_or(field[at]));
        at += if octal.is_some() { 4 } else { 1 };
    }
    bytes
}

/// The answer of a folder to `stat`.
enum Answer {
    Folder,
    /// Its process has ended.
    Dead,
    Silent,
    Failed(std::io::Error),
}

/// Calls `stat` on a folder in a thread, which may block for ever if the process of a mount was stopped.
fn ask(folder: &Path) -> Answer {
    let (send, receive) = channel();
    let path = folder.to_owned();
    let asked = std::thread::Builder::new().name("forebay-look".to_owned()).spawn(move || {
        let _ = send.send(std::fs::metadata(path));
    });
    if let Err(e) = asked {
        return Answer::Failed(e);
    }
    match receive.recv_timeout(ANSWER_MAX) {
        Ok(Ok(meta)) if meta.is_dir() => Answer::Folder,
        Ok(Ok(_)) => Answer::Failed(std::io::ErrorKind::NotADirectory.into()),
        Ok(Err(e)) if e.raw_os_error() == Some(libc::ENOTCONN) => Answer::Dead,
        Ok(Err(e)) => Answer::Failed(e),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Answer::Silent,
    }
}

/// Checks that a folder exists, is empty and has no mount; unmounts dead mounts of Forebay. Returns its resolved path.
///
/// # Errors
/// NotFound; Conflict for a folder that is not empty, or that has a live or foreign mount; errors of the system.
pub(crate) fn free(folder: &Path) -> Result<PathBuf> {
    let named = |e: Error| e.with("folder", folder.display());
    let whole = whole(folder).map_err(named)?;
    for _ in 0..STACKED_MAX {
        let conflict = |message: &str, hint: &str| {
            Err(Error::new(ErrorKind::Conflict, message).with("folder", whole.display()).hint(hint))
        };
        let mounted = top_mount(&whole).filter(|line| line.kind.starts_with("fuse"));
        match (ask(&whole), mounted) {
            (Answer::Folder, None) => return empty(&whole).map(|()| whole.clone()),
            (Answer::Dead, Some(line)) if line.is_ours() => {
                tracing::info!(folder = %whole.display(), source = line.source, "a mount whose process ended is taken away");
                detach(&whole).map_err(named)?;
            }
            (Answer::Dead, line) => {
                let kind = line.map_or_else(|| "another file system".to_owned(), |line| line.kind);
                let hint =
                    format!("it is no mount of Forebay ({kind}), so it is left alone: umount -l {}", whole.display());
                return conflict("this folder is a mount whose process has ended", &hint);
            }
            (Answer::Folder, Some(line)) => {
                let hint = format!("umount {}, or name another folder", whole.display());
                return conflict(&format!("this folder is a mount already, of {} ({})", line.source, line.kind), &hint);
            }
            (Answer::Silent, _) => {
                let hint = "end its process, and start this again; or name another folder";
                return conflict(&format!("this folder is a mount that says nothing in {ANSWER_MAX:?}"), hint);
            }
            (Answer::Failed(e), _) => return Err(unusable(e).with("folder", whole.display())),
        }
    }
    let message = format!("{STACKED_MAX} dead mounts were taken away, and there are more");
    Err(Error::new(ErrorKind::Conflict, message).with("folder", whole.display()))
}

/// Resolves symbolic links in a path. At a dead mount, it resolves the parent only.
fn whole(folder: &Path) -> Result<PathBuf> {
    match std::fs::canonicalize(folder) {
        Ok(whole) => Ok(whole),
        Err(e) if e.raw_os_error() == Some(libc::ENOTCONN) => {
            let folder = std::path::absolute(folder).map_err(Error::from)?;
            match (folder.parent(), folder.file_name()) {
                (Some(parent), Some(name)) => Ok(std::fs::canonicalize(parent).map_err(Error::from)?.join(name)),
                _ => Ok(folder),
            }
        }
        Err(e) => Err(unusable(e)),
    }
}

fn unusable(e: std::io::Error) -> Error {
    match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::new(ErrorKind::NotFound, "the folder for the mount does not exist").hint("make it: mkdir -p")
        }
        std::io::ErrorKind::NotADirectory => {
            Error::invalid("a mount needs a folder, and this is a file").hint("make a folder: mkdir -p")
        }
        _ => e.into(),
    }
}

fn empty(folder: &Path) -> Result<()> {
    let mut entries = std::fs::read_dir(folder).map_err(|e| unusable(e).with("folder", folder.display()))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Error::new(ErrorKind::Conflict, "the folder for the mount is not empty")
            .with("folder", folder.display())
            .hint("a mount would hide its content: name an empty folder")),
    }
}

/// Unmounts the topmost mount of a folder lazily: its open files stay open.
///
/// # Errors
/// PermissionDenied; errors of the system, also for a folder without a mount.
pub fn detach(folder: &Path) -> Result<()> {
    match unmount(folder, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        // Users other than root unmount by the helper fusermount.
        Err(rustix::io::Errno::PERM) => by_helper(folder),
        Err(e) => Err(std::io::Error::from(e).into()),
    }
}

fn by_helper(folder: &Path) -> Result<()> {
    let run = |program: &&str| {
        let run = Command::new(program).args(["-u", "-z", "--"]).arg(folder).stderr(Stdio::null()).status();
        run.is_ok_and(|status| status.success())
    };
    if ["fusermount3", "fusermount"].iter().any(run) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::PermissionDenied, "not allowed to unmount this folder")
        .with("folder", folder.display())
        .hint("unmount it as root: umount -l"))
}

/// Raises the kernel's read-ahead of a mount above its default of 128 KiB. This needs root; a failure is harmless.
pub(crate) fn read_further_ahead(line: &MountLine, kilobytes: u64) {
    let setting = format!("/sys/class/bdi/{}/read_ahead_kb", line.device);
    if let Err(e) = std::fs::write(&setting, kilobytes.to_string()) {
        tracing::debug!(setting, "the system's read-ahead stays as it is: {e}");
    }
}

/// Whether `folder` is `other`, or is below it.
pub(crate) fn is_within(folder: &Path, other: &Path) -> bool {
    std::fs::canonicalize(other).is_ok_and(|other| folder.starts_with(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        40 27 0:45 / /mnt/a\\040b ro,nosuid shared:3 - fuse.forebay s3://x\\054y ro,user_id=0\n\
        41 27 0:46 / /data rw - tmpfs none rw\n\
        42 41 0:47 / /data ro - fuse.rclone far: ro\n\n";

    #[test]
    fn the_mount_on_top_of_a_folder_is_found() {
        let line = |device: &str, kind: &str, source: &str| {
            Some(MountLine { device: device.to_owned(), kind: kind.to_owned(), source: source.to_owned() })
        };
        assert_eq!(top(MOUNTS, Path::new("/mnt/a b")), line("0:45", KIND, "s3://x,y"));
        assert_eq!(top(MOUNTS, Path::new("/data")), line("0:47", "fuse.rclone", "far:"));
        assert_eq!(top(MOUNTS, Path::new("/data/below")), None);
        assert_eq!(top(b"no list\n1 2 3\n", Path::new("/")), None);
    }

    #[test]
    fn a_folder_must_be_there_and_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(free(folder.path()).is_ok());
        std::fs::write(folder.path().join("file"), "").expect("written");
        assert_eq!(free(folder.path()).expect_err("not empty").kind(), ErrorKind::Conflict);
        assert_eq!(free(&folder.path().join("none")).expect_err("none").kind(), ErrorKind::NotFound);
        assert_eq!(free(&folder.path().join("file")).expect_err("a file").kind(), ErrorKind::Invalid);
    }
}
