//! The ledger in a file: one redb file, whose size depends on outstanding work and not on the number of past grants.
//!
//! Tables: `meta` (the format, and the number of batches ever written) and `rows` (see `row_codec`). A commit is
//! durable when it returns, and replaces one consistent state by the next: a crash leaves the one or the other.
//!
//! Invariant: a load returns the last commit, or an error. Opening verifies the file's own checksums as a whole, and
//! then each row's. redb mends a file whose last commit was torn by going back to the commit before. It cannot
//! distinguish a torn commit from a rotted one; the rollback guard can (see `rollback_guard`). Formats: keys and values
//! are fixed within a format. A file of the previous format is read and upgraded; others are refused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use forebay_core::Result;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition, TableError, WriteTransaction};

use super::failure::{another_format, cannot, cannot_open, corrupt, disk};
use super::rollback_guard::RollbackGuard;
use super::row_codec;
use super::rows::Row;
use crate::records::{Batch, Ledger};

/// The format that is written, and the oldest one that is read.
pub(super) const FORMAT: u64 = 3;
pub(super) const FORMAT_OLDEST: u64 = 2;
/// The name of the file in a state folder.
pub(super) const FILE: &str = "ledger.redb";

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const ROWS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("rows");

/// The open ledger.
pub(crate) struct LedgerStore {
    path: PathBuf,
    db: Database,
    guard: RollbackGuard,
    /// The number of batches ever written.
    batches: u64,
}

/// The rows of a ledger, readable or not.
pub(super) struct Found {
    pub(super) batches: u64,
    pub(super) rows: Vec<Row>,
    /// Rows that cannot be read, and why.
    pub(super) unreadable: Vec<String>,
}

impl LedgerStore {
    /// Opens the ledger in a folder; makes it if there is none.
    ///
    /// # Errors
    /// Conflict when another dispatcher has it open; Version when a later version wrote it; Data when it is corrupt;
    /// errors of the disk.
    pub(crate) fn open(state_dir: &Path) -> Result<Self> {
        let path = state_dir.join(FILE);
        let new = !path.exists();
        let mut guard = RollbackGuard::open(state_dir)?;
        if new {
            // An operator who moved the ledger away wants a new one.
            guard.saw(0)?;
        }
        let db = open_whole(&path)?;
        let mut store = Self { path, db, guard, batches: 0 };
        if new {
            // The file's directory entry must survive a power failure, too.
            std::fs::File::open(state_dir).and_then(|d| d.sync_all()).map_err(|e| disk(&store.path, e))?;
        }
        store.check_format()?;
        store.batches = store.read(batches)?;
        store.guard.check(store.batches).map_err(|what| corrupt(&store.path, what))?;
        Ok(store)
    }

    fn check_format(&self) -> Result<()> {
        let found = self.read(format)?;
        match found {
            Some(FORMAT) => Ok(()),
            None => self.write(|tx| {
                tx.open_table(META)?.insert("format", FORMAT)?;
                // Later reads can rely on the tables.
                tx.open_table(ROWS)?;
                Ok(Ok(()))
            }),
            Some(FORMAT_OLDEST) => self.upgrade(),
            Some(other) => Err(another_format(other, &self.path)),
        }
    }

    /// Upgrades a ledger of the previous format, which had fewer kinds of rows. The old file is kept beside, for the
    /// version that wrote it.
    fn upgrade(&self) -> Result<()> {
        let kept = self.path.with_extension(format!("redb.format-{FORMAT_OLDEST}"));
        keep(&self.path, &kept)?;
        self.write(|tx| {
            tx.open_table(META)?.insert("format", FORMAT)?;
            Ok(Ok(()))
        })?;
        let (file, kept) = (self.path.display(), kept.display());
        tracing::info!(%file, %kept, "the ledger was converted from format {FORMAT_OLDEST} to format {FORMAT}");
        Ok(())
    }

    /// Reads everything.
    ///
    /// # Errors
    /// Data when a row cannot be read.
    pub(crate) fn load(&self) -> Result<Ledger> {
        let found = self.read(find)?;
        if let Some(what) = found.unreadable.first() {
            return Err(corrupt(&self.path, what.clone()));
        }
        let mut ledger = Ledger::default();
        ledger.apply(&Batch::from_rows(found.rows)?);
        Ok(ledger)
    }

    /// Continues as if `batches` batches had been written.
    pub(super) fn begin_at(mut self, batches: u64) -> Self {
        self.batches = batches;
        self
    }

    /// Writes a batch; durable when it returns.
    ///
    /// # Errors
    /// Errors of the disk. Then nothing of the batch is written, and the ledger must be opened again.
    pub(crate) fn commit(&mut self, batch: &Batch) -> Result<()> {
        let batches = self.batches + 1;
        self.write(|tx| {
            tx.open_table(META)?.insert("batches", batches)?;
            put(tx, batch, batches)
        })?;
        self.batches = batches;
        self.guard.saw(batches)
    }

    fn read<T>(&self, work: impl FnOnce(&redb::ReadTransaction) -> Result<T, redb::Error>) -> Result<T> {
        let run = || work(&self.db.begin_read()?);
        run().map_err(|e| cannot(&self.path, e))
    }

    /// Commits the transaction that `work` fills, unless it returns an error.
    fn write(&self, work: impl FnOnce(&WriteTransaction) -> Result<Result<()>, redb::Error>) -> Result<()> {
        let run = || -> Result<Result<()>, redb::Error> {
            // A new transaction is `Durability::Immediate`: on disk when `commit` returns.
            let tx = self.db.begin_write()?;
            match work(&tx)? {
                Ok(()) => Ok(Ok(tx.commit()?)),
                refused => Ok(refused),
            }
        };
        run().map_err(|e| cannot(&self.path, e))?
    }
}

/// Opens a file and verifies all of it.
pub(super) fn open_whole(path: &Path) -> Result<Database> {
    // redb panics at unexpected contents of a file that it takes for its own.
    let open = || {
        let mut db = Database::create(path)?;
        db.check_integrity()?;
        Ok::<_, DatabaseError>(db)
    };
    match catch_unwind(AssertUnwindSafe(open)) {
        Ok(opened) => opened.map_err(|e| cannot_open(path, e)),
        Err(_) => Err(corrupt(path, "it contradicts itself".to_owned())),
    }
}

/// Copies a file, durably.
pub(super) fn keep(file: &Path, beside: &Path) -> Result<()> {
    let copy = || {
        std::fs::copy(file, beside)?;
        std::fs::File::open(beside)?.sync_all()
    };
    copy().map_err(|e| disk(beside, e))
}

/// Reads the format; `None` if the ledger was just made.
fn format(tx: &redb::ReadTransaction) -> Result<Option<u64>, redb::Error> {
    match tx.open_table(META) {
        Ok(meta) => Ok(meta.get("format")?.map(|v| v.value())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Reads the number of batches ever written.
fn batches(tx: &redb::ReadTransaction) -> Result<u64, redb::Error> {
    Ok(tx.open_table(META)?.get("batches")?.map_or(0, |v| v.value()))
}

/// Reads all rows.
pub(super) fn find(tx: &redb::ReadTransaction) -> Result<Found, redb::Error> {
    let batches = batches(tx)?;
    let (mut rows, mut unreadable) = (Vec::new(), Vec::new());
    for row in tx.open_table(ROWS)?.iter()? {
        let (key, value) = row?;
        match row_codec::decode(key.value(), value.value()) {
            Ok(row) => rows.push(row),
            Err(e) => unreadable.push(e.message().to_owned()),
        }
    }
    Ok(Found { batches, rows, unreadable })
}

fn put(tx: &WriteTransaction, batch: &Batch, number: u64) -> Result<Result<()>, redb::Error> {
    let mut rows = tx.open_table(ROWS)?;
    for row in batch.rows() {
        match (&row, row_codec::key(&row)) {
            (Row::JobGone { job }, _) => {
                for kind in row_codec::OF_JOB {
                    let (start, end) = (row_codec::of_job(kind, *job), row_codec::of_job(kind, job.saturating_add(1)));
                    rows.retain_in(&start[..]..&end[..], |_, _| false)?;
                }
            }
            (Row::Released { .. } | Row::ProfileGone { .. }, Some(key)) => drop(rows.remove(&key[..])?),
            (_, Some(key)) => match row_codec::encode(&key, &row, number) {
                Ok(value) => drop(rows.insert(&key[..], &value[..])?),
                Err(e) => return Ok(Err(e)),
            },
            (_, None) => {}
        }
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use forebay_core::{ErrorKind, WorkerId};

    use super::*;
    use crate::records::{Grant, Position, Update};
    use crate::store::rows::tests::profile;

    fn batch() -> Batch {
        let mut batch = Batch::default();
        let grant = Grant { token: 7, worker: WorkerId(u128::MAX), address: "host:1".into() };
        batch.add(Update::Frontier((3, 1), Position::new(2, 5)));
        batch.add(Update::Grant(((3, 1), Position::new(2, 6)), grant.clone()));
        batch.add(Update::Grant(((4, 0), Position::new(0, 0)), grant));
        batch.add(Update::Skipped(((3, 1), Position::new(2, 5), 17, 2), "{}".into()));
        batch.add(Update::Skipped(((4, 1), Position::new(2, 5), 17, 2), "{}".into()));
        [1, 2].into_iter().for_each(|n| batch.add(Update::Profile(profile(n))));
        batch
    }

    #[test]
    fn what_was_committed_is_loaded_and_a_job_takes_all_of_its_own_with_it() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let mut model = Ledger::default();
        let mut gone = Batch::default();
        gone.add(Update::JobGone(3));
        gone.add(Update::ProfileGone(profile(1).key()));
        for batch in [batch(), gone] {
            LedgerStore::open(dir.path())?.commit(&batch)?;
            model.apply(&batch);
            assert_eq!(LedgerStore::open(dir.path())?.load()?, model);
        }
        assert_eq!((model.next_token, model.grants.len(), model.frontiers.len(), model.skipped.len()), (8, 1, 0, 1));
        assert!(model.profiles.values().eq([&profile(2)]));
        Ok(())
    }

    #[test]
    fn a_second_dispatcher_another_format_and_garbage_are_refused_with_the_path() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let store = LedgerStore::open(dir.path())?;
        let refused = |kind| {
            let error = LedgerStore::open(dir.path()).err().expect("refused");
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.get("file").is_some_and(|f| f.ends_with("ledger.redb")) && error.get("hint").is_some());
        };
        refused(ErrorKind::Conflict);
        drop(store);
        for format in [FORMAT + 1, FORMAT_OLDEST - 1] {
            let path = dir.path().join(FILE);
            let (db, guard) = (open_whole(&path)?, RollbackGuard::open(dir.path())?);
            let store = LedgerStore { path, db, guard, batches: 0 };
            store.write(|tx| {
                tx.open_table(META)?.insert("format", format)?;
                Ok(Ok(()))
            })?;
            drop(store);
            refused(ErrorKind::Version);
        }
        let file = dir.path().join(FILE);
        let whole = std::fs::read(&file)?;
        std::fs::write(&file, vec![0xa5; whole.len()])?;
        refused(ErrorKind::Data);
        std::fs::write(&file, &whole[..whole.len() / 3])?;
        refused(ErrorKind::Data);
        Ok(())
    }
}
