//! A folder of a store that `save` writes to: files that appear whole, and small files that only their last writer
//! replaces.
//!
//! Unlike a [`super::Bucket`], this retries for long, because the data must be written. Invariant: only a writer that
//! knows the content of a small file can replace it, so that one of two writers gets an error.

use std::sync::Arc;

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use futures::{StreamExt, TryStreamExt};
use object_store::client::HttpError;
use object_store::path::Path;
use object_store::{
    GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion,
};

use super::Upload;
use super::remote::fetch::{Store, cause};
use super::remote::refusal;
use super::remote::{parse, wait_polling};
use crate::Allowed;
use crate::poll::Poll;

/// A folder of a store.
pub(crate) struct Target {
    store: Arc<Store>,
    base: Path,
    uri: String,
    poll: Poll,
}

/// A version of a small file.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    at: UpdateVersion,
    pub(crate) bytes: Bytes,
}

/// The result of a conditional write.
enum Put {
    Done(UpdateVersion),
    /// Another version is there.
    Other,
    /// The store does not support conditional writes.
    Unknown,
}

impl Target {
    /// Prepares to use the files below `uri`. Makes no request. A thread that waits calls `poll` ten times a second.
    ///
    /// # Errors
    /// Invalid when it is not the url of a writable store.
    pub(crate) fn open(uri: &str, poll: Poll) -> Result<Self> {
        let uri = uri.trim_end_matches('/').to_owned();
        let (store, base) = parse(&uri, &Allowed::everything())?;
        if store.blocks.is_none() {
            return Err(Error::invalid("a web server is read, not written to")
                .with("folder", &uri)
                .hint("save to a folder, or to an object store: s3://, gs://, az://"));
        }
        Ok(Self { store, base, uri, poll })
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the url of a file.
    pub(crate) fn named(&self, name: &str) -> String {
        format!("{}/{name}", self.uri)
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.base.clone(), |path, part| path.join(part))
    }

    /// Reads a small file; `None` when it does not exist.
    ///
    /// # Errors
    /// Data when it has more than `most` bytes; any error of the store.
    pub(crate) fn read(&self, name: &str, most: u64) -> Result<Option<Version>> {
        let (store, path, uri) = (self.store.clone(), self.path(name), self.named(name));
        wait_polling(&self.poll, async move { read(&store, &path, &uri, most).await })
    }

    /// Writes a small file in place of the known version (`None`: no file). Returns `None` when another version is
    /// there.
    ///
    /// # Errors
    /// Any error of the store.
    pub(crate) fn replace(&self, name: &str, bytes: Bytes, known: Option<&Version>) -> Result<Option<Version>> {
        let (store, path, uri) = (self.store.clone(), self.path(name), self.named(name));
        let known = known.cloned();
        wait_polling(&self.poll, async move {
            let replaced = replace(&store, &path, &uri, bytes, known).await;
            replaced.map_err(|e| refusal::unwritten(&uri, e))
        })
    }

    /// Writes a small file, and replaces any existing one.
    ///
    /// # Errors
    /// Any error of the store.
    pub(crate) fn put(&self, name: &str, bytes: Bytes) -> Result<()> {
        let (store, path, uri) = (self.store.clone(), self.path(name), self.named(name));
        wait_polling(&self.poll, async move {
            let put = store.tried(&uri, || store.inner.put(&path, bytes.clone().into())).await;
            put.map(|_| ()).map_err(|e| refusal::unwritten(&uri, e))
        })
    }

    /// Returns the first `most` files below one of its folders (`""`: all of it), with their names there and their
    /// sizes.
    ///
    /// # Errors
    /// NotFound when there is no such bucket; any other error of the store.
    pub(crate) fn list(&self, below: &str, most: usize) -> Result<Vec<(String, u64)>> {
        let (store, uri, base) = (self.store.clone(), self.named(below), self.base.clone());
        let path = if below.is_empty() { base.clone() } else { self.path(below) };
        let metas: Vec<ObjectMeta> = wait_polling(&self.poll, async move {
            match most {
                usize::MAX => store.list(&path, &uri).await,
                _ => store.list_first(&path, &uri, most, &|_| true).await,
            }
        })?;
        let named = |meta: ObjectMeta| {
            let name = meta.location.as_ref().strip_prefix(base.as_ref())?.trim_start_matches('/').to_owned();
            Some((name, meta.size))
        };
        Ok(metas.into_iter().filter_map(named).collect())
    }

    /// Reads the first bytes of files, `at_once` of them at a time.
    ///
    /// # Errors
    /// Any error of the store.
    pub(crate) fn beginnings(&self, names: &[String], bytes: u64, at_once: usize) -> Result<Vec<Bytes>> {
        let files: Vec<_> = names.iter().map(|name| (self.path(name), self.named(name))).collect();
        let store = self.store.clone();
        wait_polling(&self.poll, async move {
            let read = |(path, uri): (Path, String)| {
                let store = store.clone();
                async move { store.tried(&uri, || store.inner.get_range(&path, 0..bytes)).await }
            };
            futures::stream::iter(files.into_iter().map(read)).buffered(at_once).try_collect().await
        })
    }

    /// Removes a file, if it exists.
    ///
    /// # Errors
    /// Any error of the store.
    pub(crate) fn delete(&self, name: &str) -> Result<()> {
        let (store, path, uri) = (self.store.clone(), self.path(name), self.named(name));
        let deleted = wait_polling(&self.poll, async move {
            let deleted = store.tried(&uri, || store.inner.delete(&path)).await;
            deleted.map_err(|e| if e.kind() == ErrorKind::NotFound { e } else { refusal::unwritten(&uri, e) })
        });
        match deleted {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            deleted => deleted,
        }
    }

    /// Begins a file, which exists once it is finished.
    pub(crate) fn create(&self, name: &str) -> Upload {
        Upload::new(self.store.clone(), self.path(name), self.named(name), self.poll.clone())
    }
}

async fn read(store: &Store, path: &Path, uri: &str, most: u64) -> Result<Option<Version>> {
    let get = || async {
        let answer = match store.inner.get_opts(path, GetOptions::new()).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            answer => answer?,
        };
        let at = UpdateVersion { e_tag: answer.meta.e_tag.clone(), version: answer.meta.version.clone() };
        let size = answer.meta.size;
        let bytes = if size > most { Bytes::new() } else { answer.bytes().await? };
        Ok(Some((size, Version { at, bytes })))
    };
    match store.tried(uri, get).await? {
        None => Ok(None),
        Some((size, _)) if size > most => {
            Err(Error::data(format!("this has {size} bytes, and never more than {most}")).with("file", uri))
        }
        Some((_, version)) => Ok(Some(version)),
    }
}

async fn replace(
    store: &Store,
    path: &Path,
    uri: &str,
    bytes: Bytes,
    known: Option<Version>,
) -> Result<Option<Version>> {
    let mode = known.as_ref().map_or(PutMode::Create, |known| PutMode::Update(known.at.clone()));
    let put = || put(&*store.inner, path, bytes.clone().into(), mode.clone());
    let most = known.as_ref().map_or(0, |known| known.bytes.len()).max(bytes.len()) as u64 + 1;
    match store.tried(uri, put).await? {
        Put::Done(at) => Ok(Some(Version { at, bytes })),
        // An attempt whose answer was lost may have written it.
        Put::Other => Ok(read(store, path, uri, most.max(1 << 24)).await?.filter(|now| now.bytes == bytes)),
        Put::Unknown => {
            let now = read(store, path, uri, most.max(1 << 24)).await?;
            if now.map(|now| now.bytes) != known.map(|known| known.bytes) {
                return Ok(None);
            }
            let done = store.tried(uri, || store.inner.put(path, bytes.clone().into())).await?;
            Ok(Some(Version { at: done.into(), bytes }))
        }
    }
}

async fn put(store: &dyn ObjectStore, path: &Path, payload: PutPayload, mode: PutMode) -> object_store::Result<Put> {
    use object_store::Error as Refused;
    let is_update = matches!(mode, PutMode::Update(_));
    match store.put_opts(path, payload, PutOptions { mode, ..PutOptions::default() }).await {
        Ok(done) => Ok(Put::Done(done.into())),
        Err(Refused::AlreadyExists { .. } | Refused::Precondition { .. } | Refused::NotModified { .. }) => {
            Ok(Put::Other)
        }
        Err(Refused::NotFound { .. }) if is_update => Ok(Put::Other),
        Err(Refused::NotImplemented { .. } | Refused::NotSupported { .. }) => Ok(Put::Unknown),
        Err(e @ Refused::Generic { .. }) if cause::<HttpError>(&e).is_none() => Ok(Put::Unknown),
        Err(e) => Err(e),
    }
}
