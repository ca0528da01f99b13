//! The ledger on disk: one redb file, whose size depends on what is outstanding and not on what was ever granted.
//!
//! Tables: `meta` (format, next token, next job), `jobs` (JSON by number), `frontiers`, `grants` (token, worker,
//! address by split), `lost` (the error, as JSON, by sample). A commit is durable when it returns, and replaces one consistent state by the next: a crash
//! leaves the one or the other. Keys and values are fixed for format 1; a later format is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result, WorkerId};
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};

use crate::records::{Batch, Grant, Ledger, Position};

const FORMAT: u64 = 1;

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const JOBS: TableDefinition<u64, &[u8]> = TableDefinition::new("jobs");
/// (job, consumer) to (epoch, ordinal).
const FRONTIERS: TableDefinition<(u64, u32), (u64, u64)> = TableDefinition::new("frontiers");
/// To (token, worker, address).
const GRANTS: TableDefinition<GrantKey, (u64, u128, &str)> = TableDefinition::new("grants");
/// To the error as JSON.
const LOST: TableDefinition<LostRow, &str> = TableDefinition::new("lost");
/// (job, consumer, epoch, ordinal, sample, repetition).
type LostRow = (u64, u32, u64, u64, u64, u64);
/// (job, consumer, epoch, ordinal).
type GrantKey = (u64, u32, u64, u64);

/// The open ledger.
pub(crate) struct LedgerStore {
    path: PathBuf,
    db: Database,
}

impl LedgerStore {
    /// Opens the ledger in a folder, and makes it when there is none.
    ///
    /// # Errors
    /// Conflict when another dispatcher has it open; Version when a later one wrote it; Data when it is corrupt;
    /// what the disk says.
    pub(crate) fn open(state_dir: &Path) -> Result<Self> {
        let path = state_dir.join("ledger.redb");
        let new = !path.exists();
        let db = Database::create(&path).map_err(|e| cannot_open(&path, e))?;
        let store = Self { path, db };
        if new {
            // The file's own name must outlive a power cut, too.
            std::fs::File::open(state_dir).and_then(|d| d.sync_all()).map_err(|e| disk(&store.path, e))?;
        }
        store.check_format()?;
        Ok(store)
    }

    fn check_format(&self) -> Result<()> {
        let found = self.read(|tx| match tx.open_table(META) {
            Ok(meta) => Ok(meta.get("format")?.map(|v| v.value())),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(e) => Err(e.into()),
        })?;
        match found {
            Some(FORMAT) => self.write(|tx| {
                // An early ledger has no such table.
                tx.open_table(LOST)?;
                Ok(())
            }),
            None => self.write(|tx| {
                tx.open_table(META)?.insert("format", FORMAT)?;
                // Readers need not ask whether the tables are there.
                tx.open_table(JOBS)?;
                tx.open_table(FRONTIERS)?;
                tx.open_table(GRANTS)?;
                tx.open_table(LOST)?;
                Ok(())
            }),
            Some(later) => Err(Error::new(
                ErrorKind::Version,
                format!("the dispatcher's ledger has format {later}, and this version reads format {FORMAT}"),
            )
            .with("file", self.path.display())
            .hint("run the version of forebay that wrote it, or use another state folder")),
        }
    }

    /// Reads everything.
    ///
    /// # Errors
    /// Data when a record cannot be read.
    pub(crate) fn load(&self) -> Result<Ledger> {
        let mut unreadable = None;
        let ledger = self.read(|tx| {
            let mut ledger = Ledger::default();
            let meta = tx.open_table(META)?;
            let number = |key| Ok::<_, redb::Error>(meta.get(key)?.map_or(0, |v| v.value()));
            (ledger.next_token, ledger.next_job) = (number("next_token")?, number("next_job")?);
            for row in tx.open_table(JOBS)?.iter()? {
                let (id, json) = row?;
                match serde_json::from_slice(json.value()) {
                    Ok(job) => drop(ledger.jobs.insert(id.value(), Arc::new(job))),
                    Err(e) => unreadable = Some(format!("job {}: {e}", id.value())),
                }
            }
            for row in tx.open_table(FRONTIERS)?.iter()? {
                let (key, (epoch, ordinal)) = row.map(|(k, v)| (k.value(), v.value()))?;
                ledger.frontiers.insert(key, Position::new(epoch, ordinal));
            }
            for row in tx.open_table(GRANTS)?.iter()? {
                let (key, value) = row?;
                let ((job, consumer, epoch, ordinal), (token, worker, address)) = (key.value(), value.value());
                let grant = Grant { token, worker: WorkerId(worker), address: address.into() };
                ledger.grants.insert(((job, consumer), Position::new(epoch, ordinal)), grant);
            }
            for row in tx.open_table(LOST)?.iter()? {
                let (key, error) = row?;
                let (job, consumer, epoch, ordinal, sample, repetition) = key.value();
                let key = ((job, consumer), Position::new(epoch, ordinal), sample, repetition);
                ledger.lost.insert(key, error.value().into());
            }
            Ok(ledger)
        })?;
        match unreadable {
            Some(what) => Err(corrupt(&self.path, what)),
            None => Ok(ledger),
        }
    }

    /// Writes a batch; durable when it returns.
    ///
    /// # Errors
    /// What the disk says. Nothing of the batch is written then, and the ledger must be opened again.
    pub(crate) fn commit(&self, batch: &Batch) -> Result<()> {
        self.write(|tx| {
            let mut jobs = tx.open_table(JOBS)?;
            let mut frontiers = tx.open_table(FRONTIERS)?;
            let mut grants = tx.open_table(GRANTS)?;
            let mut lost = tx.open_table(LOST)?;
            for (id, job) in &batch.jobs {
                let Some(job) = job else {
                    jobs.remove(id)?;
                    frontiers.retain_in((*id, 0)..=(*id, u32::MAX), |_, _| false)?;
                    grants.retain_in((*id, 0, 0, 0)..=(*id, u32::MAX, u64::MAX, u64::MAX), |_, _| false)?;
                    let last = (*id, u32::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX);
                    lost.retain_in((*id, 0, 0, 0, 0, 0)..=last, |_, _| false)?;
                    continue;
                };
                jobs.insert(id, serde_json::to_vec(&**job).unwrap_or_default().as_slice())?;
            }
            for (key, p) in &batch.frontiers {
                frontiers.insert(key, (p.epoch, p.ordinal))?;
            }
            for (((job, consumer), p), grant) in &batch.grants {
                let key = (*job, *consumer, p.epoch, p.ordinal);
                match grant {
                    Some(g) => drop(grants.insert(key, (g.token, g.worker.0, &*g.address))?),
                    None => drop(grants.remove(key)?),
                }
            }
            for (((job, consumer), p, sample, repetition), error) in &batch.lost {
                lost.insert((*job, *consumer, p.epoch, p.ordinal, *sample, *repetition), &**error)?;
            }
            let mut meta = tx.open_table(META)?;
            for (key, value) in [("next_token", batch.next_token), ("next_job", batch.next_job)] {
                if let Some(value) = value {
                    meta.insert(key, value)?;
                }
            }
            Ok(())
        })
    }

    fn read<T>(&self, work: impl FnOnce(&redb::ReadTransaction) -> Result<T, redb::Error>) -> Result<T> {
        let run = || work(&self.db.begin_read()?);
        run().map_err(|e| cannot(&self.path, e))
    }

    fn write(&self, work: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>) -> Result<()> {
        let run = || {
            // A new transaction is `Durability::Immediate`: on disk when `commit` returns.
            let tx = self.db.begin_write()?;
            work(&tx)?;
            Ok(tx.commit()?)
        };
        run().map_err(|e| cannot(&self.path, e))
    }
}

fn cannot_open(path: &Path, e: DatabaseError) -> Error {
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

fn cannot(path: &Path, e: redb::Error) -> Error {
    match e {
        redb::Error::Io(e) if e.kind() != std::io::ErrorKind::InvalidData => disk(path, e),
        redb::Error::PreviousIo => disk(path, std::io::Error::other("an earlier write failed")),
        e => corrupt(path, e.to_string()),
    }
}

fn disk(path: &Path, e: std::io::Error) -> Error {
    let message = format!("cannot write the dispatcher's ledger: {e}");
    Error::new(Error::from(e).kind(), message).with("file", path.display())
}

fn corrupt(path: &Path, what: String) -> Error {
    Error::data(format!("the dispatcher's ledger is corrupt: {what}")).with("file", path.display()).hint(
        "restore it from a copy; or move it away to start with an empty ledger: \
         jobs then begin anew, and readers that resume from a saved state continue exactly where they were",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Update;

    fn batch() -> Batch {
        let mut batch = Batch::default();
        let grant = Grant { token: 7, worker: WorkerId(u128::MAX), address: "host:1".into() };
        batch.add(Update::Frontier((3, 1), Position::new(2, 5)));
        batch.add(Update::Grant(((3, 1), Position::new(2, 6)), grant.clone()));
        batch.add(Update::Grant(((4, 0), Position::new(0, 0)), grant));
        batch.add(Update::Lost(((3, 1), Position::new(2, 5), 17, 2), "{}".into()));
        batch.add(Update::Lost(((4, 1), Position::new(2, 5), 17, 2), "{}".into()));
        batch
    }

    #[test]
    fn what_was_committed_is_loaded_and_a_job_takes_all_of_its_own_with_it() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let mut model = Ledger::default();
        let mut gone = Batch::default();
        gone.add(Update::JobGone(3));
        for batch in [batch(), gone] {
            LedgerStore::open(dir.path())?.commit(&batch)?;
            model.apply(&batch);
            assert_eq!(LedgerStore::open(dir.path())?.load()?, model);
        }
        assert_eq!((model.next_token, model.grants.len(), model.frontiers.len(), model.lost.len()), (8, 1, 0, 1));
        Ok(())
    }

    #[test]
    fn a_second_dispatcher_a_later_format_and_garbage_are_refused_with_the_path() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let store = LedgerStore::open(dir.path())?;
        let refused = |kind| {
            let error = LedgerStore::open(dir.path()).err().expect("refused");
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.get("file").is_some_and(|f| f.ends_with("ledger.redb")) && error.get("hint").is_some());
        };
        refused(ErrorKind::Conflict);
        store.write(|tx| {
            tx.open_table(META)?.insert("format", FORMAT + 1)?;
            Ok(())
        })?;
        drop(store);
        refused(ErrorKind::Version);
        let file = dir.path().join("ledger.redb");
        let whole = std::fs::read(&file)?;
        std::fs::write(&file, vec![0xa5; whole.len()])?;
        refused(ErrorKind::Data);
        std::fs::write(&file, &whole[..whole.len() / 3])?;
        refused(ErrorKind::Data);
        Ok(())
    }
}
