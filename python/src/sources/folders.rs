//! The names in a folder of a store.

use std::path::Path;

use forebay_io::{EntryKind, FileTree, TreeEntry};
use pyo3::prelude::*;

use crate::errors::detached;

/// Returns the names in a folder, sorted, and whether each is a folder.
///
/// # Errors
/// NotFound when there is no such folder; Exhausted when it has more than `most` names; any error of the store.
#[pyfunction]
pub(crate) fn names_in(py: Python<'_>, folder: &str, most: usize) -> PyResult<Vec<(String, bool)>> {
    let entries = detached(py, || FileTree::open(folder)?.list(Path::new(""), most))?;
    let named = |entry: TreeEntry| Some((entry.name.into_string().ok()?, entry.kind == EntryKind::Folder));
    Ok(entries.into_iter().filter_map(named).collect())
}
