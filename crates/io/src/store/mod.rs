//! Where bytes lie: this machine's files, or an object store. The seam is [`Object`] and the three functions beside it.
//!
//! Invariant: an [`Object`] is the file that was pinned, or reading it is an error: a remote one is asked for by its etag, and a
//! local one is looked at again once its bytes are read, before anyone has them.

mod body;
mod braces;
mod bucket;
pub(crate) mod decoded;
mod fetch;
mod folders;
mod forward;
mod guard;
mod http;
pub(crate) mod levels;
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

/// What tells one content of a file from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nanoseconds since 1970.
    Mtime(i64),
    /// What the object store says.
    Etag(Box<str>),
}

/// A file as it was pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) size: u64,
    pub(crate) mark: Mark,
}

impl Stat {
    /// Says whether it tells this content of a remote file from another that is there later. A server that gives neither an etag
    /// nor a time leaves the size alone.
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

/// One file that a pattern stands for; what the listing already told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) uri: String,
    pub(crate) stat: Option<Stat>,
}

/// Says whether `uri` is not a path of this machine.
pub fn is_remote(uri: &str) -> bool {
    uri.split_once("://").is_some_and(|(scheme, _)| scheme != "file" && !scheme.contains('/'))
}

/// Returns the path of a local uri.
pub(crate) fn local_path(uri: &str) -> &str {
    uri.strip_prefix("file://").unwrap_or(uri)
}

/// Writes a pattern so that it means the same in another folder.
pub(crate) fn absolute(pattern: &str) -> Result<String> {
    if is_remote(pattern) { Ok(pattern.to_owned()) } else { local::absolute(local_path(pattern)) }
}

/// What a folder stands for: all files below it but those whose names begin with a dot or `_`, as what other tools write beside the data do.
const FILES_OF_FOLDER: &str = "**/[!_]*";

/// Returns a pattern of the files of a folder; any other path as it is. A folder of a store is a path that ends in a slash.
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

/// Returns the files that `patterns` stand for: patterns in the user's order, the files of one glob sorted.
///
/// # Errors
/// NotFound for a glob without a file, naming it and the folder it looked in.
pub(crate) fn list(patterns: &[String]) -> Result<Vec<Found>> {
    list_first(patterns, usize::MAX)
}

/// As [`list`], but of each glob of a store only the first `most` files.
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
        // The braces in a folder's name are its own.
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

/// Returns every file below a folder whose name is `wanted`, sorted by path, and every direct sub-folder's name, sorted.
pub(crate) fn walk(root: &str, wanted: &dyn Fn(&str) -> bool) -> Result<(Vec<String>, Vec<Found>)> {
    if is_remote(root) { remote::walk(root, wanted) } else { local::walk(local_path(root), wanted) }
}

/// Says whether there is a file of this machine.
pub(crate) fn is_file(uri: &str) -> bool {
    !is_remote(uri) && local::is_file(local_path(uri))
}

fn is_glob(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Says how a glob without a file should be mended.
fn nothing_matches(pattern: &str, folder: &str, exists: bool) -> Error {
    let hint = if exists { "check the pattern: * does not cross folders, ** does" } else { "there is no such folder" };
    Error::new(ErrorKind::NotFound, "no file matches this pattern")
        .with("file", pattern)
        .with("folder", folder)
        .hint(hint)
}

/// Asks for size and identity.
pub(crate) fn stat(uri: &str, allowed: &Allowed) -> Result<Stat> {
    if is_remote(uri) { remote::stat(uri, allowed) } else { local::stat(uri) }
}

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

    /// Says whether reading a range waits for no store.
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
