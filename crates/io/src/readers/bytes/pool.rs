//! The open files of one reader, each compared with its pinned identity when it is opened.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_core::{Error, Result, WaitsFor, waiting};
use forebay_data::MemoryBudget;

use super::lru::Lru;
use crate::readers::unpacked::Unpacked;
use crate::store::decoded::HEAD;
use crate::store::{CodecOf, Forward, Object, Pending, ReadThrough, is_remote};
use crate::{ReadOptions, SourceIndex};

/// The most files that a reader holds open, or the readers of datasets that are read as one; each holds at least one.
const OPEN_MAX: usize = 256;

/// The first bytes of a file, which show whether it is compressed.
pub(in crate::readers) enum Head {
    /// The file is known to be uncompressed.
    Plain,
    /// They are the first bytes that are read.
    First,
    /// They are requested.
    Pending(Pending),
    /// They are in memory.
    Local,
}

/// Opens files, and keeps the most recently used ones.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(in crate::readers) index: SourceIndex,
    /// The cache through which remote files are read.
    near: Option<Arc<dyn ReadThrough>>,
    /// The memory for decoded rows.
    pub(in crate::readers) budget: MemoryBudget,
    open: Mutex<Lru<Arc<Object>>>,
    /// Files that are known to be uncompressed, by number.
    plain: Mutex<HashSet<usize>>,
    /// The decompressed content of files that are compressed as a whole.
    pub(in crate::readers) unpacked: Unpacked,
}

impl Pool {
    pub(crate) fn new(index: SourceIndex, options: ReadOptions) -> Self {
        let ReadOptions { near, budget, others, .. } = options;
        let unpacked = Unpacked::new(budget.decoded());
        Self {
            index,
            near,
            budget,
            open: Mutex::new(Lru::new(OPEN_MAX.div_ceil(others + 1))),
            plain: Mutex::default(),
            unpacked,
        }
    }

    /// Opens a file for one use.
    pub(in crate::readers) fn open(&self, file: usize) -> Result<Object> {
        let inner = self.index.inner();
        match (inner.uris.get(file), inner.stats.get(file)) {
            (Some(uri), Some(stat)) => Object::open(uri, stat, self.near.as_deref(), &inner.allowed),
            _ => Err(Error::internal(format!("the index has no file {file}"))),
        }
    }

    /// Begins to read the content of a file from front to back, or from an access point.
    pub(in crate::readers) fn forward(&self, file: usize, codec_of: CodecOf) -> Result<Forward> {
        let object = self.get(file)?;
        match self.index.inner().points_of(file) {
            Some(points) => Ok(Forward::with_points(object, points.clone())),
            None if self.index.rows().is_some() => Ok(Forward::reading(object)),
            None => Forward::reading(object).unpacked(codec_of),
        }
    }

    /// Requests the bytes that [`Pool::unpacked`] needs of a file that is read from `offset` on.
    pub(in crate::readers) fn ask_head(&self, file: usize, object: &Object, offset: u64) -> Head {
        if self.is_plain(file) {
            return Head::Plain;
        }
        if offset == 0 {
            return Head::First;
        }
        let len = object.size().min(HEAD as u64) as usize;
        object.request(0, len).map_or(Head::Local, Head::Pending)
    }

    /// Checks whether the file of `forward` is compressed; if so, returns a reader of the decompressed content from its
    /// start. At most `ahead` stored bytes wait for the reader.
    pub(in crate::readers) fn unpacked(
        &self,
        file: usize,
        mut forward: Forward,
        head: Head,
        ahead: usize,
        codec_of: CodecOf,
    ) -> Result<Forward> {
        let object = forward.object();
        let len = object.size().min(HEAD as u64) as usize;
        let mut bytes = vec![0; len];
        let is_first = matches!(head, Head::First);
        match head {
            Head::Plain => return Ok(forward),
            Head::First => bytes.copy_from_slice(forward.at(0, len)?),
            Head::Pending(pending) => pending.fill(&mut bytes)?,
            Head::Local => object.read_at(0, &mut bytes)?,
        }
        if codec_of(object.uri(), &bytes)?.is_none() {
            self.plain.lock().unwrap_or_else(PoisonError::into_inner).insert(file);
            return Ok(forward);
        }
        let size = object.size();
        let mut whole = if is_first { forward } else { Forward::beside_others(object, 0..size, ahead)? };
        whole.ask_until(size)?;
        Ok(whole.unpacked(codec_of)?.estimated(self.estimate_of(file)))
    }

    /// Returns the estimated content of a file, if its name shows that it is compressed.
    pub(in crate::readers) fn estimate_of(&self, file: usize) -> Option<u64> {
        self.index.inner().estimate_of(file)
    }

    /// Runs `wait`, for what another thread reads. If the files are in a store, that thread may wait for the store.
    pub(in crate::readers) fn wait_for_reader<T>(&self, wait: impl FnOnce() -> T) -> T {
        match self.index.inner().uris.first() {
            Some(uri) if is_remote(uri) => waiting(WaitsFor::Store, wait),
            _ => wait(),
        }
    }

    /// Says whether a file is known to be uncompressed.
    pub(in crate::readers) fn is_plain(&self, file: usize) -> bool {
        self.plain.lock().unwrap_or_else(PoisonError::into_inner).contains(&file)
    }

    /// Returns an open file.
    pub(in crate::readers) fn get(&self, file: usize) -> Result<Arc<Object>> {
        if let Some(object) = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(file as u64) {
            return Ok(object);
        }
        let object = Arc::new(self.open(file)?);
        self.open.lock().unwrap_or_else(PoisonError::into_inner).put(file as u64, 1, object.clone());
        Ok(object)
    }
}
