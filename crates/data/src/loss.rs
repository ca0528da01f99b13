//! Rows that a chunk lacks, because each of them failed by itself.
//!
//! They travel with the chunk that they are missing from, so that the receiver of the chunk gets them exactly once.

use bytes::{Buf, BufMut, Bytes};
use forebay_core::{Epoch, Error, Result, SampleId};
use serde::{Deserialize, Serialize};

use crate::RowId;

/// A row that was skipped, and the reason; or a warning about a row that is there (see [`Loss::is_warning`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The id of the row.
    pub row: RowId,
    /// The error, with op, line and sample; [bounded](Error::bounded).
    pub error: Error,
    /// The row as read: an Arrow IPC stream of one row. Kept on request, up to [`Loss::RECORD_BYTES_MAX`]; also `None`
    /// if reading the row failed.
    pub record: Option<Bytes>,
}

/// The part of a serialized loss before its record.
#[derive(Serialize, Deserialize)]
struct Head {
    sample: u64,
    epoch: u64,
    error: Error,
    record: Option<usize>,
}

impl Loss {
    /// Larger records are not kept.
    pub const RECORD_BYTES_MAX: usize = 16 << 20;

    /// Returns whether the row is there after all: the loss only reports that its function returned another result when
    /// it was called again.
    pub fn is_warning(&self) -> bool {
        self.error.get("fault") == Some("nondeterministic")
    }

    /// Writes losses for another process: for each, the length of its head (4 bytes, little endian), its head as JSON,
    /// and its record.
    pub fn to_bytes(losses: &[Loss]) -> Bytes {
        let mut bytes = Vec::new();
        for loss in losses {
            let head = Head {
                sample: loss.row.sample.0,
                epoch: loss.row.epoch.0,
                error: loss.error.clone(),
                record: loss.record.as_ref().map(Bytes::len),
            };
            let head = serde_json::to_vec(&head).unwrap_or_default();
            bytes.put_u32_le(head.len() as u32);
            bytes.extend(head);
            bytes.extend(loss.record.iter().flatten());
        }
        bytes.into()
    }

    /// Reads [`Loss::to_bytes`], and bounds errors that the other process did not bound.
    ///
    /// # Errors
    /// Data when the bytes are something else.
    pub fn from_bytes(mut bytes: Bytes) -> Result<Vec<Loss>> {
        let cut = || Error::data("what a chunk says of the rows that it lacks is cut off");
        let mut losses = Vec::new();
        while !bytes.is_empty() {
            let len = bytes.try_get_u32_le().map_err(|_| cut())? as usize;
            if bytes.len() < len {
                return Err(cut());
            }
            let head: Head = serde_json::from_slice(&bytes.split_to(len))
                .map_err(|e| Error::data(format!("what a chunk says of the rows that it lacks cannot be read: {e}")))?;
            if bytes.len() < head.record.unwrap_or(0) {
                return Err(cut());
            }
            losses.push(Loss {
                row: RowId { sample: SampleId(head.sample), epoch: Epoch(head.epoch) },
                error: head.error.bounded(),
                record: head.record.map(|len| bytes.split_to(len)),
            });
        }
        Ok(losses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_read_as_they_were_written_and_cut_off_ones_refused() {
        let loss = |sample, record: Option<&'static [u8]>| Loss {
            row: RowId { sample: SampleId(sample), epoch: Epoch(3) },
            error: Error::data("bad crc").with("file", "a.tar"),
            record: record.map(Bytes::from_static),
        };
        let losses = vec![loss(1, None), loss(2, Some(b"record")), loss(u64::MAX, Some(b""))];
        let bytes = Loss::to_bytes(&losses);
        assert_eq!(Loss::from_bytes(bytes.clone()), Ok(losses));
        assert_eq!(Loss::from_bytes(Bytes::new()), Ok(Vec::new()));
        assert!(Loss::from_bytes(bytes.slice(..bytes.len() - 1)).is_err());
        assert!(Loss::from_bytes(bytes.slice(3..)).is_err());
    }
}
