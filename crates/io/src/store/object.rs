//! An open file, of this machine or of a store.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use forebay_core::{Error, Result, WaitsFor, waiting};

use super::near::{Arriving, Done, Fetch, NearFile, ReadThrough, RemoteFile};
use super::pinned::Stat;
use super::remote::body::Body;
use super::uri::is_remote;
use super::{local, remote};
use crate::Allowed;

/// An open file, with its pinned identity.
#[derive(Debug)]
pub(crate) struct Object {
    uri: Arc<str>,
    stat: Stat,
    place: Where,
}

#[derive(Debug)]
enum Where {
    Local(std::fs::File),
    Remote(remote::Remote),
    /// A remote file that is read through a cache of its bytes.
    Near(Arc<dyn NearFile>),
}

/// A requested range of bytes of a remote object.
pub(crate) struct Pending(Arriving);

impl Pending {
    /// Waits for the range, and copies it to `to`, which has the same length.
    pub(crate) fn fill(self, to: &mut [u8]) -> Result<()> {
        self.0(to)
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

/// Returns the function that fetches the ranges of a file that the cache lacks. It looks up the store only then,
/// because the cache often holds the whole file.
fn fetching(uri: Arc<str>, pinned: Stat, allowed: Allowed) -> Fetch {
    Arc::new(move |range, done: Done| match remote::Remote::open(&uri, &pinned, &allowed) {
        Ok(remote) => remote.fetch(range, done),
        Err(e) => done(Err(e)),
    })
}

/// Copies `bytes` to `to`, which must have the same length.
fn put(bytes: &[u8], to: &mut [u8]) -> Result<()> {
    if bytes.len() != to.len() {
        return Err(Error::internal(format!("{} bytes came where {} were asked for", bytes.len(), to.len())));
    }
    to.copy_from_slice(bytes);
    Ok(())
}

impl Object {
    /// Opens `uri`, which must be allowed and must still be the `pinned` file. A remote file is read through `near`, if
    /// that is given.
    ///
    /// # Errors
    /// PermissionDenied; Data when a local file has changed. A remote file is compared with `pinned` when it is read,
    /// which takes no further request.
    pub(crate) fn open(uri: &str, pinned: &Stat, near: Option<&dyn ReadThrough>, allowed: &Allowed) -> Result<Self> {
        allowed.check(uri)?;
        let name: Arc<str> = uri.into();
        let place = if is_remote(uri) {
            match near.filter(|_| pinned.tells_apart()) {
                None => Where::Remote(remote::Remote::open(&name, pinned, allowed)?),
                Some(near) => Where::Near(near.file(
                    RemoteFile { uri, size: pinned.size, identity: &pinned.to_string() },
                    fetching(name.clone(), pinned.clone(), allowed.clone()),
                )),
            }
        } else {
            let file = local::open(uri, pinned)?;
            allowed.check_open(uri, &file)?;
            Where::Local(file)
        };
        Ok(Self { uri: name, stat: pinned.clone(), place })
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    pub(crate) fn size(&self) -> u64 {
        self.stat.size
    }

    pub(crate) fn is_remote(&self) -> bool {
        !matches!(self.place, Where::Local(_))
    }

    /// Fills `to` from `offset`, and checks afterwards that the file is still the pinned one.
    pub(crate) fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        let read = self.read_part(offset, to);
        // A read beyond the end of an overwritten file must report that the file has changed.
        self.check_pinned()?;
        read
    }

    /// Checks that a local file is still the pinned one. Callers must not return bytes of the file before this check.
    ///
    /// # Errors
    /// Data when it has changed.
    pub(crate) fn check_pinned(&self) -> Result<()> {
        match &self.place {
            Where::Local(file) => local::check(file, &self.uri, &self.stat),
            Where::Remote(_) | Where::Near(_) => Ok(()),
        }
    }

    /// Fills `to` from `offset` without a check. The caller calls [`Object::check_pinned`] once after several such
    /// reads.
    pub(crate) fn read_part(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        self.check_range(offset, to.len() as u64)?;
        match &self.place {
            Where::Local(file) => std::os::unix::fs::FileExt::read_exact_at(file, to, offset)
                .map_err(|e| crate::fail::io(&self.uri, e).with("offset", offset)),
            _ if to.is_empty() => Ok(()),
            _ => self.request(offset, to.len()).map_or(Ok(()), |pending| pending.fill(to)),
        }
    }

    /// Requests a range ahead of its use; `None` for a local file, which is read without a wait.
    pub(crate) fn request(&self, offset: u64, len: usize) -> Option<Pending> {
        match &self.place {
            Where::Local(_) => None,
            Where::Remote(remote) => {
                let (send, receive) = sync_channel(1);
                remote.fetch(offset..offset + len as u64, Box::new(move |bytes| drop(send.send(bytes))));
                let dropped = || Err(Error::internal("a read was dropped"));
                Some(Pending(Box::new(move |to| {
                    let bytes = receive.try_recv().unwrap_or_else(|_| {
                        waiting(WaitsFor::Store, || receive.recv()).unwrap_or_else(|_| dropped())
                    })?;
                    put(&bytes, to)
                })))
            }
            Where::Near(near) => Some(Pending(near.request(offset..offset + len as u64))),
        }
    }

    /// Returns whether a read of this range waits for no store.
    pub(crate) fn holds(&self, range: Range<u64>) -> bool {
        match &self.place {
            Where::Local(_) => true,
            Where::Remote(_) => false,
            Where::Near(near) => near.holds(range),
        }
    }

    /// Requests a long range, of which at most `ahead` bytes wait for the reader; `None` for a local or cached file,
    /// whose reader requests short ranges instead.
    ///
    /// # Errors
    /// Exhausted when no request can be made. The returned body yields errors of the store.
    pub(crate) fn stream(&self, range: Range<u64>, ahead: usize) -> Result<Option<Body>> {
        match &self.place {
            Where::Remote(remote) => remote.stream(range, ahead).map(Some),
            Where::Local(_) | Where::Near(_) => Ok(None),
        }
    }

    /// Refuses a range beyond the pinned size. Only a corrupt index or file leads to such a range.
    pub(crate) fn check_range(&self, offset: u64, len: u64) -> Result<()> {
        if offset.checked_add(len).is_none_or(|end| end > self.stat.size) {
            return Err(crate::fail::truncated(&self.uri, "the file ends before the data that it should hold")
                .with("offset", offset));
        }
        Ok(())
    }
}
