//! The open files of one reader, each compared with what the index pinned when it is opened.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_core::{Error, Result};
use forebay_data::MemoryBudget;

use super::lru::Lru;
use super::unpacked::Unpacked;
use crate::SourceIndex;
use crate::store::decoded::HEAD;
use crate::store::{CodecOf, Forward, Object, Pending, ReadThrough};

/// The most files that a reader holds open.
const OPEN_MAX: usize = 256;

/// The first bytes of a file, which tell whether it is compressed.
pub(super) enum Head {
    /// It is known not to be.
    Plain,
    /// They are the first that are read.
    First,
    /// They are on their way.
    Pending(Pending),
    /// They are here.
    Local,
}

/// Opens files, and keeps those that were used last.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(super) index: SourceIndex,
    /// What remote files are read through.
    near: Option<Arc<dyn ReadThrough>>,
    /// How much may be kept decoded.
    pub(super) budget: MemoryBudget,
    open: Mutex<Lru<Arc<Object>>>,
    /// Files that are known to be read as they are stored, by number.
    plain: Mutex<HashSet<usize>>,
    /// What was decompressed of files that are compressed as a whole.
    pub(super) unpacked: Unpacked,
}

impl Pool {
    pub(crate) fn new(index: SourceIndex, near: Option<Arc<dyn ReadThrough>>, budget: MemoryBudget) -> Self {
        let unpacked = Unpacked::new(budget.decoded());
        Self { index, near, budget, open: Mutex::new(Lru::new(OPEN_MAX)), plain: Mutex::default(), unpacked }
    }

    /// Opens a file for one use.
    pub(super) fn open(&self, file: usize) -> Result<Object> {
        let inner = self.index.inner();
        match (inner.uris.get(file), inner.stats.get(file)) {
            (Some(uri), Some(stat)) => Object::open(uri, stat, self.near.as_deref(), &inner.allowed),
            _ => Err(Error::internal(format!("the index has no file {file}"))),
        }
    }

    /// Begins to read what a file holds, from front to back or from a known point on.
    pub(super) fn forward(&self, file: usize, codec_of: CodecOf) -> Result<Forward> {
        let object = self.get(file)?;
        match self.index.inner().points_of(file) {
            Some(points) => Ok(Forward::with_points(object, points.clone())),
            None if self.index.rows().is_some() => Ok(Forward::reading(object)),
            None => Forward::reading(object).unpacked(codec_of),
        }
    }

    /// Asks for what [`Pool::unpacked`] needs of a file that is read from `offset` on.
    pub(super) fn ask_head(&self, file: usize, object: &Object, offset: u64) -> Head {
        if self.is_plain(file) {
            return Head::Plain;
        }
        if offset == 0 {
            return Head::First;
        }
        let len = object.size().min(HEAD as u64) as usize;
        object.request(0, len).map_or(Head::Local, Head::Pending)
    }

    /// Looks whether a file is compressed, which `forward` began to read; if it is, returns one that reads what the file holds, from
    /// its start. At most `ahead` stored bytes wait for the reader.
    pub(super) fn unpacked(
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
        whole.unpacked(codec_of)
    }

    fn is_plain(&self, file: usize) -> bool {
        self.plain.lock().unwrap_or_else(PoisonError::into_inner).contains(&file)
    }

    /// Returns a file, open.
    pub(super) fn get(&self, file: usize) -> Result<Arc<Object>> {
        if let Some(object) = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(file as u64) {
            return Ok(object);
        }
        let object = Arc::new(self.open(file)?);
        self.open.lock().unwrap_or_else(PoisonError::into_inner).put(file as u64, 1, object.clone());
        Ok(object)
    }
}
