//! Object stores: S3, Google Cloud Storage, Azure Blob Storage, the Hugging Face hub, and plain HTTP.
//!
//! Reads are ranged and go through one small runtime that all readers of the process share. Credentials come from the
//! environment variables that each store's own tools use. `retry` handles stores that do not answer.

pub(super) mod body;
pub(super) mod fetch;
mod guard;
mod http;
mod hub;
mod listing;
mod profile;
pub(super) mod refusal;
pub(super) mod retry;
mod settings;
pub(super) mod upload;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result, WaitsFor, waiting};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectMeta, ObjectStore, ObjectStoreScheme, RetryConfig};

use super::near::Done;
use super::pinned::{Found, Stat};
use body::Body;
use fetch::{Blocks, Levels, Store, identity};
use guard::Guard;
use http::Connector;
use hub::Hub;

use super::uri::nothing_matches;
use crate::Allowed;
use retry::{Budget, Policy};
use settings::{Settings, settings};

/// The most requests of this process in flight.
const REQUESTS_MAX: usize = 16;
/// The interval at which a waiting thread calls `poll`.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// The state that the process shares. A forked child makes its own, because threads do not survive a fork.
pub(super) struct Shared {
    pid: u32,
    pub(super) runtime: tokio::runtime::Runtime,
    stores: Mutex<HashMap<Address, Arc<Store>>>,
    permits: Arc<tokio::sync::Semaphore>,
}

/// The identity of a store: its url without a path, and its settings, which may change while the process runs.
type Address = (String, Settings);

static SHARED: Mutex<Option<Arc<Shared>>> = Mutex::new(None);

pub(super) fn shared() -> Result<Arc<Shared>> {
    let mut slot = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(shared) = slot.as_ref().filter(|s| s.pid == std::process::id()) {
        return Ok(shared.clone());
    }
    // An error only means that another provider is already installed, which serves as well.
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

/// Runs a request to its end from any thread.
pub(super) fn wait<T: Send + 'static>(request: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let (send, receive) = sync_channel(1);
    shared()?.runtime.spawn(async move {
        let _ = send.send(request.await);
    });
    waiting(WaitsFor::Store, || receive.recv()).unwrap_or_else(|_| Err(Error::internal("a request was dropped")))
}

/// As [`wait`], calling `poll` ten times a second.
///
/// # Errors
/// Any error of the request or of `poll`.
pub(super) fn wait_polling<T: Send + 'static>(
    poll: &crate::poll::Poll,
    request: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (send, receive) = sync_channel(1);
    let task = shared()?.runtime.spawn(async move {
        let _ = send.send(request.await);
    });
    polled(poll, &receive).inspect_err(|_| task.abort())
}

/// Receives the result of a request, calling `poll` meanwhile.
pub(super) fn polled<T>(poll: &crate::poll::Poll, receive: &Receiver<Result<T>>) -> Result<T> {
    loop {
        match receive.recv_timeout(POLL_EVERY) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Timeout) => poll()?,
            Err(RecvTimeoutError::Disconnected) => return Err(Error::internal("a request was dropped")),
        }
    }
}

/// An object of a store with its pinned identity.
#[derive(Debug)]
pub(super) struct Remote(Arc<Pinned>);

#[derive(Debug)]
struct Pinned {
    store: Arc<Store>,
    path: Path,
    uri: Arc<str>,
    stat: Stat,
}

impl Remote {
    pub(super) fn open(uri: &Arc<str>, pinned: &Stat, allowed: &Allowed) -> Result<Self> {
        let (store, path) = parse(uri, allowed)?;
        Ok(Self(Arc::new(Pinned { store, path, uri: uri.clone(), stat: pinned.clone() })))
    }

    /// Starts to read a range; `done` is called on a thread of the runtime, and must not block.
    pub(super) fn fetch(&self, range: Range<u64>, done: Done) {
        let object = self.0.clone();
        match shared() {
            Ok(shared) => {
                let permits = shared.permits.clone();
                shared.runtime.spawn(async move {
                    let permit = permits.acquire_owned().await;
                    let bytes = object.store.get(&object.path, &object.uri, &object.stat, range).await;
                    drop(permit);
                    done(bytes);
                });
            }
            Err(e) => done(Err(e)),
        }
    }

    /// Starts to read a long range, of which at most `ahead` bytes wait for the reader.
    pub(super) fn stream(&self, range: Range<u64>, ahead: usize) -> Result<Body> {
        let (feed, body) = Body::new(range.clone(), ahead);
        let object = self.0.clone();
        shared()?.runtime.spawn(async move {
            object.store.stream(&object.path, &object.uri, &object.stat, range, &feed).await;
        });
        Ok(body)
    }
}

pub(super) fn stat(uri: &str, allowed: &Allowed) -> Result<Stat> {
    let (store, path) = parse(uri, allowed)?;
    let name = uri.to_owned();
    wait(async move { store.stat(&path, &name).await })
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

/// Splits a pattern of urls at the last slash before its first special character, and lists the objects below. Returns
/// at most the first `most` matching files.
pub(super) fn glob(pattern: &str, most: usize) -> Result<Vec<Found>> {
    let literal = &pattern[..pattern.find(['*', '?', '[']).unwrap_or(pattern.len())];
    let folder = &literal[..=literal.rfind('/').unwrap_or(0)];
    let wanted = glob::Pattern::new(pattern)
        .map_err(|e| Error::invalid(format!("not a pattern: {}", e.msg)).with("file", pattern))?;
    let found = below(folder, most, move |uri| wanted.matches_with(uri, super::find::matching::OPTIONS))?;
    if found.is_empty() {
        return Err(nothing_matches(pattern, folder, true));
    }
    Ok(found)
}

pub(super) fn walk(root: &str, wanted: &dyn Fn(&str) -> bool) -> Result<(Vec<String>, Vec<Found>)> {
    let root = format!("{}/", root.trim_end_matches('/'));
    let mut found = below(&root, usize::MAX, |_| true)?;
    let hidden = |f: &Found| f.uri[root.len().min(f.uri.len())..].split('/').any(|part| part.starts_with('.'));
    found.retain(|f| !hidden(f));
    let mut folders: Vec<String> = found
        .iter()
        .filter_map(|f| f.uri.get(root.len()..)?.split_once('/'))
        .map(|(class, _)| class.to_owned())
        .collect();
    folders.sort();
    folders.dedup();
    found.retain(|f| wanted(f.uri.rsplit('/').next().unwrap_or_default()));
    Ok((folders, found))
}

/// Lists the first `most` objects below a url that ends in a slash whose urls are wanted, sorted.
fn below(folder: &str, most: usize, wanted: impl Fn(&str) -> bool + Send + Sync + 'static) -> Result<Vec<Found>> {
    // A server of plain HTTP gets no list request: its connections may be guarded, and listing is not.
    let url = url::Url::parse(folder).map_err(|e| Error::invalid(e.to_string()).with("file", folder))?;
    if matches!(ObjectStoreScheme::parse(&as_s3(&url)), Ok((ObjectStoreScheme::Http, _))) {
        return Err(Error::invalid("an http server cannot list files").with("file", folder).hint("name the files"));
    }
    let (store, prefix) = parse(folder, &Allowed::everything())?;
    let name = folder.to_owned();
    let path = prefix.clone();
    let base = folder.trim_end_matches('/').to_owned();
    let uri_of = move |meta: &ObjectMeta| {
        let tail = meta.location.as_ref().strip_prefix(path.as_ref())?.trim_start_matches('/');
        let uri = match tail.contains(['%', '?', '#']) {
            true => format!("{base}/{}", tail.replace('%', "%25").replace('?', "%3F").replace('#', "%23")),
            false => format!("{base}/{tail}"),
        };
        Some(uri).filter(|uri| wanted(uri))
    };
    let uri_of = Arc::new(uri_of);
    let is_wanted = uri_of.clone();
    let metas = wait(async move {
        match most {
            usize::MAX => store.list(&prefix, &name).await,
            _ => store.list_first(&prefix, &name, most, &|meta| is_wanted(meta).is_some()).await,
        }
    })?;
    let found = metas.iter().filter_map(|meta| Some(Found { uri: uri_of(meta)?, stat: Some(identity(meta)) }));
    let mut found: Vec<Found> = found.collect();
    found.sort_by(|a, b| a.uri.cmp(&b.uri));
    Ok(without_markers(found))
}

/// Removes folder markers from a sorted list. A folder marker is an empty object whose name is the folder of other
/// objects. Some tools write them.
fn without_markers(found: Vec<Found>) -> Vec<Found> {
    let is_marker = |file: &Found| {
        if file.stat.as_ref().is_none_or(|stat| stat.size > 0) {
            return false;
        }
        let folder = format!("{}/", file.uri);
        let next = found.partition_point(|other| other.uri < folder);
        found.get(next).is_some_and(|other| other.uri.starts_with(&folder))
    };
    let markers: Vec<bool> = found.iter().map(is_marker).collect();
    found.into_iter().zip(markers).filter(|(_, is_marker)| !is_marker).map(|(file, _)| file).collect()
}

/// Returns the store of a url, created once per process for each set of rules, and the path in it.
#[expect(clippy::disallowed_methods, reason = "the settings of stores come from the environment")]
pub(super) fn parse(uri: &str, allowed: &Allowed) -> Result<(Arc<Store>, Path)> {
    let wrong = |e: &dyn std::fmt::Display| {
        Error::invalid(format!("not an address that can be read: {e}"))
            .with("file", uri)
            .hint("addresses begin with s3://, r2://, gs://, az://, hf://, http://, https:// or file://, or are paths")
    };
    let url = url::Url::parse(uri).map_err(|e| wrong(&e))?;
    let (scheme, path) = match url.scheme() {
        "hf" => (None, hub::path(&url).map_err(|e| wrong(&e))?),
        _ => {
            ObjectStoreScheme::parse(&as_s3(&url)).map(|(scheme, path)| (Some(scheme), path)).map_err(|e| wrong(&e))?
        }
    };
    // The hosts of other stores, and of their credentials, come from this process's own settings.
    let guard = (allowed.is_guarded() && scheme == Some(ObjectStoreScheme::Http)).then(|| Guard(allowed.clone()));
    let mut settings = settings(&url, uri)?;
    settings.extend(guard.iter().map(|guard| ("guard".to_owned(), guard.0.to_string())));
    let address = (format!("{}://{}", url.scheme(), url.authority()), settings);
    let shared = shared()?;
    let mut stores = shared.stores.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(store) = stores.get(&address) {
        return Ok((store.clone(), path));
    }
    let policy = Policy::from_settings(|name| std::env::var(name).ok())?;
    let budget = Arc::new(Budget::default());
    let _inside = shared.runtime.enter();
    let connector = Connector { budget: budget.clone(), guard };
    let connected = match &scheme {
        Some(scheme) => connect(scheme, &as_s3(&url), &address.1, connector),
        None => {
            Hub::connect(&address.1, &connector).map(|hub| Some((Arc::new(hub) as Arc<dyn ObjectStore>, None, None)))
        }
    };
    let (inner, blocks, levels) = connected
        .map_err(|e| refusal::unusable(uri, &address.1, &e))?
        .ok_or_else(|| wrong(&"there is no such kind of store"))?;
    let is_unsigned = scheme.is_some_and(|scheme| refusal::are_missing(&scheme, &address.1));
    let store = Arc::new(Store { inner, policy, budget, is_unsigned, blocks, levels });
    stores.insert(address, store.clone());
    Ok((store, path))
}

/// Returns an address of R2 as that of S3, whose protocol it has, and any other address as it is.
fn as_s3(url: &url::Url) -> url::Url {
    match url.as_str().strip_prefix("r2:") {
        Some(rest) => url::Url::parse(&format!("s3:{rest}")).unwrap_or_else(|_| url.clone()),
        None => url.clone(),
    }
}

/// A store, how large objects are written to it, if they can be, and how a folder of it is listed.
type Connected = (Arc<dyn ObjectStore>, Option<Blocks>, Option<Levels>);

/// Creates a store without retries and time limits, because `retry` handles both better; `None` for an unknown kind.
fn connect(
    scheme: &ObjectStoreScheme,
    url: &url::Url,
    settings: &[(String, String)],
    connector: Connector,
) -> object_store::Result<Option<Connected>> {
    let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    let client = ClientOptions::new().with_timeout_disabled();
    macro_rules! build {
        ($builder:ty, $url:expr) => {{
            let builder = <$builder>::new().with_url($url).with_retry(retry).with_client_options(client);
            let builder = settings.iter().fold(builder, |builder, (key, value)| match key.parse() {
                Ok(key) => builder.with_config(key, value),
                Err(_) => builder,
            });
            Arc::new(builder.with_http_connector(connector).build()?)
        }};
    }
    macro_rules! with_blocks {
        ($store:expr) => {{
            let store = $store;
            (store.clone() as Arc<dyn ObjectStore>, Some(Blocks(store.clone())), Some(Levels(store)))
        }};
    }
    Ok(Some(match scheme {
        ObjectStoreScheme::AmazonS3 => with_blocks!(build!(AmazonS3Builder, url.as_str())),
        ObjectStoreScheme::GoogleCloudStorage => with_blocks!(build!(GoogleCloudStorageBuilder, url.as_str())),
        ObjectStoreScheme::MicrosoftAzure => with_blocks!(build!(MicrosoftAzureBuilder, url.as_str())),
        ObjectStoreScheme::Http => (build!(HttpBuilder, &url[..url::Position::BeforePath]), None, None),
        _ => return Ok(None),
    }))
}
