//! `Mds` and `Litdata`: samples of MosaicML's shards, and of LitData's chunks, which this code also calls shards.
//!
//! The places of a shard's samples are at its beginning, which is read once and kept. A compressed shard is
//! decompressed as a whole, and kept up to a bound of bytes, as groups of rows are.

use std::sync::{Arc, Mutex, PoisonError};

use forebay_core::{Epoch, Error, Result};
use forebay_data::{Chunk, Field, RowId, Schema};
use forebay_plan::{MdsColumn, Wrap, rows_of_two_windows};

use super::bytes::lru::Lru;
use super::bytes::piece::Piece;
use super::bytes::pieces::{self, Layout};
use super::bytes::pool::Pool;
use super::reader::{Chunks, Place, Reader, check, ids, stream_counted};
use crate::formats::{litdata, mds};
use crate::index::table::Table;

/// The most bytes of kept places of samples.
const STARTS_BYTES_MAX: usize = 64 << 20;
/// Shards that are decompressed in parallel.
const UNPACKING: usize = 16;

pub(crate) struct Mds {
    schema: Arc<Schema>,
    pool: Pool,
    stored: Vec<MdsColumn>,
    fields: Vec<Field>,
    /// For LitData: the unit of compression.
    wrap: Option<Wrap>,
    starts: Mutex<Lru<Arc<Vec<u32>>>>,
    shards: Mutex<Lru<Arc<Vec<u8>>>>,
    /// A thread that wants a shard waits for another thread that decompresses it.
    unpacking: [Mutex<()>; UNPACKING],
}

/// The bytes of a sample, once they are read.
enum Bytes {
    /// In the common buffer, up to the end in the layout.
    Read { at: usize, len: usize },
    /// Of a decompressed shard.
    Unpacked(Vec<u8>),
}

impl Mds {
    pub(crate) fn new(
        schema: Arc<Schema>,
        pool: Pool,
        stored: Vec<MdsColumn>,
        fields: Vec<Field>,
        wrap: Option<Wrap>,
        window_rows: u64,
    ) -> Result<Self> {
        mds::Parser::new(&stored, &fields, 0)?;
        let kept = usize::try_from(kept_bytes(&pool, window_rows)).unwrap_or(usize::MAX);
        Ok(Self {
            schema,
            pool,
            stored,
            fields,
            wrap,
            starts: Mutex::new(Lru::new(STARTS_BYTES_MAX)),
            shards: Mutex::new(Lru::new(kept)),
            unpacking: Default::default(),
        })
    }

    fn uri(&self, file: usize) -> &str {
        self.pool.index.inner().uris.get(file).map_or("", |uri| uri)
    }

    /// Returns the samples of a shard and its bytes, decompressed.
    fn table(&self, file: usize) -> Result<(u64, u64)> {
        match self.pool.index.inner().tables.get(file).map(|table| &**table) {
            Some(Table::Shard { rows, bytes }) => Ok((*rows, *bytes)),
            _ => Err(Error::internal("the index has no shards")),
        }
    }

    fn is_packed(&self, file: usize) -> bool {
        self.wrap.map_or_else(|| mds::is_packed(self.uri(file)), |wrap| wrap != Wrap::None)
    }

    /// Returns a compressed shard, decompressed.
    fn shard(&self, file: usize) -> Result<Arc<Vec<u8>>> {
        let kept = || self.shards.lock().unwrap_or_else(PoisonError::into_inner).get(file as u64);
        if let Some(shard) = kept() {
            return Ok(shard);
        }
        let _turn = self.unpacking[file % UNPACKING].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shard) = kept() {
            return Ok(shard);
        }
        let ((rows, bytes), object) = (self.table(file)?, self.pool.get(file)?);
        let shard = Arc::new(match self.wrap {
            None => mds::unpacked(&object, bytes)?,
            Some(wrap) => litdata::unpacked(&object, rows, bytes, wrap)?,
        });
        self.shards.lock().unwrap_or_else(PoisonError::into_inner).put(file as u64, shard.len(), shard.clone());
        Ok(shard)
    }

    /// Returns the places of the samples of a shard.
    fn starts(&self, file: usize) -> Result<Arc<Vec<u32>>> {
        if let Some(starts) = self.starts.lock().unwrap_or_else(PoisonError::into_inner).get(file as u64) {
            return Ok(starts);
        }
        let (uri, (rows, bytes)) = (self.uri(file), self.table(file)?);
        let starts = Arc::new(if self.is_packed(file) {
            let shard = self.shard(file)?;
            mds::starts(uri, rows, shard.len() as u64, |to| mds::copy(&shard, 0, to))?
        } else {
            let object = self.pool.get(file)?;
            let size = if self.wrap.is_some() { object.size() } else { bytes.min(object.size()) };
            mds::starts(uri, rows, size, |to| object.read_at(0, to))?
        });
        let weight = starts.len() * size_of::<u32>();
        self.starts.lock().unwrap_or_else(PoisonError::into_inner).put(file as u64, weight, starts.clone());
        Ok(starts)
    }

    /// Returns the place of a sample in its shard.
    fn span(&self, id: &RowId) -> Result<(usize, u64, usize)> {
        let file = id.sample.block() as usize;
        let starts = self.starts(file)?;
        match starts.get(id.sample.row() as usize..) {
            Some([start, end, ..]) => Ok((file, u64::from(*start), (end - start) as usize)),
            _ => Err(Error::internal(format!("the index has no row {}", id.sample))),
        }
    }

    /// Reads the samples, shard by shard, so that a compressed shard is needed once.
    fn fetch(&self, ids: &[RowId]) -> Result<(Vec<Bytes>, Vec<u8>)> {
        let mut order: Vec<usize> = (0..ids.len()).collect();
        order.sort_by_key(|&row| ids[row].sample);
        let mut found: Vec<Bytes> = ids.iter().map(|_| Bytes::Read { at: 0, len: 0 }).collect();
        let mut layout = Layout::new(ids.len());
        let mut wanted = Vec::new();
        for row in order {
            let (file, offset, len) = self.span(&ids[row])?;
            found[row] = if self.is_packed(file) {
                let shard = self.shard(file)?;
                let sample = shard.get(offset as usize..offset as usize + len);
                Bytes::Unpacked(sample.ok_or_else(|| Error::internal("a sample behind its shard"))?.to_vec())
            } else {
                let at = layout.push(len);
                wanted.push(Piece { file, offset, len, buffer: 0, at });
                Bytes::Read { at, len }
            };
        }
        let mut buffers = [layout.buffer()?];
        pieces::read(&self.pool, wanted, &mut buffers)?;
        let [buffer] = buffers;
        Ok((found, buffer))
    }

    fn blame(&self, error: Error, id: &RowId) -> Error {
        let error = error.with("file", self.uri(id.sample.block() as usize));
        let error = match self.span(id) {
            Ok((_, offset, _)) => error.with("offset", offset),
            Err(_) => error,
        };
        error.with("sample", self.pool.index.describe_sample(id.sample))
    }
}

impl Reader for Mds {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn gather(&self, places: &[Place]) -> Result<Chunk> {
        check(&self.pool.index, places)?;
        let ids = ids(&self.pool.index, places);
        let (found, buffer) = self.fetch(&ids)?;
        let mut parser = mds::Parser::new(&self.stored, &self.fields, ids.len())?;
        for (bytes, id) in found.iter().zip(ids.iter()) {
            let sample = match bytes {
                Bytes::Read { at, len } => &buffer[*at..at + len],
                Bytes::Unpacked(sample) => sample,
            };
            parser.push(sample).map_err(|e| self.blame(e, id))?;
        }
        Chunk::new(self.schema.clone(), parser.finish()?, ids)
    }

    fn stream(&self, block: u64, epoch: Epoch, rows: usize) -> Result<Chunks<'_>> {
        stream_counted(self, &self.pool.index, block, epoch, rows)
    }
}

/// Returns how many bytes of decompressed shards are kept: the budget, or those of two windows where these are more,
/// because a shuffle over windows requests the rows of two windows in any order.
fn kept_bytes(pool: &Pool, window_rows: u64) -> u64 {
    let (index, least) = (&pool.index, pool.budget.decoded() as u64);
    let bytes = index.inner().tables.iter().fold(0u64, |sum, table| match &**table {
        Table::Shard { bytes, .. } => sum.saturating_add(*bytes),
        _ => sum,
    });
    let row_bytes = bytes / index.rows().unwrap_or(0).max(1) + 1;
    let largest = || index.block_starts().windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    let rows = if window_rows > 0 { rows_of_two_windows(window_rows, largest()) } else { 0 };
    rows.saturating_mul(row_bytes).clamp(least, bytes.max(least))
}
