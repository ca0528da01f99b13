//! A shared file system as a store of objects: direct reads, and the removal of incomplete files of dead writers.
//!
//! `object_store` writes a file beside the final name (`x.arrow#1`) and then links the final name to it, so that an
//! object exists as a whole or not at all.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::{Error, Result};
use object_store::local::LocalFileSystem;
use object_store::path::Path;

use super::local;
use super::remote::fetch::Store;
use super::remote::retry::{Budget, Policy};
use crate::fail;

/// An incomplete file of this age is removed: no put takes that long.
const LEFT_HALF: Duration = Duration::from_secs(3600);

/// Creates the store of a mounted file system. It only builds paths, so a file system that hangs does not block it.
pub(super) fn open(uri: &str, folder: &str) -> Result<(Store, Path)> {
    let wrong = |e: String| {
        Error::invalid(format!("not a folder that can be used: {e}"))
            .with("file", uri)
            .hint("a folder that machines share is file:///, and its path")
    };
    if !folder.starts_with('/') {
        return Err(wrong("it names a host, or is no whole path".to_owned()));
    }
    let base = Path::from_absolute_path(FilePath::new(folder)).map_err(|e| wrong(e.to_string()))?;
    let policy = Policy::from_settings(|_| None)?;
    let budget = Arc::new(Budget::default());
    let inner = Arc::new(LocalFileSystem::new());
    Ok((Store { inner, policy, budget, is_unsigned: false, blocks: None, levels: None }, base))
}

/// Reads a part of a file directly, so that a missing part and a system error are distinguished.
pub(super) fn read(path: &FilePath, range: Range<u64>) -> Result<Bytes> {
    let file = local::open_regular(path)?;
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_exact_at(&mut bytes, range.start).map_err(|e| fail::io(&path.to_string_lossy(), e))?;
    Ok(bytes.into())
}

/// Removes old incomplete files in the folders below `root`.
pub(super) fn tidy(root: &FilePath) {
    for below in std::fs::read_dir(root).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(below.path()).into_iter().flatten().flatten() {
            let name = file.file_name();
            let number = name.to_str().and_then(|name| name.rsplit_once('#')).map(|(_, number)| number);
            let is_half = number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
            let age = file.metadata().and_then(|m| m.modified()).ok().and_then(|at| at.elapsed().ok());
            if is_half && age.is_some_and(|age| age > LEFT_HALF) {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "tests set the time of files")]
#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::super::Bucket;
    use super::*;

    #[test]
    fn what_was_left_half_goes_when_it_is_old_and_is_never_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let of_prefix = folder.path().join("1/ab");
        std::fs::create_dir_all(&of_prefix).expect("made");
        let files = ["old.arrow#1", "new.arrow#1", "whole.arrow"].map(|name| of_prefix.join(name));
        let long_ago = SystemTime::now() - 2 * LEFT_HALF;
        for (path, modified) in files.iter().zip([long_ago, SystemTime::now(), long_ago]) {
            let file = std::fs::File::create(path).expect("made");
            file.set_modified(modified).expect("set");
        }
        let bucket = Bucket::open(&format!("file://{}", folder.path().display())).expect("opens");
        bucket.tidy("1");
        assert_eq!(files.map(|path| path.exists()), [false, true, true]);
        let listed: Vec<_> =
            bucket.list("1", Duration::from_secs(30)).expect("lists").into_iter().map(|e| e.name).collect();
        assert_eq!(listed, ["1/ab/whole.arrow"]);
    }
}
