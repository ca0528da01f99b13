//! The folder of blocks, which processes share: names, locks, and the publication of blocks as a whole.
//!
//! ```text
//! lock                      held while a process scans, makes room and announces its next block
//! <uuid>.<bytes>.tmp        a block that is being written; locked by its writer as long as that lives
//! <prefix>/<uuid>.arrow     a block of rows; never changed
//! <prefix>/<uuid>.pages     pages of remote files (`crate::pages`), appended to by the process that locks it
//! <prefix>/in-use           locked, shared, by every process that uses this prefix, or reads this source
//! claims/<page>             locked by the process that fetches a page
//! ```
//!
//! Invariants: the blocks, complete or being written, never exceed the quota of the process that writes. A
//! crash leaves a temporary file, or a claim, that is not locked, and a file of pages that is longer than its content.
//! The next process that opens the folder deletes the former and truncates the latter. Waits are bounded by
//! [`LOCK_WAIT`]. Locks are `flock`: they end with their process.

#![expect(
    clippy::disallowed_methods,
    reason = "the lock of a folder is waited for within a bound; files have random names until they are whole"
)]

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use forebay_core::Modes;
use rustix::fs::{FlockOperation, flock};

use crate::key::PrefixKey;
use crate::tiers::block::name::{Kind, Name};

/// The longest wait for the folder's lock. Work under it takes milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// The interval of attempts.
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

/// The folder's lock, while it is held.
#[derive(Debug)]
pub(crate) struct Locked {
    _file: File,
}

/// The content of the folder.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The blocks, the oldest first, and their bytes.
    pub(crate) blocks: Vec<(Name, u64)>,
    /// The bytes of blocks that others are writing.
    pub(crate) incoming: u64,
}

impl Folder {
    /// Opens the folder, creates it if needed, and removes the remains of a crash.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let folder = Self { root: root.to_owned(), modes: Modes::of(root)? };
        let lock = folder.lock()?;
        folder.clean(&lock)?;
        Ok(folder)
    }

    /// Opens an existing folder, and changes nothing.
    pub(crate) fn existing(root: &Path) -> io::Result<Self> {
        std::fs::read_dir(root)?;
        Ok(Self { root: root.to_owned(), modes: Modes::of(root)? })
    }

    /// Says whether a cache was ever opened here: the folder has its lock, or copied blocks.
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

    /// Scans the folder.
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
        // The time only decides which block is the oldest.
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
            // Another process may have deleted it since.
            let Ok(metadata) = entry.metadata() else { continue };
            let name = Name { prefix, kind, name: name.to_owned() };
            blocks.push((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), name, metadata.len()));
        }
        Ok(blocks)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a block.
    pub(crate) fn path(&self, name: &Name) -> PathBuf {
        self.root.join(name.prefix.to_string()).join(format!("{}.{}", name.name, name.kind.extension()))
    }

    /// Returns the folder of claims.
    pub(crate) fn claims(&self) -> PathBuf {
        self.root.join(CLAIMS)
    }

    /// Returns the access modes of files that are created here.
    pub(crate) fn modes(&self) -> Modes {
        self.modes
    }

    /// Returns for each prefix when blocks last appeared or disappeared: cheaper than a scan.
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

    /// Deletes a block, if it is there.
    pub(crate) fn remove(&self, name: &Name) -> io::Result<()> {
        match std::fs::remove_file(self.path(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Marks a prefix as in use by this process, as long as the returned file is open.
    pub(crate) fn in_use(&self, prefix: PrefixKey, _lock: &Locked) -> io::Result<File> {
        let folder = self.root.join(prefix.to_string());
        self.modes.folder(&folder)?;
        let file = self.modes.file_or_open(&folder.join(IN_USE))?;
        flock(&file, FlockOperation::NonBlockingLockShared)?;
        Ok(file)
    }

    /// Says whether another process uses a prefix. `own` is the lock that this process holds on it.
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
        // Changing a lock may lose it. Other processes that would notice wait for the folder's lock, which this process
        // holds.
        let back = if own.is_some() { FlockOperation::NonBlockingLockShared } else { FlockOperation::Unlock };
        let _ = flock(file, back);
        !alone
    }

    /// Creates a file for a block of `bytes` bytes.
    pub(crate) fn begin(&self, bytes: u64, _lock: &Locked) -> io::Result<Incoming> {
        let name = uuid::Uuid::new_v4().simple().to_string();
        let path = self.root.join(format!("{name}.{bytes}.tmp"));
        let file = self.modes.file(&path)?;
        let incoming = Incoming { folder: self.clone(), name, path, file };
        flock(&incoming.file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(incoming)
    }

    /// Deletes temporary files and claims whose owners are gone, and prefixes without a block and a user; truncates
    /// files of pages that no process appends to.
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
                    // Other files in it are not from a cache: the folder then stays.
                    let _ = std::fs::remove_file(path.join(IN_USE)).and_then(|()| std::fs::remove_dir(&path));
                }
            }
        }
        Ok(())
    }

    /// Truncates a file of pages to its content, if its writer is gone. An unreadable file is left to its readers.
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

/// Deletes a file that is not locked.
fn remove_unlocked(path: &Path) -> io::Result<()> {
    let Ok(file) = File::options().write(true).open(path) else { return Ok(()) };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => std::fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// Returns the bytes of a block that is being written, if this is the name of such a file.
fn incoming(name: &str) -> Option<u64> {
    name.strip_suffix(".tmp")?.split_once('.')?.1.parse().ok()
}

/// A block that is being written. When it is dropped before it is published, its file is deleted.
#[derive(Debug)]
pub(crate) struct Incoming {
    folder: Folder,
    name: String,
    path: PathBuf,
    file: File,
}

impl Incoming {
    /// Writes the block and publishes it.
    pub(crate) fn publish(mut self, prefix: PrefixKey, bytes: &[u8]) -> io::Result<Name> {
        self.file.write_all(bytes)?;
        self.file.sync_all()?;
        let name = self.place(prefix, Kind::Rows)?;
        File::open(self.folder.root.join(prefix.to_string()))?.sync_all()?;
        Ok(name)
    }

    /// Publishes a file of pages, `bytes` long, for appending while the returned file is open. Does not wait for the
    /// disk: pages that a loss of power damages have wrong sums.
    pub(crate) fn grow(mut self, prefix: PrefixKey, header: &[u8], bytes: u64) -> io::Result<(Name, File)> {
        self.file.write_all(header)?;
        self.file.set_len(bytes)?;
        // Another handle of the same open file: both share the lock, and closing this one keeps it.
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
        // After the rename there is nothing to delete.
        let _ = std::fs::remove_file(&self.path);
    }
}
