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
mod blobs;
mod bring;
mod columns;
mod fail;
mod formats;
mod index;
mod limits;
mod open_found;
mod parallel;
mod partitions;
mod readers;
mod rows;
pub mod saved;
mod sources;
mod store;
mod tree;

use std::path::Path;
use std::sync::Arc;

use forebay_core::Result;
use forebay_plan::Source;

pub use allowed::Allowed;
pub use blobs::{Blobs, NoBlobs};
pub use bring::bring;
pub use index::{FileRef, ROWS_IN_BLOCK, SourceIndex};
pub use parallel::Progress;
pub use readers::{Chunks, Place, ReadOptions, Reader, WindowAnnouncement};
pub use sources::{CsvDraft, CsvHeader, Draft, Features, Together, infer, infer_following};
pub use store::{Arriving, Bucket, Done, Entry, Fetch, NearFile, ReadThrough, RemoteFile, Wanted, is_remote};
pub use tree::{Attributes, EntryKind, FileTree, Pinned, TreeEntry, TreeFile};

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
    sources::build(source, allowed, counted, cache, near, threads, progress)
}

/// Opens a source for reading, by an index made of the same source, within what [`SourceIndex::within`] says.
///
/// # Errors
/// Internal for the sources that Python reads (`MapDataset`, `Generator`) or another source's index; Data when a blob
/// is not what the source says.
pub fn open(source: &Source, index: SourceIndex, blobs: &dyn Blobs, options: ReadOptions) -> Result<Arc<dyn Reader>> {
    sources::open_reader(source, index, blobs, options)
}
