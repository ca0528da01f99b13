//! One folder of a store: what is directly in it, and single names with their times.
//!
//! A list that breaks goes on with the answer that broke. Bounds: a folder has at most as many names as the caller says;
//! a single name costs two requests; [`HEADS_MAX`] objects are asked for at once; every answer has the policy's time.

#![expect(clippy::disallowed_methods, reason = "lists are tried again within a bound")]

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use forebay_core::{Error, ErrorKind, Result};
use futures::{StreamExt, TryStreamExt};
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt};
use tokio::time::timeout;

use crate::Allowed;
use crate::store::Stat;
use crate::store::remote::fetch::{Levels, NOTHING_PINNED, Store, identity, why};
use crate::store::remote::retry::Attempts;
use crate::store::remote::{parse, wait};

/// Objects that are asked for at once.
const HEADS_MAX: usize = 16;

/// An object that a list or its store told of.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    /// Its name in its folder.
    pub(crate) name: String,
    pub(crate) stat: Stat,
    /// Nanoseconds since 1970.
    pub(crate) mtime: i64,
}

/// What is directly in a folder, in no order.
#[derive(Debug, Default)]
pub(crate) struct Level {
    pub(crate) objects: Vec<Listed>,
    pub(crate) folders: Vec<String>,
}

impl Level {
    pub(crate) fn is_empty(&self) -> bool {
        self.names() == 0
    }

    fn names(&self) -> usize {
        self.objects.len() + self.folders.len()
    }
}

/// Lists what is directly below a url, with at most `most` names.
///
/// # Errors
/// Exhausted for a folder with more names; what the store says.
pub(crate) fn level(folder: &str, most: usize) -> Result<Level> {
    let (store, path) = parse(folder, &Allowed::everything())?;
    let uri = folder.to_owned();
    wait(async move { store.level(&path, &uri, most, false).await })
}

/// Says whether names of objects begin with a url and a slash.
///
/// # Errors
/// The error of the store.
pub(crate) fn is_prefix(folder: &str) -> Result<bool> {
    let (store, path) = parse(folder, &Allowed::everything())?;
    let uri = folder.to_owned();
    wait(async move { store.level(&path, &uri, usize::MAX, true).await }).map(|level| !level.is_empty())
}

/// The part of the hub that a url names.
#[derive(Debug)]
pub(crate) enum Found {
    Folder,
    Object(Listed),
}

/// Looks at a url, with two requests at once: a folder hides an object of its name, as in lists. `None` when nothing is there.
///
/// # Errors
/// The error of the store.
pub(crate) fn look(uri: &str) -> Result<Option<Found>> {
    let (store, path) = parse(uri, &Allowed::everything())?;
    let uri = uri.to_owned();
    wait(async move {
        let (is_folder, object) =
            tokio::join!(store.has_names(&path, &uri), store.tried(&uri, || store.inner.head(&path)));
        if is_folder? {
            return Ok(Some(Found::Folder));
        }
        match object {
            Ok(meta) => Ok(Some(Found::Object(listed(&meta, path.filename().unwrap_or_default())))),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    })
}

/// Asks for objects by their urls, and returns them in this order.
///
/// # Errors
/// NotFound for the first that is not there; what the store says.
pub(crate) fn objects(uris: &[String]) -> Result<Vec<Listed>> {
    let found: Vec<_> =
        uris.iter().map(|uri| Ok((parse(uri, &Allowed::everything())?, uri.clone()))).collect::<Result<_>>()?;
    wait(async move {
        let ask = |((store, path), uri): ((Arc<Store>, Path), String)| async move {
            let meta = store.tried(&uri, || store.inner.head(&path)).await?;
            Ok::<_, Error>(listed(&meta, path.filename().unwrap_or_default()))
        };
        futures::stream::iter(found.into_iter().map(ask)).buffered(HEADS_MAX).try_collect().await
    })
}

fn listed(meta: &ObjectMeta, name: &str) -> Listed {
    // Lists tell of milliseconds, and stores that are asked for one object of seconds.
    let mtime = meta.last_modified.timestamp().saturating_mul(1_000_000_000);
    Listed { name: name.to_owned(), stat: identity(meta), mtime }
}

impl Store {
    /// Says whether names begin with a path and a slash; the object that marks an empty folder is one.
    async fn has_names(&self, path: &Path, uri: &str) -> Result<bool> {
        let Some(Levels(lists)) = &self.levels else { return Ok(false) };
        let below = format!("{path}/");
        let (mut page_token, mut attempts) = (None, Attempts::new(Instant::now()));
        loop {
            let options =
                PaginatedListOptions { max_keys: Some(1), page_token: page_token.clone(), ..Default::default() };
            let failed = match timeout(self.policy.stall, lists.list_paginated(Some(&below), options)).await {
                Ok(Ok(page)) if !page.result.objects.is_empty() => return Ok(true),
                Ok(Ok(page)) => {
                    attempts.progressed(Instant::now());
                    let Some(next) = page.page_token else { return Ok(false) };
                    page_token = Some(next);
                    continue;
                }
                Ok(Err(e)) => why(uri, &NOTHING_PINNED, e),
                Err(_) => self.silent(),
            };
            self.again(uri, &mut attempts, failed).await.map_err(|e| e.with("file", uri))?;
        }
    }

    /// Lists a folder; of one that is only looked at, `first` answer is enough.
    async fn level(&self, path: &Path, uri: &str, most: usize, first: bool) -> Result<Level> {
        let Some(Levels(lists)) = &self.levels else {
            return Err(Error::invalid("an http server cannot list files").with("file", uri).hint("name the files"));
        };
        let prefix = (!path.as_ref().is_empty()).then(|| format!("{path}/"));
        let below = prefix.as_deref().unwrap_or_default();
        let (mut level, mut page_token) = (Level::default(), None);
        let mut attempts = Attempts::new(Instant::now());
        loop {
            let options = PaginatedListOptions {
                delimiter: Some(Cow::Borrowed("/")),
                page_token: page_token.clone(),
                ..PaginatedListOptions::default()
            };
            let failed = match timeout(self.policy.stall, lists.list_paginated(prefix.as_deref(), options)).await {
                Ok(Ok(page)) => {
                    attempts.progressed(Instant::now());
                    let name =
                        |path: &Path| Some(path.as_ref().strip_prefix(below)?.to_owned()).filter(|n| !n.is_empty());
                    level.folders.extend(page.result.common_prefixes.iter().filter_map(name));
                    let objects = page.result.objects.iter();
                    level.objects.extend(objects.filter_map(|meta| Some(listed(meta, &name(&meta.location)?))));
                    if level.names() > most {
                        return Err(too_many(uri, most));
                    }
                    match page.page_token {
                        Some(next) if !first || level.is_empty() => page_token = Some(next),
                        _ => return Ok(level),
                    }
                    continue;
                }
                Ok(Err(e)) => why(uri, &NOTHING_PINNED, e),
                Err(_) => self.silent(),
            };
            self.again(uri, &mut attempts, failed).await.map_err(|e| e.with("file", uri))?;
        }
    }
}

fn too_many(uri: &str, most: usize) -> Error {
    Error::new(ErrorKind::Exhausted, format!("this folder has more than {most} names"))
        .with("folder", uri)
        .hint("divide the files among several folders")
}
