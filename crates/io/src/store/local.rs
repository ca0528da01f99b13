//! This machine's files.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use forebay_core::{Error, Result};

use super::folders::{self, Entry};
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
    let file = File::open(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => fail::gone(path),
        _ => fail::io(path, e),
    })?;
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
    let mut found = Vec::new();
    // All that is below a folder, as a shell takes it.
    let files = pattern.strip_suffix("/**").map(|folder| format!("{folder}/**/*"));
    each_match(files.as_deref().unwrap_or(pattern), &mut |path| {
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
    // Patterns with `**` twice come to a file in more than one way.
    found.dedup();
    Ok(found)
}

/// Calls `visit` with every path that matches. The folders that `**` stands for are found here, for no link may go round.
fn each_match(pattern: &str, visit: &mut dyn FnMut(PathBuf) -> Result<()>) -> Result<()> {
    let Some((before, after)) = pattern.split_once("/**/") else {
        let matches = glob::glob_with(pattern, GLOB)
            .map_err(|e| Error::invalid(format!("not a pattern: {}", e.msg)).with("file", pattern))?;
        for path in matches {
            visit(path.map_err(|e| {
                let name = e.path().to_string_lossy().into_owned();
                fail::io(&name, e.into())
            })?)?;
        }
        return Ok(());
    };
    let mut roots = Vec::new();
    match before.is_empty() {
        true => roots.push(PathBuf::from("/")),
        false => each_match(before, &mut |path| {
            roots.push(path);
            Ok(())
        })?,
    }
    for root in roots.iter().filter(|root| root.is_dir()) {
        let mut below = vec![root.clone()];
        folders::walk(root, |path, entry, _| {
            if matches!(entry, Entry::Folder) {
                below.push(path);
            }
            Ok(())
        })?;
        for folder in below {
            each_match(&format!("{}/{after}", glob::Pattern::escape(text(&folder)?.trim_end_matches('/'))), visit)?;
        }
    }
    Ok(())
}

/// Returns the names of the direct sub-folders, and every file below, sorted. Hidden names are left out.
pub(super) fn walk(root: &str) -> Result<(Vec<String>, Vec<Found>)> {
    let (mut names, mut files) = (Vec::new(), Vec::new());
    folders::walk(Path::new(root), |path, entry, depth| {
        let text = text(&path)?;
        match entry {
            Entry::File => files.push(Found { uri: text, stat: None }),
            Entry::Folder if depth == 0 => names.push(text.rsplit('/').next().unwrap_or_default().to_owned()),
            Entry::Folder => {}
        }
        Ok(())
    })?;
    names.sort();
    files.sort_by(|a, b| a.uri.cmp(&b.uri));
    Ok((names, files))
}

fn text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Error::invalid("a file's name is not utf-8").with("file", path.to_string_lossy()).hint("rename the file")
    })
}
