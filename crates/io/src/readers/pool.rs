//! The open files of one reader, each compared with what the index pinned when it is opened.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_core::{Error, Result};

use super::lru::Lru;
use super::unpacked::Unpacked;
use crate::SourceIndex;
use crate::store::decoded::HEAD;
use crate::store::{CodecOf, Forward, Object, ReadThrough};

/// The most files that a reader holds open.
const OPEN_MAX: usize = 256;

/// Opens files, and keeps those that were used last.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) index: SourceIndex,
    /// What remote files are read through.
    near: Option<Arc<dyn ReadThrough>>,
    open: Mutex<Lru<Arc<Object>>>,
    /// Files that are known to be read as they are stored, by number.
    plain: Mutex<HashSet<usize>>,
    /// What was decompressed of files that are compressed as a whole.
    pub(super) unpacked: Unpacked,
}

impl Pool {
    pub(super) fn new(index: SourceIndex, near: Option<Arc<dyn ReadThrough>>) -> Self {
        Self { index, near, open: Mutex::new(Lru::new(OPEN_MAX)), plain: Mutex::default(), unpacked: Unpacked::new() }
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

    /// Begins to read a file beside many others: see [`Forward::beside_others`].
    ///
    /// # Errors
    /// Invalid for a file that is compressed: which of its rows are in a range of its bytes cannot be told without reading all before.
    pub(super) fn beside_others(&self, file: usize, offset: u64, ahead: usize, codec_of: CodecOf) -> Result<Forward> {
        let object = self.get(file)?;
        let mut forward = Forward::beside_others(object.clone(), offset, ahead)?;
        let plain = || self.plain.lock().unwrap_or_else(PoisonError::into_inner);
        if plain().contains(&file) {
            return Ok(forward);
        }
        let len = object.size().min(HEAD as u64) as usize;
        let mut head = vec![0; len];
        match offset {
            0 => head.copy_from_slice(forward.at(0, len)?),
            _ => object.read_at(0, &mut head)?,
        }
        if let Some(codec) = codec_of(object.uri(), &head)? {
            let name = codec.name();
            return Err(Error::invalid(format!(
                "this file is compressed with {name}, and a shuffle over windows of bytes does not read such files"
            ))
            .with("file", object.uri())
            .hint("shuffle(window=None), or over a number of rows, as shuffle(window=10_000), counts the rows before; or store the files as they are"));
        }
        plain().insert(file);
        Ok(forward)
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
