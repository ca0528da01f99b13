//! Reads the first files of a source when the user defines it.

use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result};

use crate::Allowed;
use crate::open_found::open_found as open;
use crate::store::{self, Found, Object, ReadThrough};

/// Empty files that are skipped before giving up.
pub(super) const FILES: usize = 16;

/// Refuses a file that a path names and that does not exist.
pub(super) fn exists(first: &Found) -> Result<()> {
    if first.stat.is_none() {
        store::stat(&first.uri, &Allowed::everything())?;
    }
    Ok(())
}

/// Makes patterns absolute, lists the files that match, and checks that the first one exists.
pub(super) fn looked_up(paths: Vec<String>) -> Result<(Vec<String>, Vec<Found>)> {
    listed(paths, FILES)
}

/// As [`looked_up`], with at most `most` files of each pattern of a store.
pub(super) fn listed(paths: Vec<String>, most: usize) -> Result<(Vec<String>, Vec<Found>)> {
    let paths = paths.iter().map(|p| store::absolute(p).map(store::files_of)).collect::<Result<Vec<_>>>()?;
    let files = store::list_first(&paths, most)?;
    exists(&files[0])?;
    Ok((paths, files))
}

/// Reads files until one returns a result.
pub(super) fn first<T>(
    files: &[Found],
    near: Option<&dyn ReadThrough>,
    mut look: impl FnMut(Arc<Object>) -> Result<Option<T>>,
) -> Result<Option<T>> {
    for file in files.iter().take(FILES) {
        if let Some(found) = look(open(file, near)?)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

pub(super) fn empty(files: &[Found], what: &str) -> Error {
    Error::data(format!("there is no {what} in the first files"))
        .with("file", files.first().map_or("", |f| &f.uri))
        .hint("check that these are the right files, and not empty")
}

/// Replaces the hint of an error about a missing file, where another file than the user's is read.
pub(super) fn name_instead(error: Error, hint: &str) -> Error {
    let is_missing = error.kind() == ErrorKind::NotFound && error.get("hint") == Some("check the path");
    if is_missing { error.replace("hint", hint) } else { error }
}
