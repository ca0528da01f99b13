//! The destination of one file's bytes: a temporary file beside the final one, or an upload. The file appears once all
//! bytes are written.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use forebay_core::{Error, ErrorKind, Result};

use crate::store::Upload;

/// The ending of the names of incomplete files.
pub(super) const UNFINISHED: &str = ".unfinished";
/// The bytes that are buffered before they are written to a disk.
const BUFFER_BYTES: usize = 256 << 10;

/// Receives the bytes of a file.
pub(super) enum Sink {
    /// A local file.
    File(Box<UnfinishedFile>),
    /// An object of a store.
    Upload(Box<Upload>),
}

/// A file that is written beside its final place.
pub(super) struct UnfinishedFile {
    file: BufWriter<File>,
    at: PathBuf,
    path: PathBuf,
}

impl Sink {
    /// Begins a local file.
    ///
    /// # Errors
    /// Unavailable, PermissionDenied, Exhausted or Invalid, naming the file.
    pub(super) fn beside(path: PathBuf) -> Result<Self> {
        let mut at = path.clone().into_os_string();
        at.push(UNFINISHED);
        let at = PathBuf::from(at);
        let file = File::create(&at).map_err(|e| unwritten(&at, &e))?;
        Ok(Self::File(Box::new(UnfinishedFile { file: BufWriter::with_capacity(BUFFER_BYTES, file), at, path })))
    }

    /// Returns the file's name for errors.
    pub(super) fn name(&self) -> String {
        match self {
            Sink::File(file) => file.at.display().to_string(),
            Sink::Upload(upload) => upload.uri().to_owned(),
        }
    }

    /// Publishes the file in its place.
    ///
    /// # Errors
    /// As [`Sink::beside`], and any error of the store.
    pub(super) fn finish(self) -> Result<()> {
        match self {
            Sink::Upload(upload) => upload.finish(),
            Sink::File(mut beside) => {
                let mut end = || {
                    beside.file.flush()?;
                    beside.file.get_ref().sync_all()
                };
                end().map_err(|e| unwritten(&beside.at, &e))?;
                publish(&beside.at, &beside.path)
            }
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::File(beside) => beside.file.write(bytes),
            Sink::Upload(upload) => upload.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        // Encoders flush often; `finish` writes everything.
        Ok(())
    }
}

/// Renames a finished file to its final name, and syncs it.
///
/// # Errors
/// Unavailable or PermissionDenied, naming the file.
pub(super) fn publish(from: &Path, to: &Path) -> Result<()> {
    let sync = || {
        fs::rename(from, to)?;
        to.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    sync().map_err(|e| unwritten(to, &e))
}

/// Returns the error of a failed local write.
pub(super) fn unwritten(path: &Path, e: &io::Error) -> Error {
    let (kind, hint) = match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            (ErrorKind::Exhausted, "make room and save again: it goes on behind the last file")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (ErrorKind::PermissionDenied, "give this user write permission on the folder, or save to another one")
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            (ErrorKind::Invalid, "a file is where a folder is needed: save to another path")
        }
        _ => (ErrorKind::Unavailable, "save again: it goes on behind the last file"),
    };
    Error::new(kind, format!("this could not be written: {e}")).with("file", path.display()).hint(hint)
}

/// Returns a sink's error from an I/O error: the error of an upload is inside it.
pub(super) fn of_sink(name: &str, e: io::Error) -> Error {
    match e.downcast::<Error>() {
        Ok(ours) => ours,
        Err(e) => unwritten(Path::new(name), &e),
    }
}
