//! The store that machines share, as the cache sees it: what `io` knows of stores behind the cache's seam, which knows none.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_cache::{Object, Part, RemoteBlocks, SharedStore, Store};
use forebay_core::{Result, SystemClock};
use forebay_io::{Bucket, Wanted};

/// Without a setting, all who use a store keep so much in it together.
const STORE_BYTES: u64 = 1 << 40;

/// Prepares to keep rows below a url; asks nobody yet.
///
/// # Errors
/// Invalid when it is none that rows can be kept at.
pub(crate) fn shared_store(url: &str, bytes: Option<u64>) -> Result<SharedStore> {
    Ok(SharedStore { store: open(url)?, bytes: bytes.unwrap_or(STORE_BYTES), watch: Arc::new(SystemClock::default()) })
}

/// As [`shared_store`], to look at what is there.
pub(crate) fn open(url: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(Adapter(Bucket::open(url)?)))
}

#[derive(Debug)]
struct Adapter(Bucket);

impl RemoteBlocks for Adapter {
    fn uri(&self) -> &str {
        self.0.uri()
    }

    fn list(&self, below: &str, limit: Duration) -> Result<Vec<Object>> {
        let listed = self.0.list(below, limit)?.into_iter();
        Ok(listed.map(|entry| Object { name: entry.name, bytes: entry.bytes, modified: entry.modified }).collect())
    }

    fn read(&self, parts: &[Part], limit: Duration) -> Vec<Result<Bytes>> {
        let wanted = |part: &Part| Wanted { name: part.name.clone(), range: part.range.clone() };
        self.0.read(&parts.iter().map(wanted).collect::<Vec<_>>(), limit)
    }
}

impl Store for Adapter {
    fn put(&self, name: &str, bytes: Bytes, limit: Duration) -> Result<()> {
        self.0.put(name, bytes, limit)
    }

    fn touch(&self, name: &str, limit: Duration) -> Result<()> {
        self.0.touch(name, limit)
    }

    fn delete(&self, name: &str, limit: Duration) -> Result<()> {
        self.0.delete(name, limit)
    }

    fn tidy(&self, below: &str) {
        self.0.tidy(below);
    }
}
