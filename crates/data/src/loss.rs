//! Rows that a chunk lacks, because something went wrong with each of them alone.
//!
//! They travel with the chunk that they are missing from, so that whoever accepts it learns of them exactly once.

use bytes::{Buf, BufMut, Bytes};
use forebay_core::{Epoch, Error, Result, SampleId};
use serde::{Deserialize, Serialize};

use crate::RowId;

/// A row that was left out, and why; or a warning about a row that is there (see [`Loss::is_warning`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Which row.
    pub row: RowId,
    /// What went wrong, naming op, line and sample; [bounded](Error::bounded).
    pub error: Error,
    /// The row as it was read: an Arrow IPC stream of one row. Kept where asked for, up to [`Loss::RECORD_BYTES_MAX`];
    /// `None` also where reading it is what failed.
    pub record: Option<Bytes>,
}

/// What is written of a loss before its record.
#[derive(Serialize, Deserialize)]
struct Head {
    sample: u64,
    epoch: u64,
    error: Error,
    record: Option<usize>,
}

impl Loss {
    /// A record that is larger is not kept.
    pub const RECORD_BYTES_MAX: usize = 16 << 20;

    /// Says whether the row is there after all: what is told of it is that its function gave something else when it was
    /// called again.
    pub fn is_warning(&self) -> bool {
        self.error.get("fault") == Some("nondeterministic")
    }

    /// Writes losses for another process: for each, the length of its head (4 bytes, little endian), its head as JSON, and
    /// its record.
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

    /// Reads [`Loss::to_bytes`]; bounds errors that another process did not.
    ///
    /// # Errors
    /// Data when it is something else.
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
