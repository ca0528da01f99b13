//! Stores, formats, indexes and sources: how bytes that lie somewhere become rows.
//!
//! ```text
//! Draft (what the user wrote)  --infer-->  Source (plain data)  --index-->  SourceIndex (files pinned, rows counted)
//!                                                               --open--->  Reader (rows by place, or a block in order)
//! ```
//!
//! Why here: the only crate that opens the user's data. Everything is synchronous and blocking: callers have threads.
//! Invariants: IO-1 a row has the same bytes and the same sample id whether it is gathered or streamed; IO-2 a file
//! that is not the one that was indexed is refused, never read; IO-3 no input, however corrupt, panics: it is an error
//! that names file and offset.

mod allowed;
mod bring;
mod columns;
mod fail;
mod formats;
mod index;
mod limits;
mod readers;
mod rows;
pub mod saved;
mod sources;
mod store;

use std::path::Path;
use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result};
use forebay_data::MemoryBudget;
use forebay_plan::{BlobId, Source};

pub use allowed::Allowed;
pub use bring::bring;
pub use index::{FileRef, ROWS_IN_BLOCK, SourceIndex};
pub use readers::{Chunks, Place, Reader, WindowAnnouncement};
pub use sources::{CsvDraft, CsvHeader, Draft, Features, Together, infer, infer_following};
pub use store::{Arriving, Bucket, Done, Entry, Fetch, NearFile, ReadThrough, RemoteFile, Wanted, is_remote};

/// Gives the bytes of a blob that travels with a graph (arrays).
pub trait Blobs: Send + Sync {
    /// Returns the bytes whose hash is `id`.
    ///
    /// # Errors
    /// NotFound when there is no such blob.
    fn get(&self, id: &BlobId) -> Result<bytes::Bytes>;
}

/// For pipelines without arrays and pickles: there is no blob.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBlobs;

impl Blobs for NoBlobs {
    fn get(&self, id: &BlobId) -> Result<bytes::Bytes> {
        Err(Error::new(ErrorKind::NotFound, format!("there is no blob {}", id.0)))
    }
}

/// Called on the caller's own thread as indexing goes on (done, total, in files), at least every 100 ms. An error ends
/// the indexing with that error (Ctrl-C).
pub type Progress<'a> = &'a (dyn Fn(u64, u64) -> Result<()> + Sync);

/// Lists and pins the files of a source, and when `counted` also finds every row.
///
/// Files that `allowed` does not have are refused. With `cache`, what was found in a file is kept in that folder and used again while the file has the same size and
/// mtime (or etag). What is read of remote files goes through `near`. `threads` files are looked at together; where some are in
/// a store, 32 at least.
///
/// # Errors
/// NotFound, PermissionDenied, Data (a file that is not of its format) or Unavailable, naming the file; what `progress`
/// returns.
pub fn index(
    source: &Source,
    allowed: &Allowed,
    counted: bool,
    cache: Option<&Path>,
    near: Option<&dyn ReadThrough>,
    threads: usize,
    progress: Progress<'_>,
) -> Result<SourceIndex> {
    index::build(source, allowed, counted, cache, near, threads, progress)
}

/// How a source is read.
#[derive(Clone, Default)]
pub struct ReadOptions {
    /// What remote files are read through. Default: nothing.
    pub near: Option<Arc<dyn ReadThrough>>,
    /// What the plan says ([`forebay_plan::Sizing`]): groups of rows are kept decoded for two such windows. Default: 0, no windows.
    pub window_rows: u64,
    /// How much may be kept decoded. Default: as much as is of use.
    pub budget: MemoryBudget,
}

/// Opens a source for reading, by an index made of the same source, within what [`SourceIndex::within`] says.
///
/// # Errors
/// Internal for the sources that Python reads (`MapDataset`, `Generator`) or another source's index; Data when a blob
/// is not what the source says.
pub fn open(source: &Source, index: SourceIndex, blobs: &dyn Blobs, options: ReadOptions) -> Result<Arc<dyn Reader>> {
    sources::open_reader(source, index, blobs, options)
}
