//! Folders of shards, each with an `index.json` that has the number of samples of each shard: MosaicML's and LitData's.

pub(super) mod litdata;
pub(super) mod mds;

use std::sync::Arc;

use forebay_core::{Error, Result};

use super::format::{FileAccess, Listed};
use super::look_up::{listed, name_instead};
use crate::formats::mds::{Shard, index_of};
use crate::index::Layout;
use crate::index::table::Table;
use crate::store::{self, Found, Object};

/// Lists the indexes of folders, and returns also the folders. `hint` tells the user which path to name when a folder
/// has no index.
pub(super) fn folders(paths: &[String], hint: &str) -> Result<(Vec<String>, Vec<Found>)> {
    let indexes = paths.iter().map(|folder| index_of(folder)).collect();
    let (indexes, files) = listed(indexes, usize::MAX).map_err(|e| name_instead(e, hint))?;
    let folder = |index: &String| index.strip_suffix("/index.json").unwrap_or(index).to_owned();
    Ok((indexes.iter().map(folder).collect(), files))
}

/// Reads the index of a folder: its shards, and whether they have the source's columns.
type ReadIndex<'r> = &'r dyn Fn(&Arc<Object>) -> Result<(Vec<Shard>, bool)>;

/// Lists the shards of folders, and the number of samples of each, by the index of each folder.
pub(super) fn list<'s>(folders: &[String], read: ReadIndex<'_>, access: FileAccess<'_>) -> Result<Listed<'s>> {
    let indexes: Vec<String> = folders.iter().map(|folder| index_of(folder)).collect();
    let (mut found, mut tables) = (Vec::new(), Vec::new());
    for index in store::list(&indexes)? {
        access.allowed.check(&index.uri)?;
        let (shards, fits) = read(&access.open_found(&index)?)?;
        if !fits {
            return Err(Error::data("the samples of this folder have other columns, or are compressed otherwise, than those of the first one")
                .with("fault", "file")
                .with("file", index.uri)
                .hint("read folders whose samples are alike together, and others by themselves"));
        }
        for shard in shards {
            found.push(Found { uri: shard.uri, stat: None });
            tables.push(Arc::new(Table::Shard { rows: shard.rows, bytes: shard.bytes }));
        }
    }
    Ok(Listed { tables, ..Listed::of(found, Layout::PerFile { counted: true }) })
}
