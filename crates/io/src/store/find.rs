//! Which files patterns stand for, here and in stores, and what identity each has.

use forebay_core::{Error, Result};

use super::pinned::{Found, Stat};
use super::uri::{is_glob, is_remote, local_path};
use super::{braces, local, remote};
use crate::Allowed;

/// Writes a pattern so that it means the same in another folder.
pub(crate) fn absolute(pattern: &str) -> Result<String> {
    if is_remote(pattern) { Ok(pattern.to_owned()) } else { local::absolute(local_path(pattern)) }
}

/// What a folder stands for: all files below it but those whose names begin with a dot or `_`, as what other tools write beside the data do.
const FILES_OF_FOLDER: &str = "**/[!_]*";

/// Returns a pattern of the files of a folder; any other path as it is. A folder of a store is a path that ends in a slash.
pub(crate) fn files_of(path: String) -> String {
    let is_http = path.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"));
    match is_remote(&path) {
        true if path.ends_with('/') && !is_http => path + FILES_OF_FOLDER,
        false if std::path::Path::new(local_path(&path)).is_dir() => {
            format!("{}/{FILES_OF_FOLDER}", glob::Pattern::escape(local_path(&path).trim_end_matches('/')))
        }
        _ => path,
    }
}

/// Returns the files that `patterns` stand for: patterns in the user's order, the files of one glob sorted.
///
/// # Errors
/// NotFound for a glob without a file, naming it and the folder it looked in.
pub(crate) fn list(patterns: &[String]) -> Result<Vec<Found>> {
    list_first(patterns, usize::MAX)
}

/// As [`list`], but of each glob of a store only the first `most` files.
///
/// # Errors
/// As [`list`].
pub(crate) fn list_first(patterns: &[String], most: usize) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for pattern in patterns {
        if !is_remote(pattern) && local::is_file(local_path(pattern)) {
            found.push(Found { uri: local_path(pattern).to_owned(), stat: None });
            continue;
        }
        // The braces in a folder's name are its own.
        if !is_remote(pattern)
            && pattern.ends_with(FILES_OF_FOLDER)
            && let Ok(files) = local::glob(local_path(pattern))
        {
            found.extend(files);
            continue;
        }
        for path in braces::expand(pattern)? {
            match (is_remote(&path), is_glob(&path)) {
                (true, _) if path.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http")) => {
                    found.push(remote::plain_http(path)?)
                }
                (true, true) => found.extend(remote::glob(&path, most)?),
                (true, false) => found.push(Found { uri: path, stat: None }),
                (false, true) => found.extend(local::glob(local_path(&path))?),
                (false, false) => found.push(Found { uri: local_path(&path).to_owned(), stat: None }),
            }
        }
    }
    if found.is_empty() {
        return Err(Error::invalid("no path is given").hint("name at least one file"));
    }
    Ok(found)
}

/// Returns every file below a folder whose name is `wanted`, sorted by path, and every direct sub-folder's name, sorted.
pub(crate) fn walk(root: &str, wanted: &dyn Fn(&str) -> bool) -> Result<(Vec<String>, Vec<Found>)> {
    if is_remote(root) { remote::walk(root, wanted) } else { local::walk(local_path(root), wanted) }
}

/// Says whether there is a file of this machine.
pub(crate) fn is_file(uri: &str) -> bool {
    !is_remote(uri) && local::is_file(local_path(uri))
}

/// Asks for size and identity.
pub(crate) fn stat(uri: &str, allowed: &Allowed) -> Result<Stat> {
    if is_remote(uri) { remote::stat(uri, allowed) } else { local::stat(uri) }
}
