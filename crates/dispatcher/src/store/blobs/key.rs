//! The name of a blob, and errors about its file.

use std::path::Path;

use forebay_core::{Error, ErrorKind, Result};

/// A blob of a tenant: the tenant, and the blob's id.
pub(crate) type BlobKey = (String, String);

/// An id from outside becomes a file name only when it is a hash.
pub(in crate::store) fn check(id: &str) -> Result<()> {
    if id.len() == 64 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Ok(());
    }
    Err(Error::invalid("a blob's id has 64 lowercase hexadecimal digits"))
}

/// Returns the error of an operation on a blob's file, and logs it.
pub(in crate::store) fn at(path: &Path, e: std::io::Error) -> Error {
    let message = format!("the dispatcher cannot write or read a blob: {e}");
    let error = Error::new(Error::from(e).kind(), message).with("file", path.display());
    let error = match error.kind() {
        ErrorKind::Exhausted => error.hint(
            "the disk of the dispatcher is full: make room there, or give it a larger --state-dir or --blob-dir; then open the job \
             again",
        ),
        _ => error,
    };
    // The operator of the disk may not be the user who opens the job.
    tracing::error!(%error, "a blob could not be written or read");
    error
}
