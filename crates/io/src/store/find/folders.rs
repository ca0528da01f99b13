//! Folders below a folder, through links too, but never into one of its own parents: such a link would be a cycle that
//! yields every file again and again.

use std::fs::DirEntry;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_core::{Error, Result};

use crate::fail;

/// The deepest folder that is listed.
const DEPTH_MAX: usize = 64;

/// A folder on the path of the walk, identified by device and inode.
struct Folder {
    path: PathBuf,
    depth: usize,
    identity: (u64, u64),
    /// Its parent folder in the walk.
    parent: Option<Arc<Folder>>,
}

impl Folder {
    /// Says whether a folder is this one or one of its parents in the walk.
    fn is_within(&self, identity: (u64, u64)) -> bool {
        let mut at = Some(self);
        while let Some(folder) = at {
            if folder.identity == identity {
                return true;
            }
            at = folder.parent.as_deref();
        }
        false
    }
}

/// An entry of a folder.
pub(in crate::store) enum Entry {
    Folder,
    File,
}

/// Calls `visit` with every entry below `root` whose name is not hidden, its path and the depth of its folder.
///
/// # Errors
/// Any error of listing a folder; Invalid for folders that nest too deep; any error that `visit` returns.
pub(in crate::store) fn walk(root: &Path, mut visit: impl FnMut(PathBuf, Entry, usize) -> Result<()>) -> Result<()> {
    // Resolved, so that its parents are the real ones.
    let real = std::fs::canonicalize(root).map_err(|e| fail::io(&root.to_string_lossy(), e))?;
    let above: Vec<_> = real.ancestors().skip(1).filter_map(|folder| identity(folder).ok()).collect();
    let start = Folder { path: root.to_path_buf(), depth: 0, identity: identity(root)?, parent: None };
    let mut todo = vec![Arc::new(start)];
    while let Some(folder) = todo.pop() {
        let name = folder.path.to_string_lossy().into_owned();
        for entry in std::fs::read_dir(&folder.path).map_err(|e| fail::io(&name, e))? {
            let entry = entry.map_err(|e| fail::io(&name, e))?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            if !is_folder(&entry, &path) {
                visit(path, Entry::File, folder.depth)?;
                continue;
            }
            let identity = identity(&path)?;
            if folder.is_within(identity) || above.contains(&identity) {
                continue;
            }
            if folder.depth == DEPTH_MAX {
                let text = path.to_string_lossy();
                return Err(Error::invalid(format!("folders nest deeper than {DEPTH_MAX}")).with("file", text));
            }
            visit(path.clone(), Entry::Folder, folder.depth)?;
            let (depth, parent) = (folder.depth + 1, Some(folder.clone()));
            todo.push(Arc::new(Folder { path, depth, identity, parent }));
        }
    }
    Ok(())
}

/// Says whether an entry is a folder. The listing has the type of most entries, so few need a request.
fn is_folder(entry: &DirEntry, path: &Path) -> bool {
    match entry.file_type() {
        Ok(kind) if !kind.is_symlink() => kind.is_dir(),
        _ => path.is_dir(),
    }
}

fn identity(folder: &Path) -> Result<(u64, u64)> {
    let meta = std::fs::metadata(folder).map_err(|e| fail::io(&folder.to_string_lossy(), e))?;
    Ok((meta.dev(), meta.ino()))
}
