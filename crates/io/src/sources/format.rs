//! The interface of a source of files: it lists the files, finds their rows, and opens a reader.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use forebay_core::Result;
use forebay_data::Schema;

use crate::index::table::{Counted, Table};
use crate::index::{Inner, Layout};
use crate::readers::{Pool, Reader};
use crate::store::{self, Forward, Found, Object, ReadThrough, Stat};
use crate::{Allowed, Blobs, ReadOptions, SourceIndex};

/// A source of files, or of computed rows.
pub(crate) trait SourceFormat: Sync {
    /// Lists the files. With `counted`, every row must be found: by the listing, or by [`Listed::rows`].
    ///
    /// # Errors
    /// As [`crate::index`].
    fn list(&self, counted: bool, access: FileAccess<'_>) -> Result<Listed<'_>>;

    /// Says whether an index can be one of this source.
    fn fits(&self, index: &Inner) -> bool;

    /// Opens a reader.
    ///
    /// # Errors
    /// As [`crate::open`].
    fn open(&self, opening: Opening<'_>) -> Result<Arc<dyn Reader>>;
}

/// The rights and the cache with which files are opened.
#[derive(Clone, Copy)]
pub(crate) struct FileAccess<'a> {
    pub(crate) allowed: &'a Allowed,
    pub(crate) near: Option<&'a dyn ReadThrough>,
}

impl FileAccess<'_> {
    pub(crate) fn open(&self, uri: &str, stat: &Stat) -> Result<Arc<Object>> {
        Object::open(uri, stat, self.near, self.allowed).map(Arc::new)
    }

    /// Returns the identity of a listed file: from the listing, or by a request.
    pub(crate) fn stat(&self, found: &Found) -> Result<Stat> {
        found.stat.clone().map_or_else(|| store::stat(&found.uri, self.allowed), Ok)
    }

    pub(crate) fn open_found(&self, found: &Found) -> Result<Arc<Object>> {
        self.open(&found.uri, &self.stat(found)?)
    }
}

/// The files of a source.
pub(crate) struct Listed<'s> {
    pub(crate) found: Vec<Found>,
    /// See [`Inner::labels`].
    pub(crate) labels: Vec<u64>,
    /// The layout of rows in blocks.
    pub(crate) layout: Layout,
    /// The places of the rows of each file, if the listing has them.
    pub(crate) tables: Vec<Arc<Table>>,
    /// Finds the rows of a file, if the layout is counted and the listing does not have them.
    pub(crate) rows: Option<FindRows<'s>>,
    /// Checks the identity of a file against its table, if the listing has the places of rows.
    pub(crate) check: Option<CheckFile<'s>>,
}

/// Returns how the rows of one file are found; receives the place of the file among all files.
pub(crate) type FindRows<'s> = Box<dyn Fn(usize, &FileToScan<'_>) -> Result<FileRows<'s>> + Sync + 's>;

/// Checks a file against its table.
pub(crate) type CheckFile<'s> = Box<dyn Fn(&str, &Stat, &Table) -> Result<()> + 's>;

/// A listed file.
pub(crate) struct FileToScan<'f> {
    pub(crate) uri: &'f str,
    pub(crate) stat: &'f Stat,
    pub(crate) access: FileAccess<'f>,
}

impl FileToScan<'_> {
    pub(crate) fn open(&self) -> Result<Arc<Object>> {
        self.access.open(self.uri, self.stat)
    }
}

/// Finds the rows of one file by reading it. Long scans check the flag regularly, and end when it is set.
pub(crate) type Scan<'s> = Box<dyn FnOnce(&FileToScan<'_>, &AtomicBool) -> Result<Counted> + 's>;

/// The way in which the rows of one file are found.
pub(crate) enum FileRows<'s> {
    /// They are known without reading it.
    Known(Counted),
    /// By reading it. The result may be cached under `key`, which contains all inputs besides the file.
    Scan { key: String, scan: Scan<'s> },
}

impl<'s> Listed<'s> {
    pub(crate) fn of(found: Vec<Found>, layout: Layout) -> Self {
        Self { found, labels: Vec::new(), layout, tables: Vec::new(), rows: None, check: None }
    }

    /// Files whose rows are found by reading each of them in the same way.
    pub(crate) fn scanned(
        found: Vec<Found>,
        layout: Layout,
        key: String,
        scan: impl Fn(Arc<Object>, &AtomicBool) -> Result<Counted> + Send + Sync + 's,
    ) -> Self {
        let scan = Arc::new(scan);
        let rows = move |_: usize, _: &FileToScan<'_>| {
            let scan = Arc::clone(&scan);
            let one: Scan<'s> = Box::new(move |file, stop| scan(file.open()?, stop));
            Ok(FileRows::Scan { key: key.clone(), scan: one })
        };
        Self { rows: Some(Box::new(rows)), ..Self::of(found, layout) }
    }
}

/// Returns a table, and the access points of a file that is compressed as a whole.
///
/// # Errors
/// As [`Forward`].
pub(crate) fn counted(table: Table, forward: Option<Forward>) -> Result<Counted> {
    let mut forward = forward;
    let points = forward.as_mut().and_then(Forward::decoded).map(|decoded| decoded.finish()).transpose()?;
    Ok(Counted { table: table.into(), points })
}

/// Enables the recording of access points, if the file is compressed.
pub(crate) fn recording(mut forward: Forward) -> Forward {
    if let Some(decoded) = forward.decoded() {
        decoded.record();
    }
    forward
}

/// The arguments for opening a reader.
pub(crate) struct Opening<'a> {
    pub(crate) schema: Arc<Schema>,
    pub(crate) index: SourceIndex,
    pub(crate) blobs: &'a dyn Blobs,
    pub(crate) options: ReadOptions,
}

impl Opening<'_> {
    /// Returns the pool of open files.
    pub(crate) fn pool(self) -> Pool {
        Pool::new(self.index, self.options)
    }
}
