//! Classifies the text of a uri or a pattern: remote or local, glob or name.

use forebay_core::{Error, ErrorKind};

/// Says whether `uri` is not a path of this machine.
pub fn is_remote(uri: &str) -> bool {
    uri.split_once("://").is_some_and(|(scheme, _)| scheme != "file" && !scheme.contains('/'))
}

/// Returns the path of a local uri.
pub(crate) fn local_path(uri: &str) -> &str {
    uri.strip_prefix("file://").unwrap_or(uri)
}

pub(super) fn is_glob(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Returns the error for a glob without a file.
pub(super) fn nothing_matches(pattern: &str, folder: &str, exists: bool) -> Error {
    let hint = if exists { "check the pattern: * does not cross folders, ** does" } else { "there is no such folder" };
    Error::new(ErrorKind::NotFound, "no file matches this pattern")
        .with("file", pattern)
        .with("folder", folder)
        .hint(hint)
}
