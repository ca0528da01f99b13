//! The remote files of a source, read through the page cache.
//!
//! `io` and `cache` do not depend on each other: this adapter implements `io`'s [`ReadThrough`] with `cache`'s pages.

use std::ops::Range;
use std::sync::Arc;

use forebay_cache::{Cache, FileKey, PageCache, PagedFile, SourceStats};
use forebay_io::{Arriving, Fetch, NearFile, ReadThrough, RemoteFile, is_remote};
use forebay_plan::Source;
use serde_json::{Value, json};

/// The remote files of a source, read through the page cache. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PageCachedSource(Arc<PageCache>);

impl PageCachedSource {
    /// Opens the remote files of a source; `bytes` is their total size, or 0 where it is not known. `None` where the
    /// source has no remote file, or the cache keeps no pages.
    pub fn open(source: &Source, bytes: u64, cache: &Cache) -> Option<Self> {
        cache.page_cache(&folder(source)?, bytes).map(Self)
    }

    /// Opens the files below a remote folder. `what` names it for messages: `s3://bucket/train/`. `None` where the cache
    /// keeps no pages.
    pub fn below(what: &str, cache: &Cache) -> Option<Self> {
        cache.page_cache(what, 0).map(Self)
    }

    /// Returns how many bytes were read from which place since this process opened the source.
    pub fn stats(&self) -> SourceStats {
        self.0.stats()
    }

    /// Returns the same as JSON, for the statistics of an iterator.
    pub(crate) fn describe(&self) -> Value {
        let SourceStats { what, bytes, pages, counts, .. } = self.stats();
        json!({
            "files": what,
            "bytes": bytes,
            "asked": counts.asked,
            "from_disk": counts.from_disk,
            "fetched": counts.fetched,
            "pages_on_disk": pages,
            "pages_corrupt": counts.corrupt,
            "pages_not_kept": counts.not_kept,
        })
    }
}

impl ReadThrough for PageCachedSource {
    fn file(&self, file: RemoteFile<'_>, fetch: Fetch) -> Arc<dyn NearFile> {
        let key = FileKey::of(file.uri, file.size, file.identity);
        Arc::new(File(self.0.file(key, file.size, fetch)))
    }
}

#[derive(Debug)]
struct File(PagedFile);

impl NearFile for File {
    fn request(&self, range: Range<u64>) -> Arriving {
        let request = self.0.request(range);
        Box::new(move |to| request.fill(to))
    }

    fn holds(&self, range: Range<u64>) -> bool {
        self.0.holds(range)
    }
}

/// Says whether a source has remote files.
pub fn reads_remote(source: &Source) -> bool {
    source.paths().iter().any(|path| is_remote(path))
}

/// Returns the deepest folder that holds all remote files of a source, for every expansion of the patterns.
fn folder(source: &Source) -> Option<String> {
    let is_folder = source.facts().names_folders;
    let literal = |path: &String| {
        let whole = if is_folder { format!("{}/", path.trim_end_matches('/')) } else { path.clone() };
        let end = whole.find(['*', '?', '[', '{']).unwrap_or(whole.len());
        whole[..end].to_owned()
    };
    let all = source.paths();
    let mut paths = all.iter().filter(|path| is_remote(path)).map(literal);
    let first = paths.next()?;
    let common = paths.fold(first, |common, path| {
        let same = common.char_indices().zip(path.chars()).take_while(|((_, a), b)| a == b);
        let end = same.last().map_or(0, |((at, a), _)| at + a.len_utf8());
        common[..end].to_owned()
    });
    Some(common[..common.rfind('/').map_or(0, |at| at + 1)].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_called_by_the_folder_of_its_remote_files() {
        let of = |paths: &[&str]| folder(&Source::Text { paths: paths.iter().map(|p| (*p).to_owned()).collect() });
        for (paths, want) in [
            (&["s3://b/train/x-{0..9}.txt"][..], Some("s3://b/train/")),
            (&["s3://b/train/x.txt", "s3://b/train/sub/y.txt"], Some("s3://b/train/")),
            (&["s3://b/tr/x", "s3://b/train/x", "/local/x"], Some("s3://b/")),
            (&["s3://b/é/x", "s3://b/è/x"], Some("s3://b/")),
            (&["s3://b/*/x"], Some("s3://b/")),
            (&["/local/x", "file:///local/x"], None),
        ] {
            assert_eq!(of(paths).as_deref(), want, "{paths:?}");
        }
        let images = Source::ImageFolder { root: "s3://b/images".to_owned() };
        assert_eq!(folder(&images).as_deref(), Some("s3://b/images/"));
        assert!(reads_remote(&images));
    }
}
