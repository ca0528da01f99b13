//! Keeps the number of the last written batch next to the ledger, so that a ledger that lost batches is detected.
//!
//! The guard is a small file, written after each commit and not flushed: it costs a few microseconds. After a crash of
//! the process it is exact; after a power failure it may be behind, never ahead. So a ledger with fewer batches than
//! the guard's number has lost some that were acknowledged: its last commit rotted and was taken for a torn one, or an
//! older copy was put in its place.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind::NotFound;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use forebay_core::{Error, Result};

/// The name of the file in a state folder.
pub(super) const FILE: &str = "ledger.last";
/// Digits of the number: each number overwrites all of the one before.
const DIGITS: usize = 20;

/// The number of the last batch, and its file.
pub(super) struct RollbackGuard {
    path: PathBuf,
    file: File,
    seen: u64,
}

impl RollbackGuard {
    /// # Errors
    /// Errors of the disk.
    pub(super) fn open(state_dir: &Path) -> Result<Self> {
        let path = state_dir.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            // A file without a number is ignored; the ledger has checksums of its own.
            Err(e) if e.kind() != NotFound && e.kind() != std::io::ErrorKind::InvalidData => return Err(at(&path, e)),
            text => text.unwrap_or_default(),
        };
        let seen = text.trim().parse().unwrap_or(0);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|e| at(&path, e))?;
        Ok(Self { path, file, seen })
    }

    /// Returns the number of the last batch.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// Checks the number of batches in a ledger; the error describes the difference.
    pub(super) fn check(&self, batches: u64) -> Result<(), String> {
        if batches >= self.seen {
            return Ok(());
        }
        Err(format!(
            "its last batch is {batches}, and batch {} was written: the newer ones are lost. If it is a copy that you put \
             there, remove {FILE} beside it and start again",
            self.seen
        ))
    }

    /// Notes that a batch was written.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn saw(&mut self, batches: u64) -> Result<()> {
        self.seen = batches;
        self.file.write_all_at(format!("{batches:0DIGITS$}").as_bytes(), 0).map_err(|e| at(&self.path, e))
    }
}

fn at(path: &Path, e: std::io::Error) -> Error {
    let message = format!("cannot write or read {FILE} beside the ledger: {e}");
    Error::new(Error::from(e).kind(), message).with("file", path.display())
}
