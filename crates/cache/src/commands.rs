//! Lists, verifies and evicts blocks of a folder or a store, and pages in a folder, whether or not a service uses them:
//! `forebay cache ls|stats|verify|evict`.
//!
//! Invariants: a folder that is not a cache, and an object that is not a block, are not touched. Only [`evict`] changes
//! anything, and it deletes only blocks.

#![expect(clippy::disallowed_methods, reason = "whether a prefix is in use depends on the age of its mark")]

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use forebay_core::{Error, ErrorKind, Result};

use crate::key::PrefixKey;
use crate::pages::format;
use crate::tiers::block::check::check;
use crate::tiers::block::format::{BlockHeader, open};
use crate::tiers::block::layout::Layout;
use crate::tiers::block::name::{Kind, Name};
use crate::tiers::block::read_at::Trouble;
use crate::tiers::disk::folder::{Folder, Locked};
use crate::tiers::remote::blocks::Part;
use crate::tiers::remote::headers::read_headers;
use crate::tiers::remote::names::{mark_of, object_of};
use crate::tiers::remote::range_buffer::trouble;
use crate::tiers::store::Store;
use crate::tiers::store::account::{Contents, is_in_use};

/// The stored blocks of a prefix, or of a source of remote files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixListing {
    /// Its key.
    pub key: PrefixKey,
    /// Whether it is a source: it has pages of files, and no rows.
    pub is_source: bool,
    /// Its description, for messages; empty when no block could be read.
    pub what: String,
    /// The number of blocks, readable or not.
    pub blocks: u64,
    /// Bytes of the blocks.
    pub bytes: u64,
    /// Rows.
    pub rows: u64,
    /// Rows that a filter removed.
    pub filtered_out: u64,
    /// Pages of remote files.
    pub pages: u64,
    /// Blocks that could not be read.
    pub unreadable: u64,
    /// Blocks of another version, which are not touched.
    pub others: u64,
    /// Whether a process uses it now; `None` where this is unknown, in a read-only folder. In a store, whether a
    /// process used it within the last hour.
    pub in_use: Option<bool>,
}

/// A block that is not used, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadBlock {
    /// The file, or the object.
    pub block: String,
    /// Why it is not used.
    pub why: String,
    /// The block's bytes changed after they were written. The process that reads the block next deletes it.
    pub broken: bool,
}

/// The result of [`verify`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Blocks without a wrong row.
    pub blocks: u64,
    /// Their rows.
    pub rows: u64,
    /// Their pages of remote files.
    pub pages: u64,
    /// The blocks that are not used.
    pub bad: Vec<BadBlock>,
}

/// Where rows are kept.
#[derive(Debug, Clone)]
pub enum CacheLocation {
    /// A folder on a disk of this machine.
    Folder(PathBuf),
    /// A store that machines share.
    Store(Arc<dyn Store>),
}

impl fmt::Display for CacheLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheLocation::Folder(folder) => write!(f, "{}", folder.display()),
            CacheLocation::Store(store) => f.write_str(store.uri()),
        }
    }
}

/// The time limit of one call to a store.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The number of blocks of a store whose headers are read together.
const HEADS_MAX: usize = 64;

/// The place that was listed.
enum Blocks<'a> {
    Folder { folder: Folder, locked: Option<Locked> },
    Store { store: &'a dyn Store, used: HashMap<PrefixKey, SystemTime> },
}

impl<'a> Blocks<'a> {
    /// Lists the blocks and their bytes.
    fn of(kept: &'a CacheLocation) -> Result<(Self, Vec<(Name, u64)>)> {
        match kept {
            CacheLocation::Folder(root) => {
                let at = |e: std::io::Error| {
                    let message = format!("cannot read the cache in {kept}: {e}");
                    Error::new(Error::from(e).kind(), message).hint("name the folder that `--cache` names")
                };
                let folder = Folder::existing(root).map_err(at)?;
                if !folder.is_cache().map_err(at)? {
                    return Err(Error::new(ErrorKind::NotFound, format!("{kept} is a folder, and no cache"))
                        .hint("name the folder that `--cache` names"));
                }
                let blocks = folder.scan().map_err(at)?.blocks;
                let locked = folder.lock().ok();
                Ok((Self::Folder { folder, locked }, blocks))
            }
            CacheLocation::Store(store) => {
                let contents = Contents::new(store.list(&crate::version::FORMAT.to_string(), ANSWER_MAX)?);
                let mut blocks = contents.blocks;
                blocks.sort_by(|a, b| (a.2, &a.0).cmp(&(b.2, &b.0)));
                let blocks = blocks.into_iter().map(|(name, bytes, _)| (name, bytes)).collect();
                Ok((Self::Store { store: &**store, used: contents.used }, blocks))
            }
        }
    }

    /// Opens blocks.
    fn read_headers(&self, blocks: &[(Name, u64)]) -> Vec<Result<Opened, Trouble>> {
        match self {
            Self::Folder { folder, .. } => blocks.iter().map(|(name, _)| opened_in(folder, name)).collect(),
            Self::Store { store, .. } => {
                let objects: Vec<_> = blocks.iter().map(|(name, bytes)| (object_of(name), *bytes)).collect();
                let read_headers =
                    objects.chunks(HEADS_MAX).flat_map(|objects| read_headers(*store, objects, ANSWER_MAX));
                let of_prefix = |((name, _), header): (&(Name, u64), Result<_, _>)| of_prefix(name, header?);
                blocks.iter().zip(read_headers).map(of_prefix).map(|header| header.map(Opened::of_rows)).collect()
            }
        }
    }

    /// Reads every row of a block, or every page; returns the number of both.
    fn check(&self, name: &Name, bytes: u64) -> Result<(u64, u64), Trouble> {
        let rows = match self {
            Self::Folder { folder, .. } if name.kind == Kind::Pages => {
                let (file, _) = source_head(folder, name)?;
                return Ok((0, format::check(&file)?));
            }
            Self::Folder { folder, .. } => {
                let file = File::open(folder.path(name))?;
                let (header, layout) = of_prefix(name, open(&file)?)?;
                check(&file, &header, &layout)
            }
            Self::Store { store, .. } => {
                let whole = Part { name: object_of(name), range: 0..bytes };
                let read = store.read(&[whole], ANSWER_MAX).pop().unwrap_or_else(|| Err(Error::internal("no answer")));
                let bytes = read.map_err(|e| trouble(&e))?;
                let (header, layout) = of_prefix(name, open(&bytes[..])?)?;
                check(&bytes[..], &header, &layout)
            }
        };
        Ok((rows?, 0))
    }

    /// Says whether a prefix is in use, where this is known.
    fn is_in_use(&self, prefix: PrefixKey) -> Option<bool> {
        match self {
            Self::Folder { folder, locked } => {
                locked.as_ref().map(|locked| folder.is_used_by_others(prefix, None, locked))
            }
            Self::Store { used, .. } => Some(used.get(&prefix).is_some_and(|&at| is_in_use(at, SystemTime::now()))),
        }
    }

    fn remove(&self, name: &Name) -> Result<()> {
        match self {
            Self::Folder { folder, .. } => Ok(folder.remove(name)?),
            Self::Store { store, .. } => store.delete(&object_of(name), ANSWER_MAX),
        }
    }

    /// Returns the path, or the object, of a block.
    fn place(&self, name: &Name) -> String {
        match self {
            Self::Folder { folder, .. } => folder.path(name).display().to_string(),
            Self::Store { store, .. } => format!("{}/{}", store.uri(), object_of(name)),
        }
    }
}

/// The content of the header of a block, or of a file of pages.
struct Opened {
    what: String,
    rows: u64,
    filtered_out: u64,
    pages: u64,
}

impl Opened {
    fn of_rows((header, layout): (BlockHeader, Layout)) -> Self {
        let count = layout.keys.len() as u64;
        let (rows, filtered_out) = if header.filtered_out { (0, count) } else { (count, 0) };
        Self { what: header.what, rows, filtered_out, pages: 0 }
    }
}

fn opened_in(folder: &Folder, name: &Name) -> Result<Opened, Trouble> {
    match name.kind {
        Kind::Rows => Ok(Opened::of_rows(of_prefix(name, open(&File::open(folder.path(name))?)?)?)),
        Kind::Pages => {
            let (file, header) = source_head(folder, name)?;
            Ok(Opened { what: header.what, rows: 0, filtered_out: 0, pages: format::count(&file)? })
        }
    }
}

/// Reads the header of a file of pages.
fn source_head(folder: &Folder, name: &Name) -> Result<(File, format::FileHeader), Trouble> {
    let file = File::open(folder.path(name))?;
    let header = format::FileHeader::read(&file)?;
    if header.source != name.prefix {
        return Err(Trouble::Broken("it is not of its folder's source".to_owned()));
    }
    Ok((file, header))
}

fn of_prefix(name: &Name, (header, layout): (BlockHeader, Layout)) -> Result<(BlockHeader, Layout), Trouble> {
    match header.prefix == name.prefix {
        true => Ok((header, layout)),
        false => Err(Trouble::Broken("it is not of its folder's prefix".to_owned())),
    }
}

/// Lists the stored prefixes and sources, by key.
///
/// # Errors
/// The error of the system or the store where there is no such folder, or it cannot be read; NotFound where the folder
/// is not a cache.
pub fn list(kept: &CacheLocation) -> Result<Vec<PrefixListing>> {
    let (place, blocks) = Blocks::of(kept)?;
    let mut prefixes: BTreeMap<PrefixKey, PrefixListing> = BTreeMap::new();
    for ((name, bytes), opened) in blocks.iter().zip(place.read_headers(&blocks)) {
        let key = name.prefix;
        let new = || {
            let (is_source, what, in_use) = (name.kind == Kind::Pages, String::new(), place.is_in_use(key));
            let (rows, filtered_out, pages, unreadable, others) = (0, 0, 0, 0, 0);
            PrefixListing {
                key,
                is_source,
                what,
                blocks: 0,
                bytes: 0,
                rows,
                filtered_out,
                pages,
                unreadable,
                others,
                in_use,
            }
        };
        let listed = prefixes.entry(key).or_insert_with(new);
        (listed.blocks, listed.bytes) = (listed.blocks + 1, listed.bytes + bytes);
        match opened {
            Ok(opened) => {
                listed.rows += opened.rows;
                listed.filtered_out += opened.filtered_out;
                listed.pages += opened.pages;
                listed.what = opened.what;
            }
            Err(Trouble::Gone) => {}
            Err(Trouble::OtherFormat(_)) => listed.others += 1,
            Err(_) => listed.unreadable += 1,
        }
    }
    Ok(prefixes.into_values().collect())
}

/// Reads every row of every block, and every page, and checks its sum. Changes nothing. Calls `progress` with the bytes
/// of the blocks that are done, and of all blocks.
///
/// # Errors
/// As [`list`].
pub fn verify(kept: &CacheLocation, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
    let (place, blocks) = Blocks::of(kept)?;
    let mut verified = VerifyReport::default();
    let (mut done, all) = (0, blocks.iter().map(|(_, bytes)| bytes).sum());
    for (name, bytes) in blocks {
        progress(done, all);
        done += bytes;
        let (why, broken) = match place.check(&name, bytes) {
            Ok((rows, pages)) => {
                verified.blocks += 1;
                (verified.rows, verified.pages) = (verified.rows + rows, verified.pages + pages);
                continue;
            }
            Err(Trouble::Gone) => continue,
            Err(Trouble::Later(e)) => (e.to_string(), false),
            Err(Trouble::OtherFormat(format)) => {
                (format!("it has format {format}, not {}", crate::version::FORMAT), false)
            }
            Err(Trouble::Broken(why)) => (why, true),
        };
        verified.bad.push(BadBlock { block: place.place(&name), why, broken });
    }
    Ok(verified)
}

/// Deletes the blocks of a prefix, or the pages of a source, or all. A process that uses them computes or fetches them
/// again. Returns the bytes that were freed.
///
/// # Errors
/// As [`list`], and the error of the system or the store where a block cannot be deleted.
pub fn evict(kept: &CacheLocation, prefix: Option<PrefixKey>) -> Result<u64> {
    let (place, blocks) = Blocks::of(kept)?;
    let mut freed = 0;
    for (name, bytes) in blocks.iter().filter(|(name, _)| prefix.is_none_or(|prefix| name.prefix == prefix)) {
        place.remove(name).map_err(|e| e.with("block", place.place(name)))?;
        freed += bytes;
    }
    if let Blocks::Store { store, used } = &place {
        for key in used.keys().filter(|key| prefix.is_none_or(|prefix| **key == prefix)) {
            store.delete(&mark_of(*key), ANSWER_MAX)?;
        }
    }
    Ok(freed)
}
