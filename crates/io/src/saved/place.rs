//! The destination of a save: a local folder, or a folder of a store. Both hold the same files.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};

use super::Poll;
use super::head::{HEAD_BYTES_MAX, HEADS, Head, head_of, is_ours, only_head};
use super::shards::INDEX;
use super::sink::{Sink, UNFINISHED, publish, unwritten};
use crate::fail;
use crate::store::{Target, Version, is_remote, local_path};

/// The number of files of a non-empty store folder that are checked for names of `save`.
const LOOKED_AT: usize = 1000;
/// Parallel requests for files of a store.
const AT_ONCE: usize = 16;
/// A writer to a local folder holds a lock on this file.
const LOCK: &str = "_lock";

/// A folder, here or in a store.
pub(super) enum Place {
    Here(PathBuf),
    Store(Target),
}

/// The last seen version of a small file: a writer that replaces it must know it.
pub(super) enum Known {
    Here,
    Store(Option<Version>),
}

/// The content of a saved folder.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The heads of its writers.
    pub heads: Vec<Head>,
    folder: String,
}

impl Saved {
    /// Returns patterns of the counted files, in order. Files without rows are left out where others have some.
    pub fn patterns(&self) -> Vec<String> {
        let folder = match is_remote(&self.folder) {
            true => self.folder.clone(),
            false => glob::Pattern::escape(&self.folder),
        };
        let has_rows = self.heads.iter().any(|head| head.so_far.rows > 0);
        let heads = self.heads.iter().filter(|head| !has_rows || head.so_far.rows > 0);
        heads.filter_map(|head| Some(format!("{folder}/{}", head.parts()?))).collect()
    }

    /// Returns the number of files and rows so far.
    pub fn so_far(&self) -> (u64, u64) {
        self.heads.iter().fold((0, 0), |(parts, rows), head| (parts + head.so_far.parts, rows + head.so_far.rows))
    }

    /// Says whether every writer exists and is complete.
    pub fn is_complete(&self) -> bool {
        let writers = self.heads.first().and_then(|head| head.consumer).map_or(1, |(_, n)| n);
        self.heads.len() as u64 == writers && self.heads.iter().all(|head| head.complete.is_some())
    }
}

impl Place {
    /// Creates a place. Makes no request.
    ///
    /// # Errors
    /// Invalid when the url is not that of a store.
    pub(super) fn of(folder: &str, poll: Poll) -> Result<Self> {
        if is_remote(folder) {
            return Ok(Self::Store(Target::open(folder, poll)?));
        }
        Ok(Self::Here(local_path(folder).into()))
    }

    /// Returns the name of one of its files for messages.
    pub(super) fn named(&self, name: &str) -> String {
        match self {
            Place::Here(folder) => folder.join(name).display().to_string(),
            Place::Store(target) => target.named(name),
        }
    }

    /// Returns its name for messages.
    pub(super) fn name(&self) -> String {
        match self {
            Place::Here(folder) => folder.display().to_string(),
            Place::Store(target) => target.uri().to_owned(),
        }
    }

    /// Creates the folder, where that is needed.
    pub(super) fn make(&self, has_heads: bool) -> Result<()> {
        let Place::Here(folder) = self else { return Ok(()) };
        let made = if has_heads { folder.join(HEADS) } else { folder.clone() };
        fs::create_dir_all(&made).map_err(|e| unwritten(&made, &e))
    }

    /// Takes the lock, which ends with this process; `None` for a store.
    ///
    /// # Errors
    /// Conflict when another process holds it.
    pub(super) fn lock(&self, consumer: Option<(u64, u64)>) -> Result<Option<File>> {
        let Place::Here(folder) = self else { return Ok(None) };
        let path = match consumer {
            None => folder.join(LOCK),
            Some(of) => folder.join(format!("{}.lock", head_of(of))),
        };
        let file = File::create(&path).map_err(|e| unwritten(&path, &e))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => {
                Err(Error::new(ErrorKind::Conflict, "another process saves to this folder")
                    .with("folder", folder.display())
                    .hint("wait for it, or save to another folder"))
            }
            Err(fs::TryLockError::Error(e)) => Err(unwritten(&path, &e)),
        }
    }

    /// Reads a head; `None` when there is none.
    ///
    /// # Errors
    /// Data when it is not written by `save`; Version; Invalid where the folder is a file.
    pub(super) fn head(&self, file: &str) -> Result<(Option<Head>, Known)> {
        let (json, known) = match self {
            Place::Here(folder) => (read_here(folder, file)?.map(Bytes::from), Known::Here),
            Place::Store(target) => {
                let found = target.read(file, HEAD_BYTES_MAX)?;
                (found.as_ref().map(|found| found.bytes.clone()), Known::Store(found))
            }
        };
        let head = json.map(|json| Head::parse(&json, &self.named(file))).transpose()?;
        Ok((head, known))
    }

    /// Replaces the known version of a head.
    ///
    /// # Errors
    /// Conflict when another process has written one meanwhile; any error of the disk or the store.
    pub(super) fn write_head(&self, head: &Head, known: &mut Known) -> Result<()> {
        let (file, json) = (head.file(), head.json()?);
        match (self, known) {
            (Place::Here(folder), _) => write_here(folder, &file, &json),
            (Place::Store(target), Known::Store(known)) => {
                *known = Some(target.replace(&file, json.into(), known.as_ref())?.ok_or_else(|| self.taken_over())?);
                Ok(())
            }
            (Place::Store(_), Known::Here) => Err(Error::internal("a head of a store without its version")),
        }
    }

    /// Checks that the known version of a head is still current, before a file is published.
    ///
    /// # Errors
    /// Conflict when another process has written one meanwhile.
    pub(super) fn check_head(&self, file: &str, known: &Known) -> Result<()> {
        let (Place::Store(target), Known::Store(known)) = (self, known) else { return Ok(()) };
        let now = target.read(file, HEAD_BYTES_MAX)?.map(|now| now.bytes);
        if now == known.as_ref().map(|known| known.bytes.clone()) { Ok(()) } else { Err(self.taken_over()) }
    }

    fn taken_over(&self) -> Error {
        Error::new(ErrorKind::Conflict, "another process saves here since this one began")
            .with("folder", self.name())
            .hint("let that one finish; what it finds complete it does not write again")
    }

    /// Writes a small file, and replaces any existing one.
    pub(super) fn put(&self, file: &str, bytes: Vec<u8>) -> Result<()> {
        match self {
            Place::Here(folder) => write_here(folder, file, &bytes),
            Place::Store(target) => target.put(file, bytes.into()),
        }
    }

    /// Begins a file of rows.
    pub(super) fn create(&self, file: &str) -> Result<Sink> {
        match self {
            Place::Here(folder) => Sink::beside(folder.join(file)),
            Place::Store(target) => Ok(Sink::Upload(Box::new(target.create(file)))),
        }
    }

    /// Refuses a place that holds other files: saved files are recognized by their names, and `overwrite` removes them.
    ///
    /// # Errors
    /// Conflict, with an example; NotFound when there is no such bucket.
    pub(super) fn refuse_strange(&self) -> Result<()> {
        let strange = match self {
            Place::Here(folder) => {
                let entries = fs::read_dir(folder).map_err(|e| unwritten(folder, &e))?.flatten();
                let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
                names.find(|name| name != LOCK && !is_ours(name))
            }
            Place::Store(target) => {
                target.list("", LOOKED_AT)?.into_iter().map(|(name, _)| name).find(|name| !is_ours(name))
            }
        };
        strange.map_or(Ok(()), |strange| {
            Err(Error::new(ErrorKind::Conflict, "this folder is not empty, and nothing was saved in it")
                .with("folder", self.name())
                .with("for example", strange)
                .hint("save to a new folder"))
        })
    }

    /// Returns the names of the existing heads of several writers.
    fn heads(&self) -> Result<Vec<String>> {
        let mut found: Vec<String> = match self {
            Place::Here(folder) => {
                let entries = fs::read_dir(folder.join(HEADS)).into_iter().flatten().flatten();
                entries.map(|entry| format!("{HEADS}/{}", entry.file_name().to_string_lossy())).collect()
            }
            Place::Store(target) => target.list(HEADS, usize::MAX)?.into_iter().map(|(name, _)| name).collect(),
        };
        found.retain(|name| name.ends_with(".json"));
        found.sort();
        Ok(found)
    }

    /// Refuses a place with the heads of a different number of writers.
    ///
    /// # Errors
    /// Conflict.
    pub(super) fn refuse_others(&self, head: &Head) -> Result<()> {
        let ends = head.consumer.map(|(_, n)| format!("-of-{n:05}.json"));
        let others = self.heads()?.into_iter().find(|name| ends.as_ref().is_none_or(|ends| !name.ends_with(ends)));
        let only = match head.consumer {
            Some(_) if self.head(only_head())?.0.is_some() => Some(only_head().to_owned()),
            _ => None,
        };
        others.or(only).map_or(Ok(()), |other| {
            let message = "this folder is of other writers: one, or another number of them";
            Err(Error::new(ErrorKind::Conflict, message)
                .with("folder", self.name())
                .with("for example", other)
                .hint("save with the consumers= that it was begun with, or to another folder"))
        })
    }

    /// Removes the files of one writer: everything, if it is the only one. Removes first the files that declare the
    /// others: the index, if `has_index`, and the head.
    pub(super) fn remove(&self, head: &Head, has_index: bool) -> Result<()> {
        let is_its = |name: &str| match head.consumer {
            None => is_ours(name),
            Some((i, n)) => name.starts_with(&format!("part-{i:05}-of-{n:05}-")) && is_ours(name),
        };
        match self {
            Place::Here(folder) => {
                remove_here(folder, &|name| has_index && name == INDEX)?;
                remove_here(folder, &|name| name == head.file())?;
                remove_here(folder, &|name| name != HEADS && is_its(name))?;
                let heads = folder.join(HEADS);
                match head.consumer {
                    None if heads.is_dir() => fs::remove_dir_all(&heads).map_err(|e| unwritten(&heads, &e)),
                    None => Ok(()),
                    Some(of) => {
                        let path = folder.join(head_of(of));
                        remove_here(&heads, &|name| path.ends_with(name))
                    }
                }
            }
            Place::Store(target) => {
                if has_index {
                    target.delete(INDEX)?;
                }
                target.delete(&head.file())?;
                let files = target.list("", usize::MAX)?.into_iter().map(|(name, _)| name);
                files.filter(|name| is_its(name)).try_for_each(|name| target.delete(&name))
            }
        }
    }

    /// Removes incomplete files; a store keeps none.
    pub(super) fn tidy(&self, head: &Head) -> Result<()> {
        let Place::Here(folder) = self else { return Ok(()) };
        let is_its = |name: &str| match head.consumer {
            None => is_ours(name),
            Some((i, n)) => name.starts_with(&format!("part-{i:05}-of-{n:05}-")),
        };
        remove_here(folder, &|name| name.ends_with(UNFINISHED) && is_its(name))
    }

    /// Returns the size and the first `bytes` bytes of each of these files.
    ///
    /// # Errors
    /// NotFound when one does not exist.
    pub(super) fn beginnings(&self, files: &[String], bytes: usize) -> Result<Vec<(u64, Bytes)>> {
        match self {
            Place::Here(folder) => files.iter().map(|file| beginning_here(&folder.join(file), bytes)).collect(),
            Place::Store(target) => {
                let sizes: std::collections::HashMap<_, _> = target.list("", usize::MAX)?.into_iter().collect();
                let first = target.beginnings(files, bytes as u64, AT_ONCE)?;
                let sized = files.iter().zip(first).map(|(file, first)| {
                    Ok((*sizes.get(file).ok_or_else(|| fail::missing(&self.named(file)))?, first))
                });
                sized.collect()
            }
        }
    }
}

/// Opens a folder that `save` wrote; `None` when nothing was saved there. An error of `poll` ends the wait.
///
/// # Errors
/// Data when it is not such a folder, or files are missing; Version; Conflict when several saves are mixed in it.
pub fn open(folder: &str, poll: Poll) -> Result<Option<Saved>> {
    let place = Place::of(folder, poll)?;
    let mut heads: Vec<Head> = place.head(only_head())?.0.into_iter().collect();
    if heads.is_empty() {
        let found = place.heads()?.into_iter().map(|file| Ok(place.head(&file)?.0));
        heads = found.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    }
    let Some(first) = heads.first() else { return Ok(None) };
    let others = |head: &&Head| first.consumer.map(|of| of.1) != head.consumer.map(|of| of.1);
    if let Some(other) = heads.iter().find(|head| others(head) || first.differs(head).is_some()) {
        let (is, was) = first.differs(other).unwrap_or_else(|| ("one number of writers".into(), "another".into()));
        return Err(Error::new(ErrorKind::Conflict, format!("two saves are mixed here: {is}, and {was}"))
            .with("file", place.named(&other.file()))
            .hint("save again to an empty folder, each consumer with the same pipeline, seed and options"));
    }
    if let Place::Here(folder) = &place {
        for head in &heads {
            let mut parts = (0..head.so_far.parts).map(|number| folder.join(head.part(number)));
            if let Some((is, missing)) = parts.by_ref().enumerate().find(|(_, path)| !path.is_file()) {
                let was = head.so_far.parts;
                return Err(Error::data(format!("{is} of {was} parts are there, without a gap"))
                    .with("file", place.named(&head.file()))
                    .with("next", missing.display())
                    .hint("save it again, to another folder or with overwrite=True"));
            }
        }
    }
    Ok(Some(Saved { heads, folder: place.name() }))
}

fn read_here(folder: &Path, file: &str) -> Result<Option<Vec<u8>>> {
    let path = folder.join(file);
    let read = || {
        let mut json = Vec::new();
        File::open(&path)?.take(HEAD_BYTES_MAX).read_to_end(&mut json)?;
        Ok(json)
    };
    match read() {
        Ok(json) => Ok(Some(json)),
        Err(e) if io::Error::kind(&e) == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            Err(Error::invalid("this is a file, not a folder that save() wrote")
                .with("file", folder.display())
                .hint("load() takes the folder; from_arrow() reads files by themselves"))
        }
        Err(e) => Err(fail::io(&path.to_string_lossy(), e)),
    }
}

/// Writes a file into a folder atomically.
fn write_here(folder: &Path, file: &str, bytes: &[u8]) -> Result<()> {
    let (path, new) = (folder.join(file), folder.join(format!("{file}{UNFINISHED}")));
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|e| unwritten(&new, &e))?;
    publish(&new, &path)
}

fn remove_here(folder: &Path, which: &dyn Fn(&str) -> bool) -> Result<()> {
    let entries = fs::read_dir(folder).map_err(|e| unwritten(folder, &e))?;
    for entry in entries.flatten().filter(|entry| which(&entry.file_name().to_string_lossy())) {
        fs::remove_file(entry.path()).map_err(|e| unwritten(&entry.path(), &e))?;
    }
    Ok(())
}

fn beginning_here(path: &Path, bytes: usize) -> Result<(u64, Bytes)> {
    let read = || {
        let mut file = File::open(path)?;
        let mut first = vec![0; bytes];
        file.read_exact(&mut first)?;
        Ok((file.metadata()?.len(), first.into()))
    };
    read().map_err(|e| fail::io(&path.to_string_lossy(), e))
}
