//! Serves a file's bytes to the Parquet decoder, from ranges that were read beforehand in few, large reads.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::arrow::ProjectionMask;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};

use crate::store::Object;

/// The bytes at the end of a remote file that are read first, because they likely hold the footer.
const TAIL: u64 = 64 << 10;

/// A file with some ranges in memory.
#[derive(Debug, Clone)]
pub(super) struct Ranges {
    object: Arc<Object>,
    held: Vec<(u64, Bytes)>,
}

fn external(e: forebay_core::Error) -> ParquetError {
    ParquetError::External(Box::new(e))
}

impl Ranges {
    /// Reads the end of the file, where the footer is.
    pub(super) fn tail(object: Arc<Object>) -> Result<Self> {
        let size = object.size();
        let start = size.saturating_sub(TAIL);
        let held = if object.is_remote() && size > 0 {
            vec![(start, fetch(&object, start, (size - start) as usize)?)]
        } else {
            Vec::new()
        };
        Ok(Self { object, held })
    }

    /// Reads the bytes of the columns of a row group that `mask` includes, in one request batch.
    pub(super) fn of_group(
        object: Arc<Object>,
        footer: &ParquetMetaData,
        group: usize,
        mask: &ProjectionMask,
    ) -> Result<Self> {
        let columns = footer.row_groups().get(group).map_or(&[][..], |g| g.columns());
        let wanted = columns.iter().enumerate().filter(|(i, _)| mask.leaf_included(*i));
        let mut ranges = Vec::new();
        for (_, column) in wanted {
            let (start, len) = column.byte_range();
            object.check_range(start, len).map_err(external)?;
            ranges.push((start, len as usize));
        }
        let waiting: Vec<_> = ranges.iter().map(|&(start, len)| object.request(start, len)).collect();
        let mut held = Vec::with_capacity(ranges.len());
        for ((start, len), pending) in ranges.into_iter().zip(waiting) {
            let bytes = match pending {
                Some(pending) => {
                    let mut bytes = vec![0; len];
                    pending.fill(&mut bytes).map_err(external)?;
                    bytes.into()
                }
                None => fetch(&object, start, len)?,
            };
            held.push((start, bytes));
        }
        Ok(Self { object, held })
    }
}

fn fetch(object: &Object, start: u64, len: usize) -> Result<Bytes> {
    object.check_range(start, len as u64).map_err(external)?;
    let mut bytes = vec![0; len];
    object.read_at(start, &mut bytes).map_err(external)?;
    Ok(bytes.into())
}

impl Length for Ranges {
    fn len(&self) -> u64 {
        self.object.size()
    }
}

impl ChunkReader for Ranges {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        for (from, bytes) in &self.held {
            if let Some(at) = start.checked_sub(*from).filter(|&at| at < bytes.len() as u64) {
                return Ok(bytes.slice(at as usize..).reader());
            }
        }
        let rest = self.object.size().saturating_sub(start).min(TAIL) as usize;
        Ok(fetch(&self.object, start, rest)?.reader())
    }

    fn get_bytes(&self, start: u64, len: usize) -> Result<Bytes> {
        for (from, bytes) in &self.held {
            let at = start.checked_sub(*from).and_then(|at| usize::try_from(at).ok());
            if let Some(at) = at.filter(|&at| at.checked_add(len).is_some_and(|end| end <= bytes.len())) {
                return Ok(bytes.slice(at..at + len));
            }
        }
        fetch(&self.object, start, len)
    }
}
