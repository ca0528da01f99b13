//! Local files.

use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use forebay_core::{Error, Result};

use super::find::folders::{self, Entry};
use super::find::matching;
use super::pinned::{Found, Mark, Stat};
use super::uri::{is_glob, nothing_matches};
use crate::fail;

pub(super) fn is_file(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file())
}

/// Prefixes the current folder, with its special characters escaped.
pub(super) fn absolute(pattern: &str) -> Result<String> {
    if pattern.is_empty() {
        return Err(Error::invalid("a path is empty").hint("name a file"));
    }
    if pattern.starts_with('/') {
        return Ok(pattern.to_owned());
    }
    let here = std::env::current_dir().map_err(|e| fail::io(".", e))?;
    let here = here.to_string_lossy();
    let here = if is_glob(pattern) { glob::Pattern::escape(&here) } else { here.into_owned() };
    Ok(format!("{}/{}", here.trim_end_matches('/'), pattern.trim_start_matches("./")))
}

fn mark(meta: &Metadata) -> Stat {
    let ns = meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
    Stat { size: meta.len(), mark: Mark::Mtime(ns) }
}

pub(super) fn stat(path: &str) -> Result<Stat> {
    let meta = std::fs::metadata(path).map_err(|e| fail::io(path, e))?;
    regular(&meta, path)?;
    Ok(mark(&meta))
}

/// Refuses all but regular files: reading another may block, never end, or have side effects.
fn regular(meta: &Metadata, path: &str) -> Result<()> {
    let kind = meta.file_type();
    let what = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => return Err(fail::folder(path)),
        _ if kind.is_fifo() => "a named pipe",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_char_device() => "a character device",
        _ if kind.is_block_device() => "a block device",
        _ => "something else",
    };
    Err(fail::special(path, what))
}

/// Opens a regular file, and never blocks on another kind of file.
///
/// # Errors
/// Any error of the system; Invalid for a folder, a pipe, a socket or a device.
pub(super) fn open_regular(path: &Path) -> Result<File> {
    let name = path.to_string_lossy();
    let failed = |e| fail::io(&name, e);
    // Opening a device may already have side effects, so the check comes before; and again after, because the name may
    // have been replaced.
    regular(&std::fs::metadata(path).map_err(failed)?, &name)?;
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).map_err(failed)?;
    regular(&file.metadata().map_err(failed)?, &name)?;
    Ok(file)
}

/// Opens a file and compares it with its pinned identity.
pub(super) fn open(path: &str, pinned: &Stat) -> Result<File> {
    let file = open_regular(Path::new(path)).map_err(|e| match e.kind() {
        forebay_core::ErrorKind::NotFound => fail::gone(path),
        _ => e,
    })?;
    check(&file, path, pinned)?;
    Ok(file)
}

/// Compares an open file with its pinned identity: it may have been overwritten in place. If the name was replaced by
/// another file, the open one is still the pinned one.
pub(super) fn check(file: &File, path: &str, pinned: &Stat) -> Result<()> {
    let now = mark(&file.metadata().map_err(|e| fail::io(path, e))?);
    if now == *pinned { Ok(()) } else { Err(fail::changed(path, pinned, now)) }
}

/// Returns the files that match, sorted.
pub(super) fn glob(pattern: &str) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    // All files below a folder, as in a shell.
    let files = pattern.strip_suffix("/**").map(|folder| format!("{folder}/**/*"));
    matching::each(files.as_deref().unwrap_or(pattern), &mut |path| {
        if !path.is_dir() {
            found.push(Found { uri: text(&path)?, stat: None });
        }
        Ok(())
    })?;
    if found.is_empty() {
        let literal = &pattern[..pattern.find(['*', '?', '[']).unwrap_or(pattern.len())];
        let folder = literal.rfind('/').map_or(".", |i| &literal[..i.max(1)]);
        return Err(nothing_matches(pattern, folder, Path::new(folder).is_dir()));
    }
    found.sort_by(|a, b| a.uri.cmp(&b.uri));
    // Patterns with `**` twice match a file in more than one way.
    found.dedup();
    Ok(found)
}

/// Returns the names of the direct sub-folders, and every file below whose name is `wanted`, sorted. Hidden names are
/// left out.
pub(super) fn walk(root: &str, wanted: &dyn Fn(&str) -> bool) -> Result<(Vec<String>, Vec<Found>)> {
    let (mut names, mut files) = (Vec::new(), Vec::new());
    folders::walk(Path::new(root), |path, entry, depth| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match entry {
            Entry::File if wanted(&name) => files.push(Found { uri: text(&path)?, stat: None }),
            Entry::Folder if depth == 0 => names.push(name_of(&path)?),
            Entry::File | Entry::Folder => {}
        }
        Ok(())
    })?;
    names.sort();
    files.sort_by(|a, b| a.uri.cmp(&b.uri));
    Ok((names, files))
}

fn name_of(folder: &Path) -> Result<String> {
    text(folder).map(|text| text.rsplit('/').next().unwrap_or_default().to_owned())
}

/// Returns a path as text, the form of file names in graphs, indexes and columns.
fn text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Error::invalid("a file's name is not utf-8")
            .with("file", path.as_os_str().as_bytes().escape_ascii())
            .hint("rename the file, or name the others by a pattern that this one does not match")
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_none_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let (pipe, socket) = (folder.path().join("pipe"), folder.path().join("socket"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("runs");
        assert!(made.success());
        let _listener = UnixListener::bind(&socket).expect("bound");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).expect("made");
        let pinned = Stat { size: 0, mark: Mark::Mtime(0) };
        for (path, what) in [
            (pipe.as_path(), "a named pipe"),
            (&link, "a named pipe"),
            (&socket, "a socket"),
            (Path::new("/dev/zero"), "a character device"),
            (Path::new("/dev/tty"), "a character device"),
        ] {
            let path = path.to_str().expect("utf-8");
            for e in [stat(path).expect_err("refused"), open(path, &pinned).expect_err("refused")] {
                assert_eq!(e.message(), format!("this is {what}, not a regular file"), "{path}");
                assert_eq!(e.get("file"), Some(path));
            }
        }
    }
}
