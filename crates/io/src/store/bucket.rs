//! A folder of objects that are written once and whole, which machines share through a store.
//!
//! A source's reads must succeed, so they retry for long. A caller of a bucket can continue without it: each call ends
//! within its time limit, in any state of the store or the share. Invariants: an object exists as a whole or not at
//! all; a name is never used twice. So a plain put is as safe as a conditional put, and stores without conditional
//! puts get plain puts.

#![expect(clippy::disallowed_methods, reason = "each call is over in its time")]

use std::cmp::Ordering::{Equal, Greater, Less};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use object_store::client::HttpError;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use tokio::sync::Semaphore;

use super::remote::fetch::{Store, cause};
use super::remote::retry::Policy;
use super::remote::{Shared, parse, shared};
use super::share;
use crate::fail;

/// The most requests in flight, apart from those of sources.
const REQUESTS_MAX: usize = 32;
/// Attempts continue for this part of a call's time, and no longer: the caller can continue without the object.
const PATIENCE_PART: u32 = 4;
const PATIENCE_MAX: Duration = Duration::from_secs(2);
/// A folder of a store or of a shared file system, by its url. See the module's documentation.
#[derive(Debug)]
pub struct Bucket {
    store: Store,
    base: Path,
    uri: String,
    permits: Arc<Semaphore>,
    /// Whether the store supports conditional puts.
    conditional: AtomicBool,
    /// The folder, if it is in a file system.
    folder: Option<std::path::PathBuf>,
}

/// An object of a [`Bucket`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, below the bucket's url.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// When it was written, by the store's clock.
    pub modified: SystemTime,
}

/// A part of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The object's name.
    pub name: String,
    /// Its bytes.
    pub range: Range<u64>,
}

impl Bucket {
    /// Prepares to use the objects below `uri`: `s3://`, `gs://`, `az://`, or `file:///` for a mounted file system.
    /// Makes no request.
    ///
    /// # Errors
    /// Invalid when the url is not one of a store, or a setting of the store is invalid.
    pub fn open(uri: &str) -> Result<Self> {
        let uri = uri.trim_end_matches('/').to_owned();
        let (store, base, folder) = match uri.strip_prefix("file://") {
            Some(folder) => {
                let (store, base) = share::open(&uri, folder)?;
                (store, base, Some(folder.into()))
            }
            None => {
                let (store, base) = parse(&uri, &crate::Allowed::everything())?;
                ((*store).clone(), base, None)
            }
        };
        let permits = Arc::new(Semaphore::new(REQUESTS_MAX));
        Ok(Self { store, base, uri, permits, conditional: AtomicBool::new(true), folder })
    }

    /// Returns the url.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Lists the objects below one of its folders; an empty name means all.
    ///
    /// # Errors
    /// Any error of the store; Unavailable after `limit`.
    pub fn list(&self, below: &str, limit: Duration) -> Result<Vec<Entry>> {
        let (path, uri, base) = (self.path(below), self.named(below), self.base.clone());
        let store = Arc::new(self.within(limit));
        let metas = run(limit, &self.uri, async move { store.list(&path, &uri).await })?;
        let entry = |meta: object_store::ObjectMeta| {
            let name = meta.location.as_ref().strip_prefix(base.as_ref())?.trim_start_matches('/').to_owned();
            Some(Entry { name, bytes: meta.size, modified: meta.last_modified.into() })
        };
        Ok(metas.into_iter().filter_map(entry).collect())
    }

    /// Reads parts of objects in parallel, and returns them in the order of `wanted`. A part that has not arrived
    /// within `limit` is Unavailable.
    ///
    /// # Errors
    /// For each part the store's error: NotFound, or Data where the object ends before it.
    pub fn read(&self, wanted: &[Wanted], limit: Duration) -> Vec<Result<Bytes>> {
        let late = || Err(late(&self.uri, limit));
        let mut read: Vec<Result<Bytes>> = wanted.iter().map(|_| late()).collect();
        let shared = match shared() {
            Ok(shared) => shared,
            Err(e) => return wanted.iter().map(|_| Err(e.clone())).collect(),
        };
        let until = Instant::now() + limit;
        let (send, receive) = channel();
        let part = |(i, wanted): (usize, &Wanted)| self.request(&shared, wanted, limit, i, send.clone());
        let tasks: Vec<_> = wanted.iter().enumerate().map(part).collect();
        drop(send);
        for _ in wanted {
            match receive.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((i, bytes)) => read[i] = bytes,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        read
    }

    fn request(
        &self,
        shared: &Shared,
        wanted: &Wanted,
        limit: Duration,
        i: usize,
        send: std::sync::mpsc::Sender<(usize, Result<Bytes>)>,
    ) -> tokio::task::JoinHandle<()> {
        let (store, permits) = (self.within(limit), self.permits.clone());
        let (path, uri, range) = (self.path(&wanted.name), self.named(&wanted.name), wanted.range.clone());
        let file = self.folder.as_ref().map(|folder| folder.join(&wanted.name));
        shared.runtime.spawn(async move {
            let _permit = permits.acquire_owned().await;
            let part = match file {
                Some(file) => {
                    let range = range.clone();
                    let read = tokio::task::spawn_blocking(move || share::read(&file, range));
                    read.await.unwrap_or_else(|_| Err(Error::internal("a read was dropped")))
                }
                None => store.tried(&uri, || store.inner.get_range(&path, range.clone())).await,
            };
            let asked = range.end - range.start;
            let whole = |bytes: Bytes| match (bytes.len() as u64).cmp(&asked) {
                Equal => Ok(bytes),
                Less => Err(fail::truncated(&uri, "the object ends before the data that it should hold")),
                Greater => Err(Error::unavailable("the answer is longer than what was asked for").with("file", &uri)),
            };
            let _ = send.send((i, part.and_then(whole)));
        })
    }

    /// Writes a new object, whole.
    ///
    /// # Errors
    /// The store's error: PermissionDenied, Exhausted where a disk is full; Unavailable after `limit`.
    pub fn put(&self, name: &str, bytes: Bytes, limit: Duration) -> Result<()> {
        let store = self.within(limit);
        let (path, uri) = (self.path(name), self.named(name));
        let conditional = self.conditional.load(Ordering::Relaxed);
        let put = async move {
            let payload = PutPayload::from_bytes(bytes);
            store.tried(&uri, || put(&*store.inner, &path, payload.clone(), conditional)).await
        };
        let known = run(limit, &self.uri, put).map_err(|e| unwritten(e, &self.uri))?;
        self.conditional.fetch_and(known, Ordering::Relaxed);
        Ok(())
    }

    /// Writes an empty object: its modification time is its information.
    ///
    /// # Errors
    /// As [`Bucket::put`].
    pub fn touch(&self, name: &str, limit: Duration) -> Result<()> {
        let store = self.within(limit);
        let (path, uri) = (self.path(name), self.named(name));
        let put = async move { store.tried(&uri, || store.inner.put(&path, PutPayload::new())).await.map(|_| ()) };
        run(limit, &self.uri, put).map_err(|e| unwritten(e, &self.uri))
    }

    /// Removes an object, if it exists.
    ///
    /// # Errors
    /// As [`Bucket::put`].
    pub fn delete(&self, name: &str, limit: Duration) -> Result<()> {
        let store = self.within(limit);
        let (path, uri) = (self.path(name), self.named(name));
        let delete = async move { store.tried(&uri, || store.inner.delete(&path)).await };
        match run(limit, &self.uri, delete) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            done => done.map_err(|e| unwritten(e, &self.uri)),
        }
    }

    /// Removes incomplete files of dead writers in a file system, below `folder`; other stores have none.
    pub fn tidy(&self, folder: &str) {
        if let Some(root) = &self.folder {
            share::tidy(&root.join(folder));
        }
    }

    /// Returns the store, with retries limited for a call of `limit`.
    fn within(&self, limit: Duration) -> Store {
        let patience = (limit / PATIENCE_PART).min(PATIENCE_MAX);
        Store { policy: Policy { stall: limit, patience }, ..self.store.clone() }
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').filter(|part| !part.is_empty()).fold(self.base.clone(), |path, part| path.join(part))
    }

    fn named(&self, name: &str) -> String {
        format!("{}/{name}", self.uri)
    }
}

/// Puts an object; returns whether the store supports conditional puts.
async fn put(
    store: &dyn ObjectStore,
    path: &Path,
    payload: PutPayload,
    conditional: bool,
) -> object_store::Result<bool> {
    use object_store::Error as Refused;
    if conditional {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match store.put_opts(path, payload.clone(), options).await {
            Ok(_) => return Ok(true),
            // Names are unique: an earlier attempt, whose answer was lost, wrote it.
            Err(Refused::AlreadyExists { .. }) => return Ok(true),
            Err(Refused::NotImplemented { .. } | Refused::NotSupported { .. }) => {}
            Err(e @ Refused::Generic { .. }) if cause::<HttpError>(&e).is_none() => {}
            Err(e) => return Err(e),
        }
    }
    store.put(path, payload).await.map(|_| false)
}

/// Runs a request, for `limit` at most.
fn run<T: Send + 'static>(
    limit: Duration,
    uri: &str,
    request: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (send, receive) = channel();
    let task = shared()?.runtime.spawn(async move {
        let _ = send.send(request.await);
    });
    let answer = receive.recv_timeout(limit);
    task.abort();
    answer.unwrap_or_else(|_| Err(late(uri, limit)))
}

fn late(uri: &str, limit: Duration) -> Error {
    Error::unavailable(format!("the store did not answer in {limit:?}")).with("file", uri)
}

fn unwritten(e: Error, uri: &str) -> Error {
    match e.kind() {
        ErrorKind::PermissionDenied => {
            Error::new(ErrorKind::PermissionDenied, "not allowed to write to this store").with("file", uri).hint(
                "set credentials that may write (AWS_*, GOOGLE_*, AZURE_*), also where the workers run; reading goes on",
            )
        }
        _ => e,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn wanted(name: &str, range: Range<u64>) -> Wanted {
        Wanted { name: name.to_owned(), range }
    }

    #[test]
    fn what_is_put_is_listed_read_in_parts_and_deleted() {
        let folder = tempfile::tempdir().expect("a folder");
        let bucket = Bucket::open(&format!("file://{}/not/there yet/", folder.path().display())).expect("opens");
        assert_eq!(bucket.list("1", LIMIT).expect("lists"), []);
        bucket.put("1/ab/x.arrow", Bytes::from_static(b"0123456789"), LIMIT).expect("written");
        bucket.put("1/ab/x.arrow", Bytes::from_static(b"another"), LIMIT).expect("the name was given already");
        bucket.touch("1/ab/used", LIMIT).expect("written");
        bucket.touch("1/ab/used", LIMIT).expect("written again");
        let mut listed: Vec<_> =
            bucket.list("1/ab", LIMIT).expect("lists").into_iter().map(|e| (e.name, e.bytes)).collect();
        listed.sort();
        assert_eq!(listed, [("1/ab/used".to_owned(), 0), ("1/ab/x.arrow".to_owned(), 10)]);
        let parts = [wanted("1/ab/x.arrow", 7..10), wanted("1/ab/none", 0..1), wanted("1/ab/x.arrow", 8..12)];
        let read = bucket.read(&parts, LIMIT);
        assert_eq!(read[0].as_deref(), Ok(&b"789"[..]));
        let kinds: Vec<_> = read[1..].iter().map(|r| r.as_ref().expect_err("not there").kind()).collect();
        assert_eq!(kinds, [ErrorKind::NotFound, ErrorKind::Data]);
        bucket.delete("1/ab/x.arrow", LIMIT).expect("deleted");
        bucket.delete("1/ab/x.arrow", LIMIT).expect("nothing is there");
        assert_eq!(bucket.list("", LIMIT).expect("lists").len(), 1);
    }

    #[test]
    fn a_store_that_says_nothing_is_waited_for_no_longer_than_it_may_be() {
        let deaf = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}/share", deaf.local_addr().expect("bound"));
        let bucket = Bucket::open(&address).expect("opening sends no request");
        let limit = Duration::from_millis(50);
        let read = bucket.read(&[wanted("a", 0..1), wanted("b", 0..1)], limit);
        assert!(read.iter().all(|r| r.as_ref().is_err_and(|e| e.kind() == ErrorKind::Unavailable)), "{read:?}");
        assert_eq!(bucket.put("c", Bytes::new(), limit).expect_err("late").kind(), ErrorKind::Unavailable);
        for wrong in ["file://host/share", "ftp://host/share", "no url"] {
            assert_eq!(Bucket::open(wrong).expect_err(wrong).kind(), ErrorKind::Invalid, "{wrong}");
        }
    }
}
