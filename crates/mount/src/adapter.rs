//! Answers FUSE requests of the kernel with the tree and the reader, and makes no decisions of its own.
//!
//! A request has a thread until it is answered. Invariants: programs open files for reading only. The log has an error
//! of a source once for each open file. The adapter reopens an open file of the previous process at the first request
//! for it. An inode that only the previous process knew is ESTALE, and the kernel looks its path up again.

mod requests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use forebay_core::{Clock, Error, ErrorKind, Result, SystemClock};
use forebay_exec::PageCachedSource;
use forebay_io::{Attributes, EntryKind, FileTree, ReadThrough, TreeEntry};
use fuser::{Errno, FileAttr, FileHandle, FileType, FopenFlags, INodeNo};

use crate::journal::OpenRecord;
use crate::open::{Open, OpenTable, OpenedFile};
use crate::prefetch::Shared;
use crate::reader::{AheadBudget, OpenFile, told};
use crate::tree::{Listed, Names, Node, ROOT, Tree};

/// Block size in `stat`: the read size that programs should use.
const BLOCK_SIZE: u32 = 128 << 10;

/// A source of a mount, and the page cache of its remote files.
#[derive(Debug)]
pub(crate) struct MountedSource {
    pub(crate) tree: Arc<FileTree>,
    pub(crate) near: Option<PageCachedSource>,
}

impl Names for MountedSource {
    fn is_listed(&self) -> bool {
        Names::is_listed(&*self.tree)
    }

    fn can_look(&self, path: &Path) -> bool {
        Names::can_look(&*self.tree, path)
    }

    fn list(&self, folder: &Path, most: usize) -> Result<Vec<TreeEntry>> {
        Names::list(&*self.tree, folder, most)
    }

    fn look(&self, path: &Path) -> Result<Option<TreeEntry>> {
        Names::look(&*self.tree, path)
    }
}

/// The file system. See the module's documentation.
pub(crate) struct Adapter {
    tree: Tree<MountedSource>,
    budget: Arc<AheadBudget>,
    prefetch: Option<Shared>,
    clock: SystemClock,
    open: OpenTable,
    /// Owner of entries of stores: user and group.
    owner: (u32, u32),
    /// Time of folders without one.
    began: SystemTime,
}

impl Adapter {
    /// `budget` and `prefetch` belong to the mount; it has a prefetch if there is the latter.
    pub(crate) fn new(
        tree: Tree<MountedSource>,
        budget: Arc<AheadBudget>,
        prefetch: Option<Shared>,
        open: OpenTable,
    ) -> Self {
        let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let (clock, began) = (SystemClock::default(), SystemTime::now());
        Self { tree, budget, prefetch, clock, open, owner, began }
    }

    fn attr(&self, node: &Node, attributes: Attributes) -> FileAttr {
        let (kind, size, store_mode) = match &node.kind {
            EntryKind::Folder => (FileType::Directory, 0, 0o555),
            EntryKind::File(pinned) => (FileType::RegularFile, pinned.size(), 0o444),
            EntryKind::Link(target) => (FileType::Symlink, target.as_os_str().len() as u64, 0o777),
        };
        let (uid, gid, perm) = attributes.owner.unwrap_or((self.owner.0, self.owner.1, store_mode));
        let time = attributes.mtime.map_or(self.began, time_of);
        FileAttr {
            ino: INodeNo(node.ino),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid,
            gid,
            rdev: 0,
            blksize: BLOCK_SIZE,
            flags: 0,
        }
    }

    fn node(&self, ino: INodeNo) -> Result<Arc<Node>, Errno> {
        if let Some(node) = self.tree.get(ino.0) {
            return Ok(node);
        }
        let record = self.open.left_inode(ino.0).ok_or(Errno::ESTALE)?;
        let node = self.find(&record)?.ok_or(Errno::ESTALE)?;
        Ok(self.tree.hold_again(node))
    }

    /// Returns the node of an open file of the previous process, if its content is unchanged.
    fn find(&self, record: &OpenRecord) -> Result<Option<Node>, Errno> {
        let found = self.tree.find(record.source, &record.path, self.clock.now());
        Ok(found.map_err(|e| failed(&e, &record.path))?.filter(|node| node.ino == record.ino))
    }

    /// Returns the open file or folder of a handle, of this process or of the previous one.
    fn opened(&self, fh: FileHandle) -> Result<Open, Errno> {
        if let Some(open) = self.open.get(fh.0) {
            return Ok(open);
        }
        // Another thread may have reopened it meanwhile.
        let Some(record) = self.open.left_open(fh.0) else { return self.open.get(fh.0).ok_or(Errno::EBADF) };
        let Some(node) = self.find(&record)? else {
            tracing::warn!(path = %record.path.display(), "this file changed since it was opened; readers of it get EIO");
            return Err(Errno::EIO);
        };
        let node = Arc::new(node);
        let open = if record.is_folder {
            let listed = self.tree.list(&node, self.clock.now()).map_err(|e| failed(&e, &node.path))?;
            Open::Folder(node, listed)
        } else {
            Open::File(self.file(node).map_err(|_| Errno::EIO)?)
        };
        Ok(self.open.restore(fh.0, open))
    }

    fn add(&self, open: Open) -> Result<FileHandle, Errno> {
        self.open.add(open).map(FileHandle).ok_or(Errno::ENFILE)
    }

    fn open_file(&self, ino: INodeNo) -> Result<FileHandle, Errno> {
        let file = self.file(self.node(ino)?)?;
        self.add(Open::File(file))
    }

    fn file(&self, node: Arc<Node>) -> Result<Arc<OpenedFile>, Errno> {
        let (Some(source), EntryKind::File(pinned)) = (self.tree.source(&node), &node.kind) else {
            return Err(Errno::EISDIR);
        };
        // After ESTALE the kernel looks the name up again, and finds the current file.
        if node.is_stale() {
            return Err(Errno::ESTALE);
        }
        let near = source.near.as_ref().map(|near| near as &dyn ReadThrough);
        match source.tree.file(&node.path, pinned, near) {
            Ok(file) => {
                let file = OpenFile::new(file, &self.budget);
                Ok(Arc::new(OpenedFile { node, file, was_told: AtomicBool::new(false) }))
            }
            Err(e) if is_changed(&e) => {
                self.tree.changed(&node);
                Err(Errno::ESTALE)
            }
            Err(e) => Err(failed(&e, &node.path)),
        }
    }

    fn open_folder(&self, ino: INodeNo) -> Result<(FileHandle, FopenFlags), Errno> {
        let node = self.node(ino)?;
        let listed = self.tree.list(&node, self.clock.now()).map_err(|e| failed(&e, &node.path))?;
        let known = if listed.list.open() { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() };
        Ok((self.add(Open::Folder(node, listed))?, FopenFlags::FOPEN_CACHE_DIR | known))
    }

    fn folder(&self, fh: FileHandle, offset: u64) -> Result<(Arc<Node>, Listed), Errno> {
        // The previous process may have listed the folder in another order, so an offset is invalid.
        if offset > 0 && self.open.left_open(fh.0).is_some() {
            return Err(Errno::EIO);
        }
        match self.opened(fh)? {
            Open::Folder(node, listed) => Ok((node, listed)),
            Open::File(_) => Err(Errno::ENOTDIR),
        }
    }
}

fn time_of(nanos: i64) -> SystemTime {
    let since = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { SystemTime::UNIX_EPOCH - since } else { SystemTime::UNIX_EPOCH + since }
}

/// Whether an error says that a file was replaced or deleted.
fn is_changed(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Data | ErrorKind::NotFound)
}

/// Returns the errno of an error of a source, and logs the error.
fn failed(e: &Error, path: &Path) -> Errno {
    let number = match e.kind() {
        ErrorKind::NotFound => return Errno::ENOENT,
        ErrorKind::PermissionDenied => Errno::EACCES,
        ErrorKind::Exhausted => Errno::EOVERFLOW,
        _ => Errno::EIO,
    };
    tracing::warn!(path = %path.display(), "{}", told("", e));
    number
}

/// FUSE has the same number for the root.
const _: () = assert!(ROOT == INodeNo::ROOT.0);
