//! Encodes the rows of the ledger for the file: a key whose order groups related rows, and the row under a checksum.
//!
//! ```text
//! key    kind, then its numbers, big-endian: job, consumer, epoch, ordinal, sample, repetition;
//!        of a dataset: the length of its tenant's name (four bytes), the name, and the dataset's id
//! value  CRC-32C of the key and of all that follows (4 bytes); the batch that wrote it (8); the row as JSON (`rows`)
//! ```
//!
//! Numbers of a value are little-endian. The file's own checksums show whether it is intact. These checksums show which
//! rows of a damaged file are intact, even if only its bytes are left ([`scan`]).

use std::collections::BTreeMap;

use forebay_core::{Error, Result};

use super::rows::Row;

/// The bytes before the JSON of a value: the checksum and the batch.
const SUM_BYTES: usize = 4;
const HEAD_BYTES: usize = SUM_BYTES + 8;

const NUMBER: u8 = b'#';
const JOB: u8 = b'j';
const FRONTIER: u8 = b'f';
const GRANT: u8 = b'g';
const SKIPPED: u8 = b'l';
const PROFILE: u8 = b'd';
/// The kinds of rows that belong to a job, whose number follows the kind.
pub(super) const OF_JOB: [u8; 4] = [JOB, FRONTIER, GRANT, SKIPPED];

/// Returns the key of a row, or of the row that it removes; `None` if it removes several.
pub(super) fn key(row: &Row) -> Option<Vec<u8>> {
    let of = |kind: u8, job: u64, consumer: u32, rest: &[u64]| {
        let rest = rest.iter().flat_map(|n| n.to_be_bytes());
        [kind].into_iter().chain(job.to_be_bytes()).chain(consumer.to_be_bytes()).chain(rest).collect()
    };
    Some(match row {
        Row::Job(job) => of_job(JOB, job.id),
        Row::Frontier { job, consumer, .. } => of(FRONTIER, *job, *consumer, &[]),
        Row::Grant { job, consumer, epoch, ordinal, .. } | Row::Released { job, consumer, epoch, ordinal } => {
            of(GRANT, *job, *consumer, &[*epoch, *ordinal])
        }
        Row::Skipped { job, consumer, epoch, ordinal, sample, repetition, .. } => {
            of(SKIPPED, *job, *consumer, &[*epoch, *ordinal, *sample, *repetition])
        }
        Row::Profile(profile) => of_dataset(&profile.tenant, &profile.dataset),
        Row::ProfileGone { tenant, dataset } => of_dataset(tenant, dataset),
        Row::NextToken(_) => vec![NUMBER, b't'],
        Row::NextJob(_) => vec![NUMBER, b'j'],
        Row::JobGone { .. } | Row::End(_) => return None,
    })
}

fn of_dataset(tenant: &str, dataset: &str) -> Vec<u8> {
    [&[PROFILE][..], &(tenant.len() as u32).to_be_bytes(), tenant.as_bytes(), dataset.as_bytes()].concat()
}

/// Returns the prefix of all keys of a kind that belong to a job.
pub(super) fn of_job(kind: u8, job: u64) -> Vec<u8> {
    [&[kind][..], &job.to_be_bytes()].concat()
}

/// Returns the value of a row.
///
/// # Errors
/// Internal when the row cannot be JSON.
pub(super) fn encode(key: &[u8], row: &Row, batch: u64) -> Result<Vec<u8>> {
    let mut value = vec![0; SUM_BYTES];
    value.extend_from_slice(&batch.to_le_bytes());
    serde_json::to_writer(&mut value, row).map_err(|e| Error::internal(format!("a row of the ledger: {e}")))?;
    let sum = checksum(key, &value[SUM_BYTES..]);
    value[..SUM_BYTES].copy_from_slice(&sum.to_le_bytes());
    Ok(value)
}

/// Reads a row.
///
/// # Errors
/// Data, naming the row, when key and value are not as they were written.
pub(super) fn decode(at: &[u8], value: &[u8]) -> Result<Row> {
    let wrong = |what: &str| Error::data(format!("{}: {what}", name(at)));
    let (sum, rest) = value.split_first_chunk::<SUM_BYTES>().ok_or_else(|| wrong("it is cut"))?;
    if u32::from_le_bytes(*sum) != checksum(at, rest) {
        return Err(wrong("its checksum is not that of its bytes"));
    }
    let json = value.get(HEAD_BYTES..).ok_or_else(|| wrong("it is cut"))?;
    let row = serde_json::from_slice(json).map_err(|e| wrong(&e.to_string()))?;
    if key(&row).as_deref() != Some(at) {
        return Err(wrong("it lies at another place"));
    }
    Ok(row)
}

/// Returns all rows whose bytes are still in a file; for each key, the row that was written last. Removed rows may be
/// among them.
pub(super) fn scan(bytes: &[u8]) -> BTreeMap<Vec<u8>, (u64, Row)> {
    let mut found: BTreeMap<Vec<u8>, (u64, Row)> = BTreeMap::new();
    for start in HEAD_BYTES..bytes.len() {
        if bytes[start] != b'{' || bytes.get(start + 1) != Some(&b'"') {
            continue;
        }
        let mut rows = serde_json::Deserializer::from_slice(&bytes[start..]).into_iter::<Row>();
        let Some(Ok(row)) = rows.next() else { continue };
        let Some(key) = key(&row) else { continue };
        let value = &bytes[start - HEAD_BYTES..start + rows.byte_offset()];
        let batch = value.get(SUM_BYTES..HEAD_BYTES).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
        if decode(&key, value).is_ok() && found.get(&key).is_none_or(|(known, _)| batch >= *known) {
            found.insert(key, (batch, row));
        }
    }
    found
}

fn checksum(key: &[u8], rest: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), rest)
}

/// Returns a key as text, for display.
pub(super) fn name(key: &[u8]) -> String {
    let kind = match key.first() {
        Some(&JOB) => "job",
        Some(&FRONTIER) => "frontier",
        Some(&GRANT) => "grant",
        Some(&SKIPPED) => "lost",
        Some(&NUMBER) => "next",
        Some(&PROFILE) => return "the profile of a dataset".to_owned(),
        _ => "unknown",
    };
    let number = key.get(1..9).and_then(|n| n.try_into().ok()).map(u64::from_be_bytes);
    number.map_or_else(|| kind.to_owned(), |job| format!("{kind} of job {job}"))
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::every_kind;
    use super::*;

    #[test]
    fn a_row_is_what_was_written_or_is_refused() -> Result<()> {
        for row in every_kind().rows() {
            let Some(key) = key(&row).filter(|_| !matches!(row, Row::Released { .. } | Row::ProfileGone { .. })) else {
                continue;
            };
            let value = encode(&key, &row, 7)?;
            assert_eq!(decode(&key, &value)?, row);
            for byte in 0..value.len() {
                let mut flipped = value.clone();
                flipped[byte] ^= 1 << (byte % 8);
                assert!(decode(&key, &flipped).is_err() && decode(&key, &value[..byte]).is_err(), "{byte} of {row:?}");
                assert!(scan(&flipped).is_empty());
            }
            assert!(decode(&[&key[..], &[0]].concat(), &value).is_err());
            // Among other bytes it finds the value that was written last.
            let bytes = [b"\0{\"".as_slice(), &encode(&key, &row, 6)?, &value, &encode(&key, &row, 5)?, b"{"].concat();
            assert_eq!(scan(&bytes), BTreeMap::from([(key, (7, row))]));
        }
        Ok(())
    }
}
