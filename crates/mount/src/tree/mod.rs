//! Names, attributes and inode numbers of a mount.
//!
//! The root is a source, or a folder with one name for each of several sources. A folder of a remote source is listed as a
//! whole, and the list serves its names until it is older than the refresh time. A local folder is looked at each time.
//! The time is an argument. Invariants: see `nodes` and `lists`.

mod lists;
mod names;
mod nodes;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result, Ticks};
use forebay_io::{Attributes, EntryKind, FileTree, TreeEntry};

use lists::Lists;
pub use lists::{FOLDER_NAMES_MAX, LISTED_NAMES_MAX};
pub(crate) use lists::{List, Listed};
pub use names::NamedSource;
use nodes::Nodes;
pub(crate) use nodes::{Node, ROOT};

/// Time for which the kernel may cache names and attributes of a local folder.
const LOCAL_AGE: Duration = Duration::from_secs(1);

/// Attributes of a folder without a time and an owner.
const NOTHING: Attributes = Attributes { mtime: None, owner: None };

/// Where a source's names come from.
pub(crate) trait Names: Send + Sync {
    /// Says whether a folder is listed as a whole, so that single names are found in its list.
    fn is_listed(&self) -> bool;
    /// Returns the entries of a folder, sorted by name.
    fn list(&self, folder: &Path) -> Result<Vec<TreeEntry>>;
    /// Looks at one name; only where [`Names::is_listed`] is false.
    fn look(&self, path: &Path) -> Result<Option<TreeEntry>>;
}

impl Names for FileTree {
    fn is_listed(&self) -> bool {
        self.is_remote()
    }

    fn list(&self, folder: &Path) -> Result<Vec<TreeEntry>> {
        FileTree::list(self, folder, FOLDER_NAMES_MAX)
    }

    fn look(&self, path: &Path) -> Result<Option<TreeEntry>> {
        FileTree::look(self, path)
    }
}

/// The tree of a mount. See the module's documentation.
pub(crate) struct Tree<N> {
    /// The sources by name; a single source that is the root has no name.
    sources: Vec<(OsString, N)>,
    nodes: Nodes,
    lists: Lists,
    refresh: Duration,
}

impl<N: Names> Tree<N> {
    /// Creates a tree of named sources. A single source without a name is the root.
    pub(crate) fn new(sources: Vec<(OsString, N)>, refresh: Duration) -> Self {
        Self { sources, nodes: Nodes::default(), lists: Lists::default(), refresh }
    }

    /// Returns the source of a node; `None` for the root of several sources.
    pub(crate) fn source(&self, node: &Node) -> Option<&N> {
        let source = node.source?;
        self.sources.get(source).map(|(_, source)| source)
    }

    /// Returns a node that the kernel references.
    pub(crate) fn get(&self, ino: u64) -> Option<Arc<Node>> {
        if ino == ROOT { Some(Arc::new(self.root())) } else { self.nodes.get(ino) }
    }

    fn is_single(&self) -> bool {
        self.sources.first().is_some_and(|(name, _)| name.is_empty())
    }

    fn root(&self) -> Node {
        Node::folder(ROOT, self.is_single().then_some(0), Path::new(""))
    }

    /// Looks a name up in a folder, and counts the lookup for the kernel. Returns the node, and the time for which the
    /// kernel may cache the answer.
    ///
    /// # Errors
    /// Errors of the source.
    pub(crate) fn lookup(&self, folder: &Node, name: &OsStr, now: Ticks) -> Result<Option<(Arc<Node>, Duration)>> {
        let Some(source) = self.source(folder) else {
            let Some(mut node) = self.top(&source_entry(name)) else { return Ok(None) };
            let mut age = self.refresh;
            if let Some(source) = self.source(&node).filter(|source| !source.is_listed()) {
                age = LOCAL_AGE.min(age);
                node.attributes = source.look(Path::new(""))?.map_or(NOTHING, |entry| entry.attributes);
            }
            return Ok(Some((self.nodes.hold(node), age)));
        };
        let (entry, age) = self.entry(source, folder, name, now)?;
        Ok(entry.map(|entry| (self.hold(folder, &entry), age)))
    }

    fn entry(&self, source: &N, folder: &Node, name: &OsStr, now: Ticks) -> Result<(Option<TreeEntry>, Duration)> {
        if source.is_listed() {
            let listed = self.list(folder, now)?;
            Ok((listed.list.find(name).cloned(), listed.left(self.refresh, now)))
        } else {
            Ok((source.look(&folder.path.join(name))?, LOCAL_AGE.min(self.refresh)))
        }
    }

    /// Returns the current node of a path; `None` if the path does not exist. The kernel gets no reference to it.
    ///
    /// # Errors
    /// Errors of the source.
    pub(crate) fn find(&self, source: Option<usize>, path: &Path, now: Ticks) -> Result<Option<Node>> {
        let (Some(number), Some(folder), Some(name)) = (source, path.parent(), path.file_name()) else {
            let is_root = source.is_none() || self.is_single();
            return Ok(Some(if is_root { self.root() } else { Node::folder(0, source, Path::new("")) }));
        };
        let Some((_, of)) = self.sources.get(number) else { return Ok(None) };
        let folder = Node::folder(0, source, folder);
        let (entry, _) = self.entry(of, &folder, name, now)?;
        Ok(entry.map(|entry| Node::of(&folder, &entry)))
    }

    /// Adds a node that the kernel got from the previous process.
    pub(crate) fn hold_again(&self, node: Node) -> Arc<Node> {
        self.nodes.hold(node)
    }

    /// Returns the node of an entry of a folder, and counts a lookup for the kernel.
    pub(crate) fn hold(&self, folder: &Node, entry: &TreeEntry) -> Arc<Node> {
        self.nodes.hold(self.node(folder, entry))
    }

    /// Returns the inode number of an entry of a folder.
    pub(crate) fn number(&self, folder: &Node, entry: &TreeEntry) -> u64 {
        self.node(folder, entry).ino
    }

    fn node(&self, folder: &Node, entry: &TreeEntry) -> Node {
        let top = if folder.source.is_none() { self.top(entry) } else { None };
        top.unwrap_or_else(|| Node::of(folder, entry))
    }

    /// Returns the node of a source in the root of several sources.
    fn top(&self, entry: &TreeEntry) -> Option<Node> {
        let number = self.sources.iter().position(|(name, _)| *name == entry.name)?;
        Some(Node::folder(0, Some(number), Path::new("")))
    }

    /// Lists a folder.
    ///
    /// # Errors
    /// What the source says.
    pub(crate) fn list(&self, folder: &Node, now: Ticks) -> Result<Listed> {
        match self.source(folder) {
            None => Ok(Listed::new(List::new(self.sources.iter().map(|(name, _)| source_entry(name)).collect()), now)),
            Some(source) if !source.is_listed() => Ok(Listed::new(List::new(source.list(&folder.path)?), now)),
            Some(source) => {
                let key = (folder.source.unwrap_or(0), folder.path.clone());
                self.lists.get(key, self.refresh, now, || source.list(&folder.path))
            }
        }
    }

    /// Returns the time for which the kernel may cache the entries of a folder.
    pub(crate) fn age(&self, folder: &Node, listed: &Listed, now: Ticks) -> Duration {
        match self.source(folder) {
            Some(source) if !source.is_listed() => LOCAL_AGE.min(self.refresh),
            _ => listed.left(self.refresh, now),
        }
    }

    /// Returns the current attributes of a node, and the time for which the kernel may cache them.
    ///
    /// # Errors
    /// NotFound for a deleted local folder; errors of the source.
    pub(crate) fn attributes(&self, node: &Node) -> Result<(Attributes, Duration)> {
        match self.source(node) {
            Some(source) if !source.is_listed() => {
                let age = LOCAL_AGE.min(self.refresh);
                match source.look(&node.path)? {
                    Some(entry) if entry.kind == node.kind => Ok((entry.attributes, age)),
                    // The file was replaced or deleted. Programs that have it open keep its attributes.
                    _ if matches!(node.kind, EntryKind::File(_)) => Ok((node.attributes, age)),
                    _ => Err(Error::new(ErrorKind::NotFound, "there is no such folder any more")),
                }
            }
            // An inode has one content, so the attributes in a list stay valid.
            Some(_) => Ok((node.attributes, self.refresh)),
            None => Ok((NOTHING, self.refresh)),
        }
    }

    /// Marks a node as stale after its file changed: an open of the node fails, and its folder is listed again.
    pub(crate) fn changed(&self, node: &Node) {
        node.set_stale();
        let folder = node.path.parent().unwrap_or(Path::new(""));
        self.lists.forget(&(node.source.unwrap_or(0), folder.into()));
    }

    /// Decreases the lookup count of a node, as FUSE_FORGET asks.
    pub(crate) fn forget(&self, ino: u64, times: u64) {
        self.nodes.forget(ino, times);
    }

    /// Returns the sources.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &N> {
        self.sources.iter().map(|(_, source)| source)
    }
}

fn source_entry(name: &OsStr) -> TreeEntry {
    TreeEntry { name: name.to_owned(), kind: EntryKind::Folder, attributes: NOTHING }
}

#[cfg(test)]
mod tests;
