//! Stores, formats, indexes and sources: they read rows from files and stores.
//!
//! ```text
//! Draft (as the user wrote it) --infer-->  Source (plain data)  --index-->  SourceIndex (files pinned, rows counted)
//!                                                               --open--->  Reader (rows by place, or a block in order)
//! ```
//!
//! This is the only crate that opens the user's data. All calls are synchronous and block; callers bring threads.
//! Invariants: IO-1 a row has the same bytes and the same sample id whether it is gathered or streamed; IO-2 a file
//! that is not the one that was indexed is refused, never read; IO-3 no input, however corrupt, panics: the reader
//! returns an error that names the file and the offset.

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
mod poll;
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
pub use readers::{Chunks, ConditionBits, Place, ReadOptions, Reader, RowCondition, WindowAnnouncement};
pub use rows::interleave;
pub use sources::{CsvDraft, CsvHeader, Draft, Features, Inferred, Together, infer, infer_following};
pub use store::{Arriving, Bucket, Done, Entry, Fetch, NearFile, ReadThrough, RemoteFile, Wanted, is_remote};
pub use tree::{Attributes, EntryKind, FileTree, Pinned, TreeEntry, TreeFile};

/// Lists and pins the files of a source, and with `counted` also finds every row.
///
/// Refuses files outside `allowed`. With `cache`, the table of a file is kept in that folder and reused while the file
/// has the same size and mtime (or etag). Remote files are read through `near`. `threads` files are read in parallel;
/// at least 32 when some are in a store.
///
/// # Errors
/// NotFound, PermissionDenied, Data (a file that is not of its format) or Unavailable, naming the file; any error that
/// `progress` returns.
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

/// Opens a source for reading, by an index made of the same source, within the limits of [`SourceIndex::within`].
///
/// # Errors
/// Internal for a source that Python reads (`MapDataset`, `Generator`) or another source's index; Data when a blob does
/// not match the source.
pub fn open(source: &Source, index: SourceIndex, blobs: &dyn Blobs, options: ReadOptions) -> Result<Arc<dyn Reader>> {
    sources::open_reader(source, index, blobs, options)
}
