//! Errors about files, worded for the user who named them.

use forebay_core::{Error, ErrorKind};

/// An error of the operating system about `uri`.
pub(crate) fn io(uri: &str, e: std::io::Error) -> Error {
    use std::io::ErrorKind as Io;
    match e.kind() {
        Io::NotFound => missing(uri),
        Io::PermissionDenied => denied(uri, "give this user read permission on the file and its folders"),
        Io::IsADirectory => folder(uri),
        Io::NotADirectory => Error::invalid("this is a file, or below one, where a folder is wanted")
            .with("folder", uri)
            .hint("check the path; from_image_folder takes a folder that has one for each class"),
        Io::UnexpectedEof => truncated(uri, "the file ends before the data that it should hold"),
        _ => {
            let kind = Error::from(std::io::Error::from(e.kind())).kind();
            let kind = if kind == ErrorKind::Internal { ErrorKind::Unavailable } else { kind };
            Error::new(kind, format!("cannot read a file: {e}")).with("file", uri)
        }
    }
}

/// There is nothing at `uri`.
pub(crate) fn missing(uri: &str) -> Error {
    Error::new(ErrorKind::NotFound, "there is no such file").with("file", uri).hint("check the path")
}

/// There is nothing at `uri` any more.
pub(crate) fn gone(uri: &str) -> Error {
    Error::new(ErrorKind::NotFound, "this file was there when it was indexed, and is gone since")
        .with("file", uri)
        .hint("put it back, or start a new job, which reads the files that are there now; where a worker is named, it has to \
             see the same files at the same paths")
}

/// A job of a tenant wants a file that no rule gives to the tenant.
pub(crate) fn not_given(uri: &str, what: &str) -> Error {
    Error::new(ErrorKind::PermissionDenied, what).with("file", uri).hint(
        "jobs of tenants may read such an address only if its host is allowed: --allow-source of the dispatcher and of \
         the workers, or `sources` of the tenant in the token file",
    )
}

/// There is something at `uri` that this user may not read.
pub(crate) fn denied(uri: &str, hint: &str) -> Error {
    Error::new(ErrorKind::PermissionDenied, "not allowed to read this file").with("file", uri).hint(hint)
}

/// `uri` is a folder; a file is wanted.
pub(crate) fn folder(uri: &str) -> Error {
    Error::invalid("this is a folder, not a file")
        .with("file", uri)
        .hint(format!("name the files in it, for example {:?}", format!("{}/*", uri.trim_end_matches('/'))))
}

/// `uri` is not a regular file with bytes from a beginning to an end.
pub(crate) fn special(uri: &str, what: &str) -> Error {
    Error::invalid(format!("this is {what}, not a regular file"))
        .with("file", uri)
        .hint("a source is read more than once and in any order: write the data to a file, and name that; or use from_generator")
}

/// The file at `uri` is shorter than its own content states.
pub(crate) fn truncated(uri: &str, what: &str) -> Error {
    Error::data(what).with("file", uri).hint("the file is truncated or corrupt: write or fetch it again")
}

/// The format does not allow the bytes of `uri` at `offset`.
pub(crate) fn corrupt(uri: &str, offset: u64, what: impl Into<String>) -> Error {
    Error::data(what).with("file", uri).with("offset", offset)
}

/// Where rows begin depends on where a reader of the file began.
pub(crate) fn ambiguous(uri: &str, offset: u64, why: &str) -> Error {
    corrupt(uri, offset, format!("{why}, so no reader can begin in the middle of this file"))
        .with("fault", "file")
        .hint("use shuffle(window=None), which counts the rows first; or store what is inside the row compressed")
}

/// The content of a compressed file is compressed once more.
pub(crate) fn packed_twice(uri: &str, outer: &str, inner: &str) -> Error {
    Error::data(format!("this file is compressed twice: with {outer}, and what it holds with {inner}"))
        .with("fault", "file")
        .with("file", uri)
        .hint(format!("decompress the file once, so that {inner} alone is left"))
}

/// The file is not the one that was indexed.
pub(crate) fn changed(uri: &str, was: impl std::fmt::Display, is: impl std::fmt::Display) -> Error {
    Error::data("this file changed since it was indexed")
        .with("fault", "file")
        .with("file", uri)
        .with("was", was)
        .with("is", is)
        .hint("start a new job, which reads the new files; or put the old file back")
}

/// Arrow refused an array that this crate made.
pub(crate) fn arrow(e: arrow_schema::ArrowError) -> Error {
    Error::internal(format!("arrow: {e}"))
}
