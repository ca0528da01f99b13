//! A file that is open, here or in a store.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use forebay_core::{Error, Result};

use super::body::Body;
use super::near::{Arriving, Done, Fetch, NearFile, ReadThrough, RemoteFile};
use super::pinned::Stat;
use super::uri::is_remote;
use super::{local, remote};
use crate::Allowed;

/// A file that is open.
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
    /// Remote, and bytes of it are kept nearer.
    Near(Arc<dyn NearFile>),
}

/// A range of bytes of a remote object, on its way.
pub(crate) struct Pending(Arriving);

impl Pending {
    /// Waits for it, and puts it into its place, which is as long.
    pub(crate) fn fill(self, to: &mut [u8]) -> Result<()> {
        self.0(to)
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

/// Returns how ranges of a file are fetched that are not here. Its store is looked up then: most files are here.
fn fetching(uri: Arc<str>, pinned: Stat, allowed: Allowed) -> Fetch {
    Arc::new(move |range, done: Done| match remote::Remote::open(&uri, &pinned, &allowed) {
        Ok(remote) => remote.fetch(range, done),
        Err(e) => done(Err(e)),
    })
}

/// Fills a place with all of `bytes`.
fn put(bytes: &[u8], to: &mut [u8]) -> Result<()> {
    if bytes.len() != to.len() {
        return Err(Error::internal(format!("{} bytes came where {} were asked for", bytes.len(), to.len())));
    }
    to.copy_from_slice(bytes);
    Ok(())
}

impl Object {
    /// Opens `uri`, which must be allowed, and still be what `pinned` says. A remote one is read through `near`, if that is given.
    ///
    /// # Errors
    /// PermissionDenied; Data when a local file has changed; a remote one is compared when it is read, which costs nothing more.
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

    /// Fills `to` from `offset`, if the file is still what was pinned once that is done.
    pub(crate) fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        let read = self.read_part(offset, to);
        // A file that is written over may well end too early: say why.
        self.check_pinned()?;
        read
    }

    /// Says whether a local file is still what was pinned. Nobody may be given what was read before that is known.
    ///
    /// # Errors
    /// Data when it has changed.
    pub(crate) fn check_pinned(&self) -> Result<()> {
        match &self.place {
            Where::Local(file) => local::check(file, &self.uri, &self.stat),
            Where::Remote(_) | Where::Near(_) => Ok(()),
        }
    }

    /// Fills `to` from `offset`, as one of several reads after which [`Object::check_pinned`] is asked once.
    pub(crate) fn read_part(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        self.check_range(offset, to.len() as u64)?;
        match &self.place {
            Where::Local(file) => std::os::unix::fs::FileExt::read_exact_at(file, to, offset)
                .map_err(|e| crate::fail::io(&self.uri, e).with("offset", offset)),
            _ if to.is_empty() => Ok(()),
            _ => self.request(offset, to.len()).map_or(Ok(()), |pending| pending.fill(to)),
        }
    }

    /// Asks for a range ahead of time; `None` for a local file, where there is nothing to wait for.
    pub(crate) fn request(&self, offset: u64, len: usize) -> Option<Pending> {
        match &self.place {
            Where::Local(_) => None,
            Where::Remote(remote) => {
                let (send, receive) = sync_channel(1);
                remote.fetch(offset..offset + len as u64, Box::new(move |bytes| drop(send.send(bytes))));
                let dropped = || Err(Error::internal("a read was dropped"));
                Some(Pending(Box::new(move |to| {
                    let bytes = receive.recv().unwrap_or_else(|_| dropped())?;
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

    /// Asks for a long range, of which at most `ahead` bytes wait for the reader; `None` where short ranges are to be asked for instead.
    ///
    /// # Errors
    /// Exhausted when no request can be made; what the store says comes with the bytes.
    pub(crate) fn stream(&self, range: Range<u64>, ahead: usize) -> Result<Option<Body>> {
        match &self.place {
            Where::Remote(remote) => remote.stream(range, ahead).map(Some),
            Where::Local(_) | Where::Near(_) => Ok(None),
        }
    }

    /// Refuses a range that the pinned size does not hold, which only a corrupt index or file can ask for.
    pub(crate) fn check_range(&self, offset: u64, len: u64) -> Result<()> {
        if offset.checked_add(len).is_none_or(|end| end > self.stat.size) {
            return Err(crate::fail::truncated(&self.uri, "the file ends before the data that it should hold")
                .with("offset", offset));
        }
        Ok(())
    }
}
