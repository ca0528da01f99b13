//! Finds the files that match patterns, on this machine and in stores, and the identity of each.

pub(super) mod braces;
pub(super) mod folders;
pub(crate) mod levels;
pub(super) mod matching;

use forebay_core::{Error, Result};

use super::pinned::{Found, Stat};
use super::uri::{is_glob, is_remote, local_path};
use super::{local, remote};
use crate::Allowed;

/// Makes a pattern absolute, so that it does not depend on the current folder.
pub(crate) fn absolute(pattern: &str) -> Result<String> {
    if is_remote(pattern) { Ok(pattern.to_owned()) } else { local::absolute(local_path(pattern)) }
}

/// The pattern of the files below a folder. Names that begin with a dot or `_` do not match: other tools give such
/// names to files that they write beside the data.
const FILES_OF_FOLDER: &str = "**/[!_]*";

/// Returns a pattern of the files of a folder, and any other path unchanged. A path of a store is a folder if it ends
/// in a slash.
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

/// Returns the files that match `patterns`, in the order of the patterns; the files of one glob are sorted.
///
/// # Errors
/// NotFound for a glob without a file, naming the glob and the folder.
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
        // Braces in the name of an existing folder are part of the name.
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

/// Returns the names of the direct sub-folders, sorted, and every file below the folder whose name is `wanted`, sorted
/// by path.
pub(crate) fn walk(root: &str, wanted: &dyn Fn(&str) -> bool) -> Result<(Vec<String>, Vec<Found>)> {
    if is_remote(root) { remote::walk(root, wanted) } else { local::walk(local_path(root), wanted) }
}

/// Says whether `uri` is an existing file of this machine.
pub(crate) fn is_file(uri: &str) -> bool {
    !is_remote(uri) && local::is_file(local_path(uri))
}

/// Returns the size and the identity of a file.
pub(crate) fn stat(uri: &str, allowed: &Allowed) -> Result<Stat> {
    if is_remote(uri) { remote::stat(uri, allowed) } else { local::stat(uri) }
}
