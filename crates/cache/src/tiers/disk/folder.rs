//! The folder of blocks, which processes share: names, who is using what, and how a block gets there whole or not at all.
//!
//! ```text
//! lock                      held while somebody looks, makes room and says what it will write
//! <uuid>.<bytes>.tmp        a block that is being written; its writer holds a lock on it as long as it lives
//! <prefix>/<uuid>.arrow     a block of rows; never changed
//! <prefix>/<uuid>.pages     pages of remote files (`crate::pages`), added to by whoever holds a lock on it
//! <prefix>/in-use           locked, shared, by every process with a pipeline that has this prefix, or reads this source
//! claims/<page>             locked by the process that fetches a page
//! ```
//!
//! Invariants: the blocks, with those that are being written, take no more than the quota of whoever writes; what a crash leaves
//! is a temporary file, or a claim, whose lock nobody holds, which the next one to open the folder removes, and a file of pages
//! that is longer than what is in it, which that one cuts. Waits are bounded by
//! [`LOCK_WAIT`]. Locks are `flock`: they end with their process.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use forebay_core::Modes;
use rustix::fs::{FlockOperation, flock};

use crate::key::PrefixKey;
use crate::tiers::block::name::{Kind, Name};

/// How long the folder's lock is waited for. What is done under it takes milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How often it is tried.
const LOCK_STEP: Duration = Duration::from_millis(2);
const LOCK: &str = "lock";
const IN_USE: &str = "in-use";
const CLAIMS: &str = "claims";

/// The folder. See the module's documentation.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    root: PathBuf,
    modes: Modes,
}

/// The folder's lock, held.
#[derive(Debug)]
pub(crate) struct Locked {
    _file: File,
}

/// What is in the folder.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The blocks, the oldest first, and their bytes.
    pub(crate) blocks: Vec<(Name, u64)>,
    /// The bytes of blocks that others are writing.
    pub(crate) incoming: u64,
}

impl Folder {
    /// Opens the folder, makes it if needed, and removes what a crash left behind.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let folder = Self { root: root.to_owned(), modes: Modes::of(root)? };
        let lock = folder.lock()?;
        folder.clean(&lock)?;
        Ok(folder)
    }

    /// Looks at a folder that is there, and changes nothing.
    pub(crate) fn existing(root: &Path) -> io::Result<Self> {
        std::fs::read_dir(root)?;
        Ok(Self { root: root.to_owned(), modes: Modes::of(root)? })
    }

    /// Says whether a cache was ever opened here: its lock is there, or blocks that were copied are.
    pub(crate) fn is_cache(&self) -> io::Result<bool> {
        let own = |name: &str| name == LOCK || PrefixKey::parse(name).is_ok();
        for entry in std::fs::read_dir(&self.root)? {
            if entry?.file_name().to_str().is_some_and(own) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes the folder's lock.
    pub(crate) fn lock(&self) -> io::Result<Locked> {
        let file = self.modes.file_or_open(&self.root.join(LOCK))?;
        let until = Instant::now() + LOCK_WAIT;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Locked { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if Instant::now() < until => {
                    std::thread::sleep(LOCK_STEP);
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Returns what is in it.
    pub(crate) fn scan(&self) -> io::Result<Contents> {
        let mut contents = Contents::default();
        let mut blocks: Vec<(SystemTime, Name, u64)> = Vec::new();
        for entry in std::fs::read_dir(&self.root)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Ok(prefix) = PrefixKey::parse(name) {
                blocks.extend(self.blocks(prefix)?);
            } else if let Some(bytes) = incoming(name) {
                contents.incoming += bytes;
            }
        }
        // The time only says which is the oldest.
        blocks.sort();
        contents.blocks = blocks.into_iter().map(|(_, name, bytes)| (name, bytes)).collect();
        Ok(contents)
    }

    fn blocks(&self, prefix: PrefixKey) -> io::Result<Vec<(SystemTime, Name, u64)>> {
        let mut blocks = Vec::new();
        let entries = match std::fs::read_dir(self.root.join(prefix.to_string())) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(blocks),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let file = entry.file_name();
            let Some((kind, name)) = file.to_str().and_then(Kind::of) else { continue };
            // Another process may have removed it since.
            let Ok(metadata) = entry.metadata() else { continue };
            let name = Name { prefix, kind, name: name.to_owned() };
            blocks.push((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), name, metadata.len()));
        }
        Ok(blocks)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns where a block is.
    pub(crate) fn path(&self, name: &Name) -> PathBuf {
        self.root.join(name.prefix.to_string()).join(format!("{}.{}", name.name, name.kind.extension()))
    }

    /// Returns where claims are.
    pub(crate) fn claims(&self) -> PathBuf {
        self.root.join(CLAIMS)
    }

    /// Returns for whom what is made here is.
    pub(crate) fn modes(&self) -> Modes {
        self.modes
    }

    /// Returns when blocks last came or went, for each prefix: cheaper than to look at all of them.
    pub(crate) fn changes(&self) -> io::Result<Vec<(PrefixKey, SystemTime)>> {
        let mut changes = Vec::new();
        for entry in std::fs::read_dir(&self.root)? {
            let entry = entry?;
            let Some(prefix) = entry.file_name().to_str().and_then(|name| PrefixKey::parse(name).ok()) else {
                continue;
            };
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            changes.push((prefix, modified.unwrap_or(SystemTime::UNIX_EPOCH)));
        }
        changes.sort_unstable();
        Ok(changes)
    }

    /// Removes a block, if it is there.
    pub(crate) fn remove(&self, name: &Name) -> io::Result<()> {
        match std::fs::remove_file(self.path(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Says that this process uses a prefix, as long as the file is held.
    pub(crate) fn in_use(&self, prefix: PrefixKey, _lock: &Locked) -> io::Result<File> {
        let folder = self.root.join(prefix.to_string());
        self.modes.folder(&folder)?;
        let file = self.modes.file_or_open(&folder.join(IN_USE))?;
        flock(&file, FlockOperation::NonBlockingLockShared)?;
        Ok(file)
    }

    /// Says whether another process uses a prefix. `own` is what this one holds of it.
    pub(crate) fn is_used_by_others(&self, prefix: PrefixKey, own: Option<&File>, _lock: &Locked) -> bool {
        let opened;
        let file = match own {
            Some(file) => file,
            None => match File::options().write(true).open(self.root.join(prefix.to_string()).join(IN_USE)) {
                Ok(file) => {
                    opened = file;
                    &opened
                }
                Err(_) => return false,
            },
        };
        let alone = flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
        // A lock that could not be changed may be lost; whoever else would look holds the folder's lock, which is ours.
        let back = if own.is_some() { FlockOperation::NonBlockingLockShared } else { FlockOperation::Unlock };
        let _ = flock(file, back);
        !alone
    }

    /// Makes a file for a block of so many bytes.
    pub(crate) fn begin(&self, bytes: u64, _lock: &Locked) -> io::Result<Incoming> {
        let name = uuid::Uuid::new_v4().simple().to_string();
        let path = self.root.join(format!("{name}.{bytes}.tmp"));
        let file = self.modes.file(&path)?;
        let incoming = Incoming { folder: self.clone(), name, path, file };
        flock(&incoming.file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(incoming)
    }

    /// Removes temporary files and claims whose owners are gone, and prefixes that have no block and no user; cuts files of
    /// pages that nobody adds to any more.
    fn clean(&self, lock: &Locked) -> io::Result<()> {
        for entry in std::fs::read_dir(self.claims()).into_iter().flatten() {
            remove_unlocked(&entry?.path())?;
        }
        for entry in std::fs::read_dir(&self.root)? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let Some(name) = name.to_str() else { continue };
            if incoming(name).is_some() {
                remove_unlocked(&path)?;
            } else if let Ok(prefix) = PrefixKey::parse(name) {
                let pages = self.blocks(prefix)?.into_iter().filter(|(_, name, _)| name.kind == Kind::Pages);
                pages.for_each(|(_, name, _)| self.trim_pages(&name));
                if self.blocks(prefix)?.is_empty() && !self.is_used_by_others(prefix, None, lock) {
                    // Whatever else is there was not put there by us: then the folder stays.
                    let _ = std::fs::remove_file(path.join(IN_USE)).and_then(|()| std::fs::remove_dir(&path));
                }
            }
        }
        Ok(())
    }

    /// Cuts a file of pages to what is in it, if whoever wrote it is gone. What cannot be read is left to whoever reads it.
    fn trim_pages(&self, name: &Name) {
        let path = self.path(name);
        let Ok(file) = File::options().read(true).write(true).open(&path) else { return };
        let Ok(Some(end)) = crate::pages::format::unused_from(&file) else { return };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        let _ = if end == 0 { std::fs::remove_file(&path) } else { file.set_len(end) };
    }
}

/// Removes a file that nobody holds a lock on.
fn remove_unlocked(path: &Path) -> io::Result<()> {
    let Ok(file) = File::options().write(true).open(path) else { return Ok(()) };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => std::fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// Returns the bytes of a block that is being written, if that is such a file.
fn incoming(name: &str) -> Option<u64> {
    name.strip_suffix(".tmp")?.split_once('.')?.1.parse().ok()
}

/// A block on its way in. Dropped before its end, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Incoming {
    folder: Folder,
    name: String,
    path: PathBuf,
    file: File,
}

impl Incoming {
    /// Writes the block and puts it in its place.
    pub(crate) fn publish(mut self, prefix: PrefixKey, bytes: &[u8]) -> io::Result<Name> {
        self.file.write_all(bytes)?;
        self.file.sync_all()?;
        let name = self.place(prefix, Kind::Rows)?;
        File::open(self.folder.root.join(prefix.to_string()))?.sync_all()?;
        Ok(name)
    }

    /// Puts a file of pages in its place, `bytes` long, to be added to for as long as the file is held. Nothing is waited for
    /// until it is on the disk: what a loss of power leaves does not have its sum.
    pub(crate) fn grow(mut self, prefix: PrefixKey, header: &[u8], bytes: u64) -> io::Result<(Name, File)> {
        self.file.write_all(header)?;
        self.file.set_len(bytes)?;
        // Another handle of the same open file: the lock is of both, and the one here ends without letting it go.
        let file = self.file.try_clone()?;
        Ok((self.place(prefix, Kind::Pages)?, file))
    }

    fn place(&mut self, prefix: PrefixKey, kind: Kind) -> io::Result<Name> {
        let name = Name { prefix, kind, name: self.name.clone() };
        let path = self.folder.path(&name);
        path.parent().map_or(Ok(()), |parent| self.folder.modes.folder(parent))?;
        std::fs::rename(&self.path, path)?;
        Ok(name)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // After a rename there is nothing here to remove.
        let _ = std::fs::remove_file(&self.path);
    }
}
