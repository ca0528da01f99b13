//! A source of a block's bytes, and the reasons why a block cannot be read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use arrow_buffer::{Buffer, MutableBuffer};

/// A source of bytes.
pub(crate) trait ReadAt {
    /// Fills `to` with the bytes at `at`.
    fn fill(&self, to: &mut [u8], at: u64) -> io::Result<()>;
    /// Returns its length.
    fn len(&self) -> io::Result<u64>;
}

impl ReadAt for File {
    fn fill(&self, to: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(to, at)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl ReadAt for [u8] {
    fn fill(&self, to: &mut [u8], at: u64) -> io::Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..at.checked_add(to.len())?));
        to.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(<[u8]>::len(self) as u64)
    }
}

/// Reads bytes, after checking `len` against the file, before memory is allocated for them.
pub(super) fn bytes(file: &(impl ReadAt + ?Sized), at: u64, len: u64) -> Result<Buffer, Trouble> {
    let mut bytes = MutableBuffer::from_len_zeroed(len as usize);
    file.fill(bytes.as_slice_mut(), at)?;
    Ok(bytes.into())
}

/// The reason why a block cannot be read.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The file does not exist: a process deleted it.
    Gone,
    /// A later read may succeed: this process lacks a resource.
    Later(io::Error),
    /// Another version wrote it, which this one does not read.
    OtherFormat(String),
    /// The block's bytes changed after they were written.
    Broken(String),
}

impl From<io::Error> for Trouble {
    fn from(e: io::Error) -> Self {
        use io::ErrorKind as Io;
        /// The errors of too many open files, of this process or of the system.
        const NO_DESCRIPTOR: [i32; 2] = [24, 23];
        match e.kind() {
            Io::NotFound => Trouble::Gone,
            Io::PermissionDenied | Io::OutOfMemory | Io::Interrupted | Io::WouldBlock | Io::StaleNetworkFileHandle => {
                Trouble::Later(e)
            }
            _ if e.raw_os_error().is_some_and(|code| NO_DESCRIPTOR.contains(&code)) => Trouble::Later(e),
            _ => Trouble::Broken(e.to_string()),
        }
    }
}

pub(super) fn broken(what: &str) -> Trouble {
    Trouble::Broken(what.to_owned())
}
