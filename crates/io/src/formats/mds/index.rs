//! `index.json`: the shards of a folder, and their columns.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_plan::MdsColumn;
use serde::Deserialize;

use super::encoding::Encoding;
use super::packed::{self, is_packed};
use super::shard::wrong;
use crate::limits;
use crate::store::{self, Object};

const VERSION: u64 = 2;
/// The longest index that is read: enough for about half a million shards.
const BYTES_MAX: u64 = 256 << 20;

/// Returns the name of a folder's index.
pub(crate) fn index_of(folder: &str) -> String {
    let folder = folder.strip_suffix("/index.json").unwrap_or(folder);
    format!("{}/index.json", folder.trim_end_matches('/'))
}

/// A shard, as the index describes it.
#[derive(Debug)]
pub(crate) struct Shard {
    /// The file that is read: for a compressed shard, the raw file where it exists.
    pub(crate) uri: String,
    pub(crate) rows: u64,
    /// The bytes of the raw shard.
    pub(crate) bytes: u64,
}

/// The shards of a folder, all of the same columns.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) columns: Vec<MdsColumn>,
    pub(crate) shards: Vec<Shard>,
}

#[derive(Deserialize)]
struct Written {
    version: u64,
    shards: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    format: String,
    version: u64,
    samples: u64,
    raw_data: Data,
    zip_data: Option<Data>,
    compression: Option<String>,
    #[serde(default)]
    column_names: Vec<String>,
    #[serde(default)]
    column_encodings: Vec<String>,
    #[serde(default)]
    column_sizes: Vec<Option<u64>>,
}

#[derive(Deserialize)]
struct Data {
    basename: String,
    bytes: u64,
}

impl Index {
    /// Reads an index.
    ///
    /// # Errors
    /// Data when the index is of another version or format, or names a shard that is not in the folder; Invalid when
    /// shards have an unsupported compression, or have other columns than the first.
    pub(crate) fn read(object: &Arc<Object>) -> Result<Self> {
        let uri = object.uri();
        if object.size() > BYTES_MAX {
            let what = format!("an index.json of {} bytes, and {BYTES_MAX} are read", object.size());
            return Err(Error::new(forebay_core::ErrorKind::Exhausted, what).with("file", uri));
        }
        let mut text = vec![0; object.size() as usize];
        object.read_at(0, &mut text)?;
        let written: Written = serde_json::from_slice(&text)
            .map_err(|e| broken(uri, format!("this is no index of MosaicML's shards: {e}")))?;
        if written.version != VERSION {
            let what = format!("an index of version {}, and this reads version {VERSION}", written.version);
            return Err(broken(uri, what));
        }
        let folder = uri.strip_suffix("index.json").unwrap_or(uri);
        let mut index = Index { columns: Vec::new(), shards: Vec::with_capacity(written.shards.len()) };
        for (place, entry) in written.shards.into_iter().enumerate() {
            let of = |e: Error| e.with("file", uri).with("shard", place);
            let columns = columns(&entry).map_err(of)?;
            if place == 0 {
                index.columns = columns;
            } else if columns != index.columns {
                return Err(of(Error::data("a shard has other columns than the first one")
                    .with("fault", "file")
                    .hint("read folders whose samples are alike together, and others by themselves")));
            }
            index.shards.push(entry.shard(folder).map_err(of)?);
        }
        Ok(index)
    }
}

impl Entry {
    fn shard(self, folder: &str) -> Result<Shard> {
        let (rows, bytes) = (self.samples, self.raw_data.bytes);
        let raw = inside(folder, &self.raw_data.basename)?;
        let (uri, size) = match self.zip_data {
            // A folder that the library has read before may have the raw shards only.
            Some(zip) if store::is_remote(folder) || !store::is_file(&raw) => {
                packed::check(self.compression.as_deref().unwrap_or_default(), &zip.basename)?;
                (inside(folder, &zip.basename)?, zip.bytes)
            }
            _ => (raw, bytes),
        };
        limits::group("a shard", bytes, limits::group_bytes_max(size))?;
        Ok(Shard { uri, rows, bytes })
    }
}

/// Returns the columns of a shard.
fn columns(entry: &Entry) -> Result<Vec<MdsColumn>> {
    if entry.format != "mds" {
        let what = format!("a shard of format {:?}, and from_mds reads \"mds\"", entry.format);
        let hint = if entry.format == "json" { "read its files with from_jsonl" } else { "write it with MDSWriter" };
        return Err(Error::invalid(what).hint(hint));
    }
    if entry.version != VERSION {
        let what = format!("a shard of version {}, and this reads version {VERSION}", entry.version);
        return Err(Error::data(what).with("fault", "file"));
    }
    let count = entry.column_names.len();
    limits::columns("columns of a shard", count)?;
    if entry.column_encodings.len() != count || entry.column_sizes.len() != count {
        return Err(Error::data("the names, encodings and sizes of columns are not equally many").with("fault", "file"));
    }
    let named = entry.column_names.iter().zip(&entry.column_encodings).zip(&entry.column_sizes);
    let column = |((name, encoding), size): ((&String, &String), &Option<u64>)| {
        if name.len() > limits::NAME_BYTES_MAX {
            return Err(Error::data("the name of a column is too long").with("fault", "file"));
        }
        let known = Encoding::parse(encoding).and_then(|encoding| encoding.size());
        // The library treats 0 as a variable size.
        let size = size.filter(|&size| size > 0);
        if known.is_some() && known != size {
            let what = format!("column {name:?} of {encoding:?} has {size:?} bytes, and such values have {known:?}");
            return Err(Error::data(what).with("fault", "file"));
        }
        Ok(MdsColumn { name: name.clone(), encoding: encoding.clone(), size })
    };
    named.map(column).collect()
}

/// Returns the path of a file in a folder. An index may not name a file outside of its folder.
pub(crate) fn inside(folder: &str, name: &str) -> Result<String> {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    if name.split('/').all(is_plain) && !name.contains(['\\', '\0', '?', '#', '%']) {
        return Ok(format!("{folder}{name}"));
    }
    Err(Error::data(format!("a shard is called {name:?}, which is no file of the folder")).with("fault", "file"))
}

fn broken(uri: &str, what: String) -> Error {
    Error::data(what)
        .with("fault", "file")
        .with("file", uri)
        .hint("from_mds takes a folder that MDSWriter of mosaicml-streaming wrote, with its index.json")
}

/// Compares the size of a shard's file with the size in its index.
///
/// # Errors
/// Data when they differ.
pub(crate) fn check_size(uri: &str, size: u64, bytes: u64) -> Result<()> {
    if size == bytes || is_packed(uri) {
        return Ok(());
    }
    Err(wrong(uri, size.min(bytes), format!("the shard has {size} bytes, and its index says {bytes}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_shard_is_outside_of_its_folder() {
        assert_eq!(inside("/d/", "a/shard.00000.mds"), Ok("/d/a/shard.00000.mds".to_owned()));
        for name in ["", "../x", "/etc/passwd", "a/../../x", "a//b", ".", "a/.", "..\\x", "x?y", "%2e%2e/x"] {
            assert!(inside("/d/", name).is_err(), "{name}");
        }
    }
}
