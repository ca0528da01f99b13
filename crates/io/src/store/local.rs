//! This machine's files.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use forebay_core::{Error, Result};

use super::{Found, Mark, Stat, nothing_matches};
use crate::fail;

/// `*` and `?` do not match a leading dot or a slash, as in the shell.
pub(super) const GLOB: glob::MatchOptions =
    glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

pub(super) fn is_file(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file())
}

/// Joins the current folder, whose own name is no pattern.
pub(super) fn absolute(pattern: &str) -> Result<String> {
    if pattern.is_empty() {
        return Err(Error::invalid("a path is empty").hint("name a file"));
    }
    if pattern.starts_with('/') {
        return Ok(pattern.to_owned());
    }
    let here = std::env::current_dir().map_err(|e| fail::io(".", e))?;
    let here = here.to_string_lossy();
    let here = if super::is_glob(pattern) { glob::Pattern::escape(&here) } else { here.into_owned() };
    Ok(format!("{}/{}", here.trim_end_matches('/'), pattern.trim_start_matches("./")))
}

fn mark(meta: &Metadata) -> Stat {
    let ns = meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
    Stat { size: meta.len(), mark: Mark::Mtime(ns) }
}

pub(super) fn stat(path: &str) -> Result<Stat> {
    let meta = std::fs::metadata(path).map_err(|e| fail::io(path, e))?;
    if meta.is_dir() {
        return Err(fail::folder(path));
    }
    Ok(mark(&meta))
}

/// Opens a file and compares it with what was pinned.
pub(super) fn open(path: &str, pinned: &Stat) -> Result<File> {
    let file = File::open(path).map_err(|e| fail::io(path, e))?;
    check(&file, path, pinned)?;
    Ok(file)
}

/// Compares an open file with what was pinned: it may be written over where it is. One that another took the name of is still
/// the one that was pinned.
pub(super) fn check(file: &File, path: &str, pinned: &Stat) -> Result<()> {
    let now = mark(&file.metadata().map_err(|e| fail::io(path, e))?);
    if now == *pinned { Ok(()) } else { Err(fail::changed(path, pinned, now)) }
}

/// Returns the files that match, sorted.
pub(super) fn glob(pattern: &str) -> Result<Vec<Found>> {
    let matches = glob::glob_with(pattern, GLOB)
        .map_err(|e| Error::invalid(format!("not a pattern: {}", e.msg)).with("file", pattern))?;
    let mut found = Vec::new();
    for path in matches {
        let path = path.map_err(|e| {
            let name = e.path().to_string_lossy().into_owned();
            fail::io(&name, e.into())
        })?;
        if !path.is_dir() {
            found.push(Found { uri: text(&path)?, stat: None });
        }
    }
    if found.is_empty() {
        let literal = &pattern[..pattern.find(['*', '?', '[']).unwrap_or(pattern.len())];
        let folder = literal.rfind('/').map_or(".", |i| &literal[..i.max(1)]);
        return Err(nothing_matches(pattern, folder, Path::new(folder).is_dir()));
    }
    found.sort_by(|a, b| a.uri.cmp(&b.uri));
    Ok(found)
}

/// The deepest folder that is looked into, which ends loops of links.
const DEPTH_MAX: usize = 64;

/// Returns the names of the direct sub-folders, and every file below, sorted. Hidden names are left out.
pub(super) fn walk(root: &str) -> Result<(Vec<String>, Vec<Found>)> {
    let mut folders = Vec::new();
    let mut files = Vec::new();
    let mut todo = vec![(Path::new(root).to_path_buf(), 0)];
    while let Some((folder, depth)) = todo.pop() {
        let name = folder.to_string_lossy().into_owned();
        for entry in std::fs::read_dir(&folder).map_err(|e| fail::io(&name, e))? {
            let entry = entry.map_err(|e| fail::io(&name, e))?;
            let path = entry.path();
            let text = text(&path)?;
            let last = text.rsplit('/').next().unwrap_or_default();
            if last.starts_with('.') {
                continue;
            }
            // The folder knows what most entries are: a large one need not be asked about each.
            let is_folder = match entry.file_type() {
                Ok(kind) if !kind.is_symlink() => kind.is_dir(),
                _ => path.is_dir(),
            };
            if !is_folder {
                files.push(Found { uri: text, stat: None });
            } else if depth == DEPTH_MAX {
                return Err(Error::invalid(format!("folders nest deeper than {DEPTH_MAX}")).with("file", text));
            } else {
                if depth == 0 {
                    folders.push(last.to_owned());
                }
                todo.push((path, depth + 1));
            }
        }
    }
    folders.sort();
    files.sort_by(|a, b| a.uri.cmp(&b.uri));
    Ok((folders, files))
}

fn text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Error::invalid("a file's name is not utf-8").with("file", path.to_string_lossy()).hint("rename the file")
    })
}
