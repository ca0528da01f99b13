//! Where the bytes of one file go: beside their place in a folder, or to a store; there once all are.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use forebay_core::{Error, ErrorKind, Result};

use crate::store::Upload;

/// What files that are being written are called until they are done.
pub(super) const UNFINISHED: &str = ".unfinished";
/// What is gathered before it is written to a disk.
const BUFFER_BYTES: usize = 256 << 10;

/// Takes the bytes of a file.
pub(super) enum Sink {
    /// A file of this machine.
    File(Box<UnfinishedFile>),
    /// An object of a store.
    Upload(Box<Upload>),
}

/// A file that is written beside its place.
pub(super) struct UnfinishedFile {
    file: BufWriter<File>,
    at: PathBuf,
    path: PathBuf,
}

impl Sink {
    /// Begins a file of this machine.
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

    /// Names the file for errors.
    pub(super) fn name(&self) -> String {
        match self {
            Sink::File(file) => file.at.display().to_string(),
            Sink::Upload(upload) => upload.uri().to_owned(),
        }
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// As [`Sink::beside`], and what the store says.
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
        // Encoders flush often; what counts is flushed at the end.
        Ok(())
    }
}

/// Gives a file that is done its name, for good.
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

/// Something of this machine could not be written.
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

/// A sink's error, wherever it went through: an upload's says itself what it is.
pub(super) fn of_sink(name: &str, e: io::Error) -> Error {
    match e.downcast::<Error>() {
        Ok(ours) => ours,
        Err(e) => unwritten(Path::new(name), &e),
    }
}
