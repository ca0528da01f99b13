//! Lists the objects of a store below a prefix: folders in parallel, where there are many names.
//!
//! A list that breaks is resumed after the last name. Bounds: [`LISTS_MAX`] lists are in flight for one prefix, and
//! every answer has the policy's time.

#![expect(clippy::disallowed_methods, reason = "lists are tried again within a bound")]

use std::sync::Arc;
use std::time::Instant;

use forebay_core::{Error, Result};
use futures::StreamExt;
use object_store::ObjectMeta;
use object_store::path::Path;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::fetch::{NOTHING_PINNED, Store, why};
use super::retry::Attempts;

/// The number of names below a prefix from which its folders are listed in parallel: a store returns 1,000 in one
/// answer.
const SPLIT_NAMES: usize = 2_000;
/// The most names that a list yields at once: a store sends 1,000 in one answer.
const PAGE_NAMES: usize = 1_000;
/// Lists in flight.
const LISTS_MAX: usize = 16;

/// The listed part of a prefix.
#[derive(Default)]
struct Listed {
    objects: Vec<ObjectMeta>,
    /// Prefixes that are not listed yet.
    folders: Vec<Path>,
}

impl Store {
    /// Lists every object below a prefix, in no order. Each list is a task of its own: parsing the names costs more time
    /// than a fast store needs to answer.
    pub(in crate::store) async fn list(self: &Arc<Self>, prefix: &Path, uri: &str) -> Result<Vec<ObjectMeta>> {
        let (mut found, mut waiting) = (Vec::new(), vec![prefix.clone()]);
        let mut lists = JoinSet::new();
        loop {
            while lists.len() < LISTS_MAX
                && let Some(prefix) = waiting.pop()
            {
                let (store, uri) = (self.clone(), uri.to_owned());
                lists.spawn(async move { store.list_or_split(&prefix, &uri, usize::MAX, &|_| true).await });
            }
            let Some(listed) = lists.join_next().await else { return Ok(found) };
            let listed = listed.map_err(|e| Error::internal(format!("a list ended: {e}")))?;
            let Listed { objects, folders } = listed?;
            found.extend(objects);
            waiting.extend(folders);
        }
    }

    /// Lists the first `most` objects below a prefix that are `wanted`, in the order of the store, which is that of the
    /// names.
    pub(in crate::store) async fn list_first(
        &self,
        prefix: &Path,
        uri: &str,
        most: usize,
        wanted: &(dyn Fn(&ObjectMeta) -> bool + Sync),
    ) -> Result<Vec<ObjectMeta>> {
        self.list_or_split(prefix, uri, most, wanted).await.map(|listed| listed.objects)
    }

    /// Lists objects below a prefix. For a prefix with many names, if all are wanted, it may return only the objects
    /// directly in it, and its folders.
    async fn list_or_split(
        &self,
        prefix: &Path,
        uri: &str,
        most: usize,
        wanted: &(dyn Fn(&ObjectMeta) -> bool + Sync),
    ) -> Result<Listed> {
        let mut attempts = Attempts::new(Instant::now());
        let (mut found, mut last): (Vec<ObjectMeta>, Option<Path>) = (Vec::new(), None);
        let (mut is_sorted, mut may_split) = (true, most == usize::MAX);
        loop {
            // Stores list by name; a list that is not sorted is restarted from the beginning.
            if !is_sorted {
                (found, last, is_sorted) = (Vec::new(), None, true);
            }
            let objects = match &last {
                None => self.inner.list(Some(prefix)),
                Some(last) => self.inner.list_with_offset(Some(prefix), last),
            };
            let mut pages = objects.ready_chunks(PAGE_NAMES);
            let failed = loop {
                let page = match timeout(self.policy.stall, pages.next()).await {
                    Ok(Some(page)) => page,
                    Ok(None) => return Ok(Listed { objects: found, folders: Vec::new() }),
                    Err(_) => break self.silent(),
                };
                let mut failed = None;
                let page: Vec<ObjectMeta> =
                    page.into_iter().map_while(|meta| meta.map_err(|e| failed = Some(e)).ok()).collect();
                if let Some(end) = page.last().map(|meta| meta.location.clone()) {
                    let follows = |meta: &ObjectMeta| last.as_ref().is_none_or(|last| *last < meta.location);
                    is_sorted &= page.first().is_none_or(follows) && page.is_sorted_by(|a, b| a.location < b.location);
                    last = Some(end);
                    attempts.progressed(Instant::now());
                }
                found.extend(page.into_iter().filter(|meta| wanted(meta)).take(most - found.len()));
                if found.len() >= most {
                    return Ok(Listed { objects: found, folders: Vec::new() });
                }
                if let Some(error) = failed {
                    break why(uri, &NOTHING_PINNED, error);
                }
                if may_split && found.len() >= SPLIT_NAMES {
                    may_split = false;
                    if let Some(folders) = self.folders(prefix, &found).await {
                        return Ok(folders);
                    }
                }
            };
            drop(pages);
            self.again(uri, &mut attempts, failed).await.map_err(|e| e.with("file", uri))?;
        }
    }

    /// Returns the objects directly below a prefix and its folders; `None` where its first objects are in no folder, or
    /// the store does not answer in time. The list then continues name by name.
    async fn folders(&self, prefix: &Path, first: &[ObjectMeta]) -> Option<Listed> {
        let depth = prefix.parts().count() + 1;
        first.iter().any(|meta| meta.location.parts().count() > depth).then_some(())?;
        let level = timeout(self.policy.stall, self.inner.list_with_delimiter(Some(prefix))).await.ok()?.ok()?;
        Some(Listed { objects: level.objects, folders: level.common_prefixes })
    }
}
