//! Reads the ledger in etcd: the last state, and the batches since then.
//!
//! Invariant: the ledger is read as a whole, or refused with the key whose value is missing or is not as it was
//! written.

use forebay_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::generated::KeyValue;
use super::keys::{Keys, part_of};
use crate::records::{Batch, Ledger};
use crate::store::rows;

/// The format that is written (see `ledger`), and the oldest that is read.
pub(super) const FORMAT: u64 = 2;
const FORMAT_OLDEST: u64 = 1;

/// The batches and the state in etcd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meta {
    pub(super) format: u64,
    /// The last batch; 0 when there is none.
    pub(super) seq: u64,
    /// The batch after which the state was written; 0 when it was not, and is empty.
    pub(super) state: u64,
}

/// # Errors
/// Version when it is another format than this version reads.
pub(super) fn check_format(found: u64, keys: &Keys) -> Result<()> {
    let what = format!("the ledger in etcd has format {found}, and this version reads {FORMAT_OLDEST} to {FORMAT}");
    let error = Error::new(ErrorKind::Version, what).with("key", String::from_utf8_lossy(&keys.meta()));
    match found {
        FORMAT_OLDEST..=FORMAT => Ok(()),
        0..FORMAT_OLDEST => Err(error.hint("run a version of forebay between the two first, which rewrites it")),
        _ => Err(error.hint("run the version of forebay that wrote it, or use another prefix")),
    }
}

/// # Errors
/// Data, with the key, when the value cannot be read.
pub(super) fn read_meta(kv: &KeyValue) -> Result<Meta> {
    serde_json::from_slice(&kv.value).map_err(|e| unreadable(&kv.key, &e.to_string()))
}

/// Returns the ledger after all batches that are there.
///
/// # Errors
/// Data, with the key, when a part is missing or cannot be read.
pub(super) fn replay(meta: &Meta, keys: &Keys, state: &[KeyValue], log: &[KeyValue]) -> Result<Ledger> {
    let mut ledger = Ledger::default();
    if meta.state > 0 {
        ledger.apply(&document(&keys.state(meta.state), state)?);
    }
    for seq in meta.state + 1..=meta.seq {
        let at = keys.log(seq);
        // Both are in the order of their keys.
        let start = log.partition_point(|kv| kv.key < at);
        let parts = log[start..].iter().take_while(|kv| kv.key.starts_with(&at)).count();
        ledger.apply(&document(&at, &log[start..start + parts])?);
    }
    Ok(ledger)
}

/// Reads the parts at a key as one document.
fn document(at: &[u8], parts: &[KeyValue]) -> Result<Batch> {
    let gap = parts.iter().enumerate().find(|(number, part)| part.key != part_of(at, *number));
    if let Some(number) = gap.map(|(number, _)| number).or(parts.is_empty().then_some(0)) {
        return Err(unreadable(&part_of(at, number), "it is missing"));
    }
    let text: Vec<u8> = parts.iter().flat_map(|part| part.value.iter().copied()).collect();
    rows::read(&text).map_err(|e| unreadable(at, e.message()))
}

fn unreadable(key: &[u8], why: &str) -> Error {
    Error::data(format!("the dispatcher's ledger in etcd is corrupt: {why}"))
        .with("key", String::from_utf8_lossy(key))
        .hint(
            "restore etcd from a snapshot; or use another prefix to start with an empty ledger: jobs then begin anew, and \
             readers that resume from a saved state continue exactly where they were",
        )
}
