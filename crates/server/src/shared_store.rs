//! Adapts the stores of `io` to the trait of `cache` for a store that machines share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_cache::{Object, Part, RemoteBlocks, SharedStore, Store};
use forebay_core::{Result, SystemClock};
use forebay_io::{Bucket, Wanted};

/// The quota of a store for all its users, without a setting.
const STORE_BYTES: u64 = 1 << 40;

/// Prepares a cache of rows below a url; sends no request yet.
///
/// # Errors
/// Invalid when the url cannot hold rows.
pub(crate) fn shared_store(url: &str, bytes: Option<u64>) -> Result<SharedStore> {
    Ok(SharedStore { store: open(url)?, bytes: bytes.unwrap_or(STORE_BYTES), watch: Arc::new(SystemClock::default()) })
}

/// As [`shared_store`], to inspect its contents.
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
