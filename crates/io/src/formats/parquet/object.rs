//! Serves a file's bytes to the Parquet decoder, from ranges that were read beforehand in few, large reads.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};

use crate::store::{Ahead, Object};

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

    /// Reads the bytes of columns of a row group, which `ahead` may have requested.
    pub(super) fn of_group(
        object: Arc<Object>,
        group: &RowGroupMetaData,
        leaves: &[usize],
        ahead: Option<&Ahead>,
    ) -> Result<Self> {
        let wanted = ranges(group, leaves);
        for range in &wanted {
            object.check_range(range.start, range.end.saturating_sub(range.start)).map_err(external)?;
        }
        let own = ahead.is_none().then(|| Ahead::request(&object, wanted.clone())).flatten();
        let ahead = ahead.or(own.as_ref());
        let read = |range: Range<u64>| {
            let bytes = match ahead.and_then(|ahead| ahead.read(&range)) {
                Some(bytes) => bytes.map_err(external)?,
                None => fetch(&object, range.start, (range.end - range.start) as usize)?,
            };
            Ok((range.start, bytes))
        };
        let held = wanted.into_iter().map(read).collect::<Result<_>>()?;
        Ok(Self { object, held })
    }
}

/// Returns where the columns of a row group are.
pub(super) fn ranges(group: &RowGroupMetaData, leaves: &[usize]) -> Vec<Range<u64>> {
    let columns = leaves.iter().filter_map(|&leaf| group.columns().get(leaf));
    let range = |column: &ColumnChunkMetaData| {
        let (start, len) = column.byte_range();
        start..start.saturating_add(len)
    };
    columns.map(range).collect()
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
