//! Checks a ledger without a dispatcher, and repairs a corrupt one.
//!
//! Invariants: opening a file changes it, so only a copy is ever opened; the file that a repair replaces is kept
//! beside. A repaired ledger never grants a token that the old one may have granted: tokens and job numbers continue
//! far behind the last readable one.

#![expect(clippy::disallowed_methods, reason = "the name of a temporary folder")]

use std::fs::File;
use std::path::{Path, PathBuf};

use forebay_core::{Error, ErrorKind, Result};
use redb::ReadableDatabase;
use serde::Serialize;

use super::failure::{corrupt, disk};
use super::ledger::{FILE, LedgerStore, find, keep, open_whole};
use super::rollback_guard::{FILE as GUARD_FILE, RollbackGuard};
use super::row_codec;
use super::rows::{self, Row};
use crate::records::{Batch, Ledger};

/// How far tokens and job numbers are advanced: more than can have been granted since the last readable one.
const TOKENS_PASSED: u64 = 1 << 32;
const JOBS_PASSED: u64 = 1 << 20;

/// The contents of a ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LedgerReport {
    /// The file.
    pub file: PathBuf,
    /// Jobs, including finished ones.
    pub jobs: usize,
    /// Consumers that have acknowledged something.
    pub frontiers: usize,
    /// Splits that workers hold.
    pub grants: usize,
    /// Samples that were left out.
    pub lost: usize,
    /// Datasets with a profile.
    pub learned: usize,
    /// The next fencing token.
    pub next_token: u64,
}

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repaired {
    /// The ledger after the repair.
    pub ledger: LedgerReport,
    /// The lost rows; empty if there was nothing to repair.
    pub dropped: Vec<String>,
    /// Where the old file is; `None` if there was nothing to repair.
    pub kept: Option<PathBuf>,
}

/// Returns the contents of a ledger; `path` is its file or its state folder. The dispatcher must not run.
///
/// # Errors
/// NotFound; Conflict while a dispatcher runs; Version; Data, with the place as far as known, when the ledger is
/// corrupt.
pub fn check_ledger(path: &Path) -> Result<LedgerReport> {
    let file = file_of(path);
    Ok(report(&file, &Copied::of(&file)?.load()?))
}

/// Returns a ledger as lines of JSON, the last of which counts them.
///
/// # Errors
/// As [`check_ledger`].
pub fn dump_ledger(path: &Path) -> Result<String> {
    let ledger = Copied::of(&file_of(path))?.load()?;
    let text = rows::write(&ledger.to_batch())?;
    String::from_utf8(text).map_err(|e| Error::internal(format!("a row of the ledger: {e}")))
}

/// Keeps the readable rows of a ledger, and the old file beside. An intact ledger stays as it is.
///
/// # Errors
/// Errors of [`check_ledger`]; Data when nothing can be read.
pub fn repair_ledger(path: &Path) -> Result<Repaired> {
    let file = file_of(path);
    let copied = Copied::of(&file)?;
    match copied.load() {
        Ok(ledger) => return Ok(Repaired { ledger: report(&file, &ledger), dropped: Vec::new(), kept: None }),
        Err(e) if e.kind() != ErrorKind::Data => return Err(e),
        Err(_) => {}
    }
    // The first attempt has changed the copy.
    let salvaged = Salvaged::from(&Copied::of(&file)?, &file)?;
    let folder = folder_of(&file);
    let mut dropped = salvaged.unreadable;
    let seen = RollbackGuard::open(folder)?.seen();
    if seen > salvaged.batches {
        dropped.push(format!("what changed in batches {} to {seen}, if anything did", salvaged.batches + 1));
    }
    let mut ledger = Ledger::default();
    ledger.apply(&Batch::from_rows(salvaged.rows)?);
    ledger.next_token = ledger.next_token.saturating_add(TOKENS_PASSED);
    ledger.next_job = ledger.next_job.saturating_add(JOBS_PASSED);
    let kept = replace(&file, &ledger, seen.max(salvaged.batches))?;
    Ok(Repaired { ledger: report(&file, &ledger), dropped, kept: Some(kept) })
}

/// Writes a ledger beside the file and moves it to its place; returns where the old one is.
fn replace(file: &Path, ledger: &Ledger, batches: u64) -> Result<PathBuf> {
    let folder = folder_of(file);
    let new = Temporary::within(folder)?;
    LedgerStore::open(&new.0)?.begin_at(batches).commit(&ledger.to_batch())?;
    let free = (1..).map(|n| file.with_extension(format!("redb.damaged-{n}"))).find(|kept| !kept.exists());
    let kept = free.unwrap_or_else(|| file.with_extension("redb.damaged"));
    // There is a ledger at every moment: a dispatcher that starts without one would begin with an empty one.
    keep(file, &kept)?;
    let moved = || {
        std::fs::rename(new.0.join(FILE), file)?;
        std::fs::rename(new.0.join(GUARD_FILE), file.with_file_name(GUARD_FILE))?;
        File::open(folder)?.sync_all()
    };
    moved().map_err(|e| disk(file, e))?;
    Ok(kept)
}

fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE) } else { path.to_owned() }
}

/// The folder of a file; the current folder if the path names none.
fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn report(file: &Path, ledger: &Ledger) -> LedgerReport {
    LedgerReport {
        file: file.to_owned(),
        jobs: ledger.jobs.len(),
        frontiers: ledger.frontiers.len(),
        grants: ledger.grants.len(),
        lost: ledger.skipped.len(),
        learned: ledger.profiles.len(),
        next_token: ledger.next_token,
    }
}

/// The readable part of a corrupt ledger.
struct Salvaged {
    rows: Vec<Row>,
    batches: u64,
    unreadable: Vec<String>,
}

impl Salvaged {
    fn from(copied: &Copied, file: &Path) -> Result<Self> {
        let path = copied.folder.0.join(FILE);
        // redb mends the copy if it can: it goes back to the last intact commit.
        if let Ok(found) = open_whole(&path).and_then(|db| {
            let read = || find(&db.begin_read()?);
            let read: Result<_, redb::Error> = read();
            read.map_err(|e| corrupt(file, e.to_string()))
        }) {
            return Ok(Self { rows: found.rows, batches: found.batches, unreadable: found.unreadable });
        }
        // Only bytes are left.
        let bytes = std::fs::read(file).map_err(|e| disk(file, e))?;
        let rows = row_codec::scan(&bytes);
        if rows.is_empty() {
            return Err(corrupt(file, "nothing of it can be read".to_owned()));
        }
        let batches = rows.values().map(|(batch, _)| *batch).max().unwrap_or(0);
        let unreadable = vec![format!(
            "the order of the file: {} rows were found by their checksums; others may be missing, and leases that had ended may be \
             among them",
            rows.len()
        )];
        Ok(Self { rows: rows.into_values().map(|(_, row)| row).collect(), batches, unreadable })
    }
}

/// A copy of a ledger and of its rollback guard, in a folder that is removed with it. While it exists no dispatcher
/// starts on the original.
struct Copied {
    folder: Temporary,
    file: PathBuf,
    _original: File,
}

impl Copied {
    fn of(file: &Path) -> Result<Self> {
        let cannot = |e: std::io::Error| {
            let kind = Error::from(std::io::Error::from(e.kind())).kind();
            let error = match kind {
                ErrorKind::NotFound => Error::new(kind, "there is no such ledger"),
                _ => Error::new(kind, format!("cannot read the ledger: {e}")),
            };
            error.with("file", file.display()).hint("name a dispatcher's state folder, or the ledger in it")
        };
        let original = File::open(file).map_err(cannot)?;
        match original.try_lock_shared() {
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(Error::new(ErrorKind::Conflict, "a dispatcher runs on this ledger")
                    .with("file", file.display())
                    .hint("end it first"));
            }
            Err(std::fs::TryLockError::Error(e)) => return Err(cannot(e)),
            Ok(()) => {}
        }
        let folder = Temporary::within(&std::env::temp_dir())?;
        std::fs::copy(file, folder.0.join(FILE)).map_err(cannot)?;
        let beside = file.with_file_name(GUARD_FILE);
        if beside.exists() {
            std::fs::copy(beside, folder.0.join(GUARD_FILE)).map_err(cannot)?;
        }
        Ok(Self { folder, file: file.to_owned(), _original: original })
    }

    fn load(&self) -> Result<Ledger> {
        let loaded = LedgerStore::open(&self.folder.0).and_then(|store| store.load());
        loaded.map_err(|e| e.replace("file", self.file.display()))
    }
}

/// A folder that is removed when it is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn within(folder: &Path) -> Result<Self> {
        let path = folder.join(format!("forebay-ledger-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir(&path).map_err(|e| disk(&path, e))?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A folder that cannot be removed does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
