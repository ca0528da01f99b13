//! A folder of blocks, and of pages of remote files, looked at from outside, whether or not a service uses it: `forebay cache ls|stats|verify|evict`.
//!
//! Invariants: nothing is done to a folder that is no cache; only [`evict`] changes one, and it removes blocks alone.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use forebay_core::{Error, ErrorKind, Result};
use forebay_data::Memory;

use crate::PrefixKey;
use crate::disk::{Folder, Head, Kind, Layout, Name, ReadAt, Reading, Trouble, Want, are_right, open};
use crate::source;
use crate::table::{Shape, shapes};

/// What a folder has of a prefix, or of a source of remote files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// What it is found by.
    pub key: PrefixKey,
    /// Whether it is a source: there are pages of its files, and no rows.
    pub is_source: bool,
    /// What it is, for people; empty when no block could be read.
    pub what: String,
    /// Blocks, those that could not be read too.
    pub blocks: u64,
    /// Bytes of the blocks.
    pub bytes: u64,
    /// Rows.
    pub rows: u64,
    /// Rows that a filter removed.
    pub without: u64,
    /// Pages of remote files.
    pub pages: u64,
    /// Blocks that could not be read.
    pub unreadable: u64,
    /// Blocks of another version, which are left alone.
    pub others: u64,
    /// Whether a process uses it now; `None` where that cannot be found out, in a folder that may only be read.
    pub in_use: Option<bool>,
}

/// What is wrong with a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The file.
    pub block: PathBuf,
    /// Why it is not used.
    pub why: String,
    /// It is not what was written: it is removed when somebody reads it.
    pub broken: bool,
}

/// What [`verify`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Blocks whose every row is right.
    pub blocks: u64,
    /// Their rows.
    pub rows: u64,
    /// Their pages of remote files.
    pub pages: u64,
    /// The other blocks.
    pub bad: Vec<Verdict>,
}

/// The rows that are checked at once hold about so many bytes.
const STEP_BYTES: usize = 16 << 20;

fn at(folder: &Path, e: std::io::Error) -> Error {
    let message = format!("cannot read the cache in {}: {e}", folder.display());
    Error::new(Error::from(e).kind(), message).hint("name the folder that `--cache` names")
}

fn blocks(root: &Path) -> Result<(Folder, Vec<(Name, u64)>)> {
    let folder = Folder::existing(root).map_err(|e| at(root, e))?;
    if !folder.is_cache().map_err(|e| at(root, e))? {
        return Err(Error::new(ErrorKind::NotFound, format!("{} is a folder, and no cache", root.display()))
            .hint("name the folder that `--cache` names"));
    }
    let contents = folder.scan().map_err(|e| at(root, e))?;
    Ok((folder, contents.blocks))
}

/// Reads the head of a file of pages.
fn source_head(folder: &Folder, name: &Name) -> Result<(File, source::Head), Trouble> {
    let file = File::open(folder.path(name))?;
    let head = source::Head::read(&file)?;
    if head.source != name.prefix {
        return Err(Trouble::Broken("it is not of its folder's source".to_owned()));
    }
    Ok((file, head))
}

fn head(folder: &Folder, name: &Name) -> Result<(File, Head, Layout), Trouble> {
    let file = File::open(folder.path(name))?;
    let (head, layout) = open(&file)?;
    if head.prefix != name.prefix {
        return Err(Trouble::Broken("it is not of its folder's prefix".to_owned()));
    }
    Ok((file, head, layout))
}

/// Lists the prefixes and the sources of a folder, by key.
///
/// # Errors
/// What the system says when there is no such folder, or it cannot be read; not found when it is no cache.
pub fn list(folder: &Path) -> Result<Vec<Listed>> {
    let (folder, blocks) = blocks(folder)?;
    let locked = folder.lock().ok();
    let mut prefixes: BTreeMap<PrefixKey, Listed> = BTreeMap::new();
    for (name, bytes) in blocks {
        let key = name.prefix;
        let new = || {
            let in_use = locked.as_ref().map(|locked| folder.is_used_by_others(key, None, locked));
            let what = String::new();
            let is_source = name.kind == Kind::Pages;
            let (rows, without, pages, unreadable, others) = (0, 0, 0, 0, 0);
            Listed { key, is_source, what, blocks: 0, bytes: 0, rows, without, pages, unreadable, others, in_use }
        };
        let listed = prefixes.entry(key).or_insert_with(new);
        (listed.blocks, listed.bytes) = (listed.blocks + 1, listed.bytes + bytes);
        let counted = match name.kind {
            Kind::Rows => head(&folder, &name).map(|(_, head, layout)| {
                let rows = if head.without { &mut listed.without } else { &mut listed.rows };
                *rows += layout.keys.len() as u64;
                listed.what = head.what;
            }),
            Kind::Pages => source_head(&folder, &name).and_then(|(file, head)| {
                listed.pages += source::count(&file)?;
                listed.what = head.what;
                Ok(())
            }),
        };
        match counted {
            Ok(()) => {}
            Err(Trouble::Gone) => {}
            Err(Trouble::OtherFormat(_)) => listed.others += 1,
            Err(_) => listed.unreadable += 1,
        }
    }
    Ok(prefixes.into_values().collect())
}

/// Reads every row of every block, and every page, and checks its sum. Changes nothing. `progress` is told the bytes of the blocks that are done,
/// and of all.
///
/// # Errors
/// As [`list`].
pub fn verify(folder: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Verified> {
    let (folder, blocks) = blocks(folder)?;
    let mut verified = Verified::default();
    let (mut done, all) = (0, blocks.iter().map(|(_, bytes)| bytes).sum());
    for (name, bytes) in blocks {
        progress(done, all);
        done += bytes;
        let checked = match name.kind {
            Kind::Rows => head(&folder, &name).and_then(|(file, head, layout)| Ok((check(&file, &head, &layout)?, 0))),
            Kind::Pages => source_head(&folder, &name).and_then(|(file, _)| Ok((0, source::check(&file)?))),
        };
        let (why, broken) = match checked {
            Ok((rows, pages)) => {
                verified.blocks += 1;
                (verified.rows, verified.pages) = (verified.rows + rows, verified.pages + pages);
                continue;
            }
            Err(Trouble::Gone) => continue,
            Err(Trouble::Later(e)) => (e.to_string(), false),
            Err(Trouble::OtherFormat(format)) => (format!("it has format {format}, not {}", crate::FORMAT), false),
            Err(Trouble::Broken(why)) => (why, true),
        };
        verified.bad.push(Verdict { block: folder.path(&name), why, broken });
    }
    Ok(verified)
}

/// Checks every row of a block; returns how many there are.
pub(crate) fn check(file: &(impl ReadAt + ?Sized), head: &Head, layout: &Layout) -> Result<u64, Trouble> {
    let fields = if head.without { &[] } else { head.schema.fields() };
    let shapes: Vec<Shape> = fields.iter().flat_map(shapes).collect();
    let mut rows = 0;
    while rows < layout.keys.len() {
        let step = layout.step(rows, STEP_BYTES);
        let key = |row: usize| layout.keys[row];
        let wants: Vec<Want> = (0..step).map(|i| Want { slot: i, row: rows + i, key: key(rows + i) }).collect();
        let mut reading = Reading::new(&shapes, &[(layout, &wants)], step, &Memory::default());
        reading.read(file, layout, &wants)?;
        if !are_right(&reading.finish(), layout, &wants) {
            return Err(Trouble::Broken("a row's sum is wrong".to_owned()));
        }
        rows += step;
    }
    Ok(rows as u64)
}

/// Removes the blocks of a prefix or the pages of a source, or all. Whoever uses them computes or fetches them again. Returns the bytes that are free now.
///
/// # Errors
/// As [`list`], and what the system says when a block cannot be removed.
pub fn evict(folder: &Path, prefix: Option<PrefixKey>) -> Result<u64> {
    let root = folder;
    let (folder, blocks) = blocks(folder)?;
    let mut freed = 0;
    for (name, bytes) in blocks.iter().filter(|(name, _)| prefix.is_none_or(|prefix| name.prefix == prefix)) {
        folder.remove(name).map_err(|e| at(root, e))?;
        freed += bytes;
    }
    Ok(freed)
}
