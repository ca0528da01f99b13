//! Errors of the ledger's file, for the operator of a dispatcher: they name the file, and the action to take.

use std::path::Path;

use forebay_core::{Error, ErrorKind};
use redb::DatabaseError;

use super::ledger::{FORMAT, FORMAT_OLDEST};

/// A version with an unknown format wrote the file.
pub(super) fn another_format(format: u64, path: &Path) -> Error {
    let what =
        format!("the dispatcher's ledger has format {format}, and this version reads {FORMAT_OLDEST} to {FORMAT}");
    Error::new(ErrorKind::Version, what).with("file", path.display()).hint(match format < FORMAT_OLDEST {
        true => "run a version of forebay between the two once, which converts the ledger; or use another state folder",
        false => "run the version of forebay that wrote it, or use another state folder",
    })
}

/// The file cannot be opened.
pub(super) fn cannot_open(path: &Path, e: DatabaseError) -> Error {
    match e {
        DatabaseError::DatabaseAlreadyOpen => {
            Error::new(ErrorKind::Conflict, "another dispatcher runs on this state folder")
                .with("file", path.display())
                .hint("end it, or give this one another state folder")
        }
        DatabaseError::UpgradeRequired(found) => {
            Error::new(ErrorKind::Version, format!("the dispatcher's ledger is a redb file of version {found}"))
                .with("file", path.display())
                .hint("run the version of forebay that wrote it, or use another state folder")
        }
        e => cannot(path, e.into()),
    }
}

/// A transaction failed.
pub(super) fn cannot(path: &Path, e: redb::Error) -> Error {
    match e {
        redb::Error::Io(e)
            if !matches!(e.kind(), std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof) =>
        {
            disk(path, e)
        }
        redb::Error::PreviousIo => disk(path, std::io::Error::other("an earlier write failed")),
        e => corrupt(path, e.to_string()),
    }
}

/// The disk failed.
pub(super) fn disk(path: &Path, e: std::io::Error) -> Error {
    let message = format!("cannot write the dispatcher's ledger: {e}");
    Error::new(Error::from(e).kind(), message).with("file", path.display())
}

/// The contents are corrupt.
pub(super) fn corrupt(path: &Path, what: String) -> Error {
    Error::data(format!("the dispatcher's ledger is corrupt: {what}")).with("file", path.display()).hint(
        "`forebay ledger repair` keeps what can be read of it; or restore it from a copy; or move it away to start with an \
         empty ledger: jobs then begin anew, and readers that resume from a saved state continue exactly where they were",
    )
}
