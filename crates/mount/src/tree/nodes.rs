//! Inode numbers and their nodes.
//!
//! An inode number is a hash of the source's index, the path, and for a file also the content's version. So the number
//! is the same in each run, and a new content has a new inode. The second of two nodes with one hash gets the next free
//! number. Invariant: a number belongs to one node while the kernel references it. Bound: the kernel's own caches limit
//! how many nodes it references, and FUSE_FORGET drops a node.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_io::{Attributes, EntryKind, TreeEntry};
use xxhash_rust::xxh3::Xxh3Default;

/// Inode number of the root.
pub(crate) const ROOT: u64 = 1;

/// A file, folder or symbolic link of a mount.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) ino: u64,
    /// Index of the source; `None` for the root of several sources.
    pub(crate) source: Option<usize>,
    /// The path in the source.
    pub(crate) path: Arc<Path>,
    pub(crate) kind: EntryKind,
    pub(crate) attributes: Attributes,
    /// The file is known to have another content by now.
    is_stale: AtomicBool,
}

impl Node {
    pub(super) fn folder(ino: u64, source: Option<usize>, path: &Path) -> Self {
        let attributes = Attributes { mtime: None, owner: None };
        let kind = EntryKind::Folder;
        let mut node = Self { ino, source, path: path.into(), kind, attributes, is_stale: AtomicBool::new(false) };
        if ino == 0 {
            node.ino = node.number();
        }
        node
    }

    /// Returns the node of an entry of a folder.
    pub(super) fn of(folder: &Self, entry: &TreeEntry) -> Self {
        let mut node = Self {
            ino: 0,
            source: folder.source,
            path: folder.path.join(&entry.name).into(),
            kind: entry.kind.clone(),
            attributes: entry.attributes,
            is_stale: AtomicBool::new(false),
        };
        node.ino = node.number();
        node
    }

    /// Returns the hash: never 0, which is no inode number, nor the root's number.
    fn number(&self) -> u64 {
        let mut hash = Xxh3Default::new();
        hash.update(&self.source.map_or(0, |source| source as u64 + 1).to_le_bytes());
        hash.update(self.path.as_os_str().as_encoded_bytes());
        match &self.kind {
            EntryKind::Folder => hash.update(b"\0folder"),
            EntryKind::Link(target) => {
                hash.update(b"\0link");
                hash.update(target.as_os_str().as_encoded_bytes());
            }
            EntryKind::File(pinned) => hash.update(format!("\0file {pinned}").as_bytes()),
        }
        hash.digest().max(ROOT + 1)
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.source, &self.path, &self.kind) == (other.source, &other.path, &other.kind)
    }

    /// Whether the file is known to have another content by now.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    pub(super) fn set_stale(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
    }
}

/// The nodes that the kernel references, each with its lookup count.
#[derive(Debug, Default)]
pub(super) struct Nodes(Mutex<HashMap<u64, (Arc<Node>, u64)>>);

impl Nodes {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (Arc<Node>, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, ino: u64) -> Option<Arc<Node>> {
        self.lock().get(&ino).map(|(node, _)| node.clone())
    }

    /// Adds a node if it is new, and increments its lookup count.
    pub(super) fn hold(&self, mut node: Node) -> Arc<Node> {
        let mut nodes = self.lock();
        loop {
            match nodes.entry(node.ino) {
                Entry::Vacant(place) => {
                    let node = Arc::new(node);
                    place.insert((node.clone(), 1));
                    return node;
                }
                Entry::Occupied(mut held) => {
                    let (known, count) = held.get_mut();
                    if known.is_same(&node) {
                        *count += 1;
                        // A lookup has found this content again, so the node is not stale.
                        known.is_stale.store(false, Ordering::Relaxed);
                        return known.clone();
                    }
                    node.ino = node.ino.wrapping_add(1).max(ROOT + 1);
                }
            }
        }
    }

    pub(super) fn forget(&self, ino: u64, times: u64) {
        if let Entry::Occupied(mut held) = self.lock().entry(ino) {
            let count = &mut held.get_mut().1;
            *count = count.saturating_sub(times);
            if *count == 0 {
                held.remove();
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}
