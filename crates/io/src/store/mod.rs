//! Access to bytes: local files, or an object store. The interface is [`Object`] and the three functions beside it.
//!
//! Invariant: an [`Object`] is the pinned file, or reading it is an error: requests for a remote one compare its etag,
//! and a local one is checked again after its bytes are read, before they are returned.

mod body;
mod braces;
mod bucket;
pub(crate) mod decoded;
mod fetch;
mod folders;
mod forward;
mod guard;
mod http;
mod listing;
mod local;
mod matching;
mod near;
mod refusal;
mod remote;
mod retry;
mod share;
mod target;
mod upload;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use forebay_core::{Error, ErrorKind, Result};

use crate::Allowed;

pub(crate) use body::Body;
pub(crate) use braces::expand;
pub use bucket::{Bucket, Entry, Wanted};
pub(crate) use forward::{CodecOf, Forward};
pub(crate) use matching::only_name;
pub use near::{Arriving, Done, Fetch, NearFile, ReadThrough, RemoteFile};
pub(crate) use target::{Target, Version};
pub(crate) use upload::Upload;

/// The mark that distinguishes one content of a file from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nanoseconds since 1970.
    Mtime(i64),
    /// The etag of the object store.
    Etag(Box<str>),
}

/// A file as it was pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) size: u64,
    pub(crate) mark: Mark,
}

impl Stat {
    /// Says whether the mark distinguishes this content of a remote file from a later one. A server that sends neither
    /// an etag nor a time leaves only the size.
    fn tells_apart(&self) -> bool {
        self.mark != Mark::Mtime(0)
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, ", self.size)?;
        match &self.mark {
            Mark::Mtime(ns) => write!(f, "mtime {}.{:09}", ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000)),
            Mark::Etag(tag) => write!(f, "etag {tag}"),
        }
    }
}

/// One file that matches a pattern, with its identity if the listing has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) uri: String,
    pub(crate) stat: Option<Stat>,
}

/// Says whether `uri` is not a local path.
pub fn is_remote(uri: &str) -> bool {
    uri.split_once("://").is_some_and(|(scheme, _)| scheme != "file" && !scheme.contains('/'))
}

/// Returns the path of a local uri.
pub(crate) fn local_path(uri: &str) -> &str {
    uri.strip_prefix("file://").unwrap_or(uri)
}

/// Returns a pattern that means the same in another working folder.
pub(crate) fn absolute(pattern: &str) -> Result<String> {
    if is_remote(pattern) { Ok(pattern.to_owned()) } else { local::absolute(local_path(pattern)) }
}

/// The pattern of a folder's files: all files below it except names that begin with a dot or `_`, such as the files
/// that other tools write beside the data.
const FILES_OF_FOLDER: &str = "**/[!_]*";

/// Returns a pattern of the files of a folder; any other path unchanged. A folder of a store is a path that ends in a
/// slash.
pub(crate) fn files_of(path: String) -> String {
    let is_http = path.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"));
    match is_remote(&path) {
        true if path.ends_with('/') && !is_http => path + FILES_OF_FOLDER,
        false if std::path::Path::new(local_path(&path)).is_dir() => {
            format!("{}/{FILES_OF_FOLDER}", glob::Pattern::escape(local_path(&path).trim_end_matches('/')))
        }
        _ => path,
    }
}

/// Returns the files that match `patterns`: patterns in the user's order, the files of one glob sorted.
///
/// # Errors
/// NotFound for a glob without a file, naming it and its folder.
pub(crate) fn list(patterns: &[String]) -> Result<Vec<Found>> {
    list_first(patterns, usize::MAX)
}

/// As [`list`], but for each glob of a store only the first `most` files.
///
/// # Errors
/// As [`list`].
pub(crate) fn list_first(patterns: &[String], most: usize) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for pattern in patterns {
        if !is_remote(pattern) && local::is_file(local_path(pattern)) {
            found.push(Found { uri: local_path(pattern).to_owned(), stat: None });
            continue;
        }
        // Braces in a folder's existing name are literal.
        if !is_remote(pattern)
            && pattern.ends_with(FILES_OF_FOLDER)
            && let Ok(files) = local::glob(local_path(pattern))
        {
            found.extend(files);
            continue;
        }
        for path in braces::expand(pattern)? {
            match (is_remote(&path), is_glob(&path)) {
                (true, _) if path.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http")) => {
                    found.push(remote::plain_http(path)?)
                }
                (true, true) => found.extend(remote::glob(&path, most)?),
                (true, false) => found.push(Found { uri: path, stat: None }),
                (false, true) => found.extend(local::glob(local_path(&path))?),
                (false, false) => found.push(Found { uri: local_path(&path).to_owned(), stat: None }),
            }
        }
    }
    if found.is_empty() {
        return Err(Error::invalid("no path is given").hint("name at least one file"));
    }
    Ok(found)
}

/// Returns every file below a folder whose name is `wanted`, sorted by path, and every direct sub-folder's name,
/// sorted.
pub(crate) fn walk(root: &str, wanted: &dyn Fn(&str) -> bool) -> Result<(Vec<String>, Vec<Found>)> {
    if is_remote(root) { remote::walk(root, wanted) } else { local::walk(local_path(root), wanted) }
}

/// Says whether a local file exists.
pub(crate) fn is_file(uri: &str) -> bool {
    !is_remote(uri) && local::is_file(local_path(uri))
}

fn is_glob(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Returns the hint for a glob without a file.
fn nothing_matches(pattern: &str, folder: &str, exists: bool) -> Error {
    let hint = if exists { "check the pattern: * does not cross folders, ** does" } else { "there is no such folder" };
    Error::new(ErrorKind::NotFound, "no file matches this pattern")
        .with("file", pattern)
        .with("folder", folder)
        .hint(hint)
}

/// Requests size and identity.
pub(crate) fn stat(uri: &str, allowed: &Allowed) -> Result<Stat> {
    if is_remote(uri) { remote::stat(uri, allowed) } else { local::stat(uri) }
}

/// An open file.
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
    /// Remote, with some bytes cached nearer.
    Near(Arc<dyn NearFile>),
}

/// A requested range of bytes of a remote object.
pub(crate) struct Pending(Arriving);

impl Pending {
    /// Waits for the bytes, and fills `to`, which has the same length.
    pub(crate) fn fill(self, to: &mut [u8]) -> Result<()> {
        self.0(to)
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

/// Returns the function that fetches missing ranges of a file. It looks up the store only when called, because most
/// ranges are cached.
fn fetching(uri: Arc<str>, pinned: Stat, allowed: Allowed) -> Fetch {
    Arc::new(move |range, done: Done| match remote::Remote::open(&uri, &pinned, &allowed) {
        Ok(remote) => remote.fetch(range, done),
        Err(e) => done(Err(e)),
    })
}

/// Fills `to` with all of `bytes`.
fn put(bytes: &[u8], to: &mut [u8]) -> Result<()> {
    if bytes.len() != to.len() {
        return Err(Error::internal(format!("{} bytes came where {} were asked for", bytes.len(), to.len())));
    }
    to.copy_from_slice(bytes);
    Ok(())
}

impl Object {
    /// Opens `uri`, which must be allowed, and still match `pinned`. A remote file is read through `near`, if that is
    /// given.
    ///
    /// # Errors
    /// PermissionDenied; Data when a local file has changed. A remote file is compared when it is read, which needs no
    /// extra request.
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

    /// Fills `to` from `offset`, if the file still matches its pinned identity afterwards.
    pub(crate) fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        let read = self.read_part(offset, to);
        // A file that is being overwritten may end too early: report the change.
        self.check_pinned()?;
        read
    }

    /// Checks that a local file still matches its pinned identity. Bytes that were read before this check must not be
    /// returned until it succeeds.
    ///
    /// # Errors
    /// Data when it has changed.
    pub(crate) fn check_pinned(&self) -> Result<()> {
        match &self.place {
            Where::Local(file) => local::check(file, &self.uri, &self.stat),
            Where::Remote(_) | Where::Near(_) => Ok(()),
        }
    }

    /// Fills `to` from `offset`, as one of several reads that are followed by one call of [`Object::check_pinned`].
    pub(crate) fn read_part(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        self.check_range(offset, to.len() as u64)?;
        match &self.place {
            Where::Local(file) => std::os::unix::fs::FileExt::read_exact_at(file, to, offset)
                .map_err(|e| crate::fail::io(&self.uri, e).with("offset", offset)),
            _ if to.is_empty() => Ok(()),
            _ => self.request(offset, to.len()).map_or(Ok(()), |pending| pending.fill(to)),
        }
    }

    /// Requests a range ahead; `None` for a local file, which needs no wait.
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

    /// Requests a long range, of which at most `ahead` bytes wait for the reader; `None` where the reader must request
    /// short ranges instead.
    ///
    /// # Errors
    /// Exhausted when no request can be made; errors of the store come with the bytes.
    pub(crate) fn stream(&self, range: Range<u64>, ahead: usize) -> Result<Option<Body>> {
        match &self.place {
            Where::Remote(remote) => remote.stream(range, ahead).map(Some),
            Where::Local(_) | Where::Near(_) => Ok(None),
        }
    }

    /// Refuses a range beyond the pinned size, which only a corrupt index or file can request.
    pub(crate) fn check_range(&self, offset: u64, len: u64) -> Result<()> {
        if offset.checked_add(len).is_none_or(|end| end > self.stat.size) {
            return Err(crate::fail::truncated(&self.uri, "the file ends before the data that it should hold")
                .with("offset", offset));
        }
        Ok(())
    }
}
