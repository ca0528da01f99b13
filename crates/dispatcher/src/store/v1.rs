//! Reads a ledger of format 1, which had a table for each kind of row and no checksums of its own.
//!
//! It is here for as long as format 1 is the one before: a ledger of it is read once, when it is opened, and written anew.

use std::sync::Arc;

use forebay_core::WorkerId;
use redb::{ReadableTable, TableDefinition, WriteTransaction};

use crate::records::{Grant, Ledger, Position};

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const JOBS: TableDefinition<u64, &[u8]> = TableDefinition::new("jobs");
/// (job, consumer) to (epoch, ordinal).
const FRONTIERS: TableDefinition<(u64, u32), (u64, u64)> = TableDefinition::new("frontiers");
/// (job, consumer, epoch, ordinal) to (token, worker, address).
const GRANTS: TableDefinition<GrantKey, (u64, u128, &str)> = TableDefinition::new("grants");
/// (job, consumer, epoch, ordinal, sample, repetition) to the error as JSON. An early ledger has no such table: here, an
/// empty one.
const LOST: TableDefinition<LostRow, &str> = TableDefinition::new("lost");
type LostRow = (u64, u32, u64, u64, u64, u64);
type GrantKey = (u64, u32, u64, u64);

/// Reads everything, and removes the tables. What cannot be read is said.
pub(super) fn take(tx: &WriteTransaction) -> Result<Result<Ledger, String>, redb::Error> {
    let mut ledger = Ledger::default();
    {
        let meta = tx.open_table(META)?;
        let number = |key| Ok::<_, redb::Error>(meta.get(key)?.map_or(0, |v| v.value()));
        (ledger.next_token, ledger.next_job) = (number("next_token")?, number("next_job")?);
    }
    for row in tx.open_table(JOBS)?.iter()? {
        let (id, json) = row?;
        match serde_json::from_slice(json.value()) {
            Ok(job) => drop(ledger.jobs.insert(id.value(), Arc::new(job))),
            Err(e) => return Ok(Err(format!("job {}: {e}", id.value()))),
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
    tx.delete_table(JOBS)?;
    tx.delete_table(FRONTIERS)?;
    tx.delete_table(GRANTS)?;
    tx.delete_table(LOST)?;
    Ok(Ok(ledger))
}
