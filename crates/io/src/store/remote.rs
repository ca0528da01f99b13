//! Object stores: S3, Google Cloud Storage, Azure Blob Storage, and plain HTTP.
//!
//! Reads are ranged and go through one small runtime that all readers of the process share. Credentials come from the
//! environment variables that each store's own tools use; `object_store` retries with backoff.
//! Invariant: every answer carries the object's identity, and one that is not the pinned object is an error.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use futures::TryStreamExt;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, path::Path};

use super::{Found, Mark, Stat, nothing_matches};
use crate::fail;

/// The most requests of this process that are under way at once.
const REQUESTS_MAX: usize = 16;

/// What the process shares. A forked child makes its own, for threads do not survive a fork.
struct Shared {
    pid: u32,
    runtime: tokio::runtime::Runtime,
    stores: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
    permits: Arc<tokio::sync::Semaphore>,
}

static SHARED: Mutex<Option<Arc<Shared>>> = Mutex::new(None);

fn shared() -> Result<Arc<Shared>> {
    let mut slot = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(shared) = slot.as_ref().filter(|s| s.pid == std::process::id()) {
        return Ok(shared.clone());
    }
    // An error only says that somebody has chosen a provider already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("forebay-io")
        .enable_all()
        .build()
        .map_err(|e| Error::new(ErrorKind::Exhausted, format!("cannot start the reading threads: {e}")))?;
    let permits = Arc::new(tokio::sync::Semaphore::new(REQUESTS_MAX));
    let shared = Arc::new(Shared { pid: std::process::id(), runtime, stores: Mutex::default(), permits });
    if let Some(old) = slot.replace(shared.clone()) {
        // The parent's runtime: its threads are not in this process, and dropping it would wait for them.
        std::mem::forget(old);
    }
    Ok(shared)
}

/// An answer that is on its way.
#[derive(Debug)]
pub(crate) struct Pending(Receiver<Result<Bytes>>);

impl Pending {
    /// Waits for it.
    pub(crate) fn wait(self) -> Result<Bytes> {
        self.0.recv().unwrap_or_else(|_| Err(Error::internal("a read was dropped")))
    }
}

/// Runs a request to its end from a thread that may be anywhere.
fn wait<T: Send + 'static>(request: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let (send, receive) = sync_channel(1);
    shared()?.runtime.spawn(async move {
        let _ = send.send(request.await);
    });
    receive.recv().unwrap_or_else(|_| Err(Error::internal("a request was dropped")))
}

/// An object of a store.
#[derive(Debug)]
pub(super) struct Remote {
    store: Arc<dyn ObjectStore>,
    path: Path,
}

impl Remote {
    pub(super) fn open(uri: &str) -> Result<Self> {
        let (store, path) = parse(uri)?;
        Ok(Self { store, path })
    }

    /// Starts to read a range.
    pub(super) fn request(&self, uri: &Arc<str>, pinned: &Stat, offset: u64, len: usize) -> Pending {
        let (send, receive) = sync_channel(1);
        let (store, path, uri, pinned) = (self.store.clone(), self.path.clone(), uri.clone(), pinned.clone());
        match shared() {
            Ok(shared) => {
                let permits = shared.permits.clone();
                shared.runtime.spawn(async move {
                    let _permit = permits.acquire_owned().await;
                    let _ = send.send(get(&*store, &path, &uri, &pinned, offset, len).await);
                });
            }
            Err(e) => drop(send.send(Err(e))),
        }
        Pending(receive)
    }
}

async fn get(store: &dyn ObjectStore, path: &Path, uri: &str, pinned: &Stat, offset: u64, len: usize) -> Result<Bytes> {
    let range = GetRange::Bounded(offset..offset + len as u64);
    let failed = |e| explain(uri, e).with("offset", offset);
    let answer = store.get_opts(path, GetOptions::new().with_range(Some(range))).await.map_err(failed)?;
    let now = identity(&answer.meta);
    if now != *pinned {
        return Err(fail::changed(uri, pinned, now));
    }
    let bytes = answer.bytes().await.map_err(failed)?;
    if bytes.len() != len {
        return Err(fail::truncated(uri, "the store sent fewer bytes than asked for").with("offset", offset));
    }
    Ok(bytes)
}

fn identity(meta: &ObjectMeta) -> Stat {
    let mark = match &meta.e_tag {
        Some(tag) => Mark::Etag(tag.as_str().into()),
        None => Mark::Mtime(meta.last_modified.timestamp_nanos_opt().unwrap_or(0)),
    };
    Stat { size: meta.size, mark }
}

pub(super) fn stat(uri: &str) -> Result<Stat> {
    let (store, path) = parse(uri)?;
    let name = uri.to_owned();
    wait(async move { store.head(&path).await.map(|m| identity(&m)).map_err(|e| explain(&name, e)) })
}

/// HTTP servers cannot list, and `?` starts a query.
pub(super) fn plain_http(uri: String) -> Result<Found> {
    if uri.contains(['*', '[']) {
        return Err(Error::invalid("an http server cannot list files, so * and [] do not work there")
            .with("file", uri)
            .hint("use braces, for example {0000..0099}"));
    }
    if uri.contains(['?', '#']) {
        return Err(Error::invalid("a query in an http address is not supported").with("file", uri));
    }
    Ok(Found { uri, stat: None })
}

/// Splits a pattern of urls into the part without special characters, ending in a slash, and lists what is below.
pub(super) fn glob(pattern: &str) -> Result<Vec<Found>> {
    let literal = &pattern[..pattern.find(['*', '?', '[']).unwrap_or(pattern.len())];
    let folder = &literal[..=literal.rfind('/').unwrap_or(0)];
    let wanted = glob::Pattern::new(pattern)
        .map_err(|e| Error::invalid(format!("not a pattern: {}", e.msg)).with("file", pattern))?;
    let mut found = below(folder)?;
    found.retain(|f| wanted.matches_with(&f.uri, super::local::GLOB));
    if found.is_empty() {
        return Err(nothing_matches(pattern, folder, true));
    }
    Ok(found)
}

pub(super) fn walk(root: &str) -> Result<(Vec<String>, Vec<Found>)> {
    let root = format!("{}/", root.trim_end_matches('/'));
    let mut found = below(&root)?;
    let hidden = |f: &Found| f.uri[root.len().min(f.uri.len())..].split('/').any(|part| part.starts_with('.'));
    found.retain(|f| !hidden(f));
    let mut folders: Vec<String> = found
        .iter()
        .filter_map(|f| f.uri.get(root.len()..)?.split_once('/'))
        .map(|(class, _)| class.to_owned())
        .collect();
    folders.sort();
    folders.dedup();
    Ok((folders, found))
}

/// Lists every object below a url that ends in a slash, sorted.
fn below(folder: &str) -> Result<Vec<Found>> {
    let (store, prefix) = parse(folder)?;
    let name = folder.to_owned();
    let metas: Vec<ObjectMeta> =
        wait(async move { store.list(Some(&prefix)).try_collect().await.map_err(|e| explain(&name, e)) })?;
    let (_, path) = parse(folder)?;
    let base = folder.trim_end_matches('/');
    let found = metas.into_iter().filter_map(|meta| {
        let tail = meta.location.as_ref().strip_prefix(path.as_ref())?.trim_start_matches('/');
        let tail = tail.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
        Some(Found { uri: format!("{base}/{tail}"), stat: Some(identity(&meta)) })
    });
    let mut found: Vec<Found> = found.collect();
    found.sort_by(|a, b| a.uri.cmp(&b.uri));
    Ok(found)
}

/// Returns the store of a url, made once in this process, and the path in it.
fn parse(uri: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
    let wrong = |e: &dyn std::fmt::Display| {
        Error::invalid(format!("not an address that can be read: {e}"))
            .with("file", uri)
            .hint("addresses begin with s3://, gs://, az://, http://, https:// or file://, or are paths")
    };
    let url = url::Url::parse(uri).map_err(|e| wrong(&e))?;
    let root = format!("{}://{}", url.scheme(), url.authority());
    let (_, path) = object_store::ObjectStoreScheme::parse(&url).map_err(|e| wrong(&e))?;
    let shared = shared()?;
    let mut stores = shared.stores.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(store) = stores.get(&root) {
        return Ok((store.clone(), path));
    }
    let _inside = shared.runtime.enter();
    let (store, path) = object_store::parse_url_opts(&url, options(url.scheme())).map_err(|e| explain(uri, e))?;
    let store: Arc<dyn ObjectStore> = store.into();
    stores.insert(root, store.clone());
    Ok((store, path))
}

/// Returns the settings that the store's own tools take from the environment.
fn options(scheme: &str) -> Vec<(String, String)> {
    let prefix = match scheme {
        "s3" | "s3a" => "AWS_",
        "gs" => "GOOGLE_",
        "http" => return vec![("allow_http".into(), "true".into())],
        "https" => return Vec::new(),
        _ => "AZURE_",
    };
    let named = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    named.filter(|(k, _)| k.starts_with(prefix) || (scheme == "gs" && k == "SERVICE_ACCOUNT")).collect()
}

/// Says what a store's refusal means for the reader.
fn explain(uri: &str, e: object_store::Error) -> Error {
    use object_store::Error as Store;
    let credentials = "set the credentials that the store's own tools read (AWS_*, GOOGLE_*, AZURE_*)";
    match e {
        Store::NotFound { .. } => fail::missing(uri),
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => fail::denied(uri, credentials),
        Store::Precondition { .. } => fail::changed(uri, "the indexed object", "another"),
        Store::NotSupported { .. } | Store::NotImplemented { .. } | Store::InvalidPath { .. } => {
            Error::invalid(format!("the store cannot do this: {e}")).with("file", uri)
        }
        e => Error::unavailable(format!("the store did not answer as it should: {e}")).with("file", uri),
    }
}
