//! The accounts of the disk: its blocks, their prefixes, and the choice of the blocks to evict when others need the
//! room.
//!
//! The folder is authoritative, and other processes write to it, too: the writer scans it again before each block,
//! under the folder's lock. Lock order: `view`, then `uses`; never an index.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use forebay_core::{Error, Result, Stopwatch};

use crate::key::PrefixKey;
use crate::lock::lock;
use crate::options::Disk;
use crate::quota::accounts::{LastHit, QuotaAccounts, Victim};
use crate::quota::value::Uses;
use crate::stats::TierStats;
use crate::tiers::block::message::Message;
use crate::tiers::block::name::{Kind, Name};
use crate::tiers::block::queue::Queue;
use crate::tiers::block::read_at::Trouble;
use crate::tiers::block::{BLOCK_BYTES, BLOCK_BYTES_MIN, BlockRef};
use crate::tiers::disk::backoff::Backoff;
use crate::tiers::disk::folder::Incoming;
use crate::tiers::disk::folder::{Contents, Folder, Locked};
use crate::tiers::disk::mount_guard::MountGuard;

/// How often rows are accepted for a trial although other processes hold the room, in passes over any prefix.
const PROBE_PASSES: f64 = 0.25;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct DiskTier {
    folder: Folder,
    mount_guard: MountGuard,
    pub(crate) queue: Queue<Message>,
    pub(crate) block_bytes: u64,
    view: Mutex<View>,
    /// The bytes that were deleted because the folder exceeded the quota when it was opened.
    trimmed: AtomicU64,
    backoff: Backoff,
    corrupt: AtomicU64,
    other_format: AtomicU64,
    /// Held while a use of a prefix begins, so that its blocks are read once.
    pub(super) opening: Mutex<()>,
}

/// The content of the folder, as far as this process knows.
#[derive(Debug)]
struct View {
    accounts: QuotaAccounts,
    known: HashMap<Name, Known>,
    names: HashMap<u32, Name>,
    next: u32,
    /// When the folder was last checked for prefixes that others no longer use, in passes over any prefix.
    probed: f64,
}

#[derive(Debug)]
struct Known {
    id: u32,
    len: u64,
    last_hit: Arc<LastHit>,
}

impl DiskTier {
    /// Opens the folder. A read-only folder is only read. `watch` measures the backoff of a disk that failed.
    ///
    /// # Errors
    /// The system's error where the folder cannot be read either.
    pub(crate) fn open(disk: &Disk, watch: Arc<dyn Stopwatch>) -> Result<Self> {
        let at = |e: io::Error| {
            let message = format!("cannot keep rows in {}: {e}", disk.folder.display());
            Error::new(Error::from(e).kind(), message).hint("name a folder that can be written to, or none")
        };
        let (folder, stopped) = match Folder::open(&disk.folder) {
            Ok(folder) => (folder, None),
            Err(e) => (Folder::existing(&disk.folder).map_err(at)?, Some(e.to_string())),
        };
        let accounts = QuotaAccounts::new(disk.bytes);
        let mut view = View { accounts, known: HashMap::new(), names: HashMap::new(), next: 0, probed: 0.0 };
        let contents = folder.scan().map_err(at)?;
        view.refresh(&contents);
        let disk = Self {
            mount_guard: MountGuard::of(&folder).map_err(at)?,
            folder,
            queue: Queue::default(),
            block_bytes: BLOCK_BYTES.min(disk.bytes / 16).max(BLOCK_BYTES_MIN),
            view: Mutex::new(view),
            trimmed: AtomicU64::new(0),
            backoff: Backoff::new(watch),
            corrupt: AtomicU64::new(0),
            other_format: AtomicU64::new(0),
            opening: Mutex::default(),
        };
        match stopped {
            Some(why) => disk.stop(&why),
            None => disk.trim().map_err(at)?,
        }
        Ok(disk)
    }

    /// Deletes the oldest blocks of a folder that exceeds the quota.
    fn trim(&self) -> io::Result<()> {
        let held = self.folder.lock()?;
        let mut view = lock(&self.view);
        let (held_before, quota) = (view.accounts.used(), view.accounts.quota());
        let protected = view.accounts.prefixes().filter(|&prefix| self.is_used(prefix, &|_| None, &held)).collect();
        view.accounts.protect(protected);
        for victim in view.accounts.set_quota(quota, &Uses::default()) {
            view.forget(victim.block).map_or(Ok(()), |name| self.folder.remove(&name))?;
        }
        self.trimmed.store(held_before.saturating_sub(view.accounts.used()), Ordering::Relaxed);
        Ok(())
    }

    /// Returns the bytes of the blocks that were deleted when it was opened.
    pub(crate) fn trimmed(&self) -> u64 {
        self.trimmed.load(Ordering::Relaxed)
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Records a failure: nothing is written for a while.
    pub(crate) fn stop(&self, why: &str) {
        self.backoff.fail(why);
    }

    /// Records that a write succeeded.
    pub(crate) fn go_on(&self) {
        self.backoff.succeed();
    }

    /// Returns why nothing is written.
    pub(crate) fn stopped(&self) -> Option<String> {
        self.backoff.why()
    }

    /// Says whether writes are paused.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.backoff.is_on()
    }

    /// Creates the folder again, if it was deleted and its disk is still mounted.
    ///
    /// # Errors
    /// The system's error, or that another disk is in the place of its own.
    pub(crate) fn make_again(&self) -> io::Result<()> {
        let gone = |e: io::Error| {
            io::Error::new(e.kind(), format!("the folder {} is gone: {e}", self.folder.root().display()))
        };
        self.mount_guard.make_again(&self.folder).map_err(gone)
    }

    pub(crate) fn stats(&self) -> TierStats {
        let view = lock(&self.view);
        TierStats { bytes: view.accounts.used(), quota: view.accounts.quota() }
    }

    /// Returns how many blocks were broken, and how many were of another version.
    pub(crate) fn troubles(&self) -> (u64, u64) {
        (self.corrupt.load(Ordering::Relaxed), self.other_format.load(Ordering::Relaxed))
    }

    /// Says whether `bytes` bytes of a prefix would be kept now. Where other processes hold the room, it returns true
    /// from time to time.
    pub(crate) fn wants(&self, prefix: PrefixKey, bytes: u64, uses: &Mutex<Uses>) -> bool {
        if self.is_left_alone() {
            return false;
        }
        let mut view = lock(&self.view);
        let uses = lock(uses);
        let due = view.accounts.protects_any() && uses.now() >= view.probed + PROBE_PASSES;
        if due {
            view.probed = uses.now();
        }
        due || view.accounts.has_room(prefix, bytes, &uses)
    }

    /// Scans the folder. Returns the blocks that are gone.
    pub(crate) fn refresh(&self) -> io::Result<Vec<Victim>> {
        self.make_again()?;
        let contents = self.folder.scan()?;
        Ok(lock(&self.view).refresh(&contents))
    }

    /// Returns the blocks of a prefix, by number.
    pub(crate) fn blocks(&self, prefix: PrefixKey) -> Vec<BlockRef> {
        lock(&self.view).list(|name| name.kind == Kind::Rows && name.prefix == prefix)
    }

    /// Returns the files of pages of all sources, by number.
    pub(crate) fn pages(&self) -> Vec<BlockRef> {
        lock(&self.view).list(|name| name.kind == Kind::Pages)
    }

    /// Makes room for a block. Returns the blocks that are gone from the folder, and the file to write to; `None` when
    /// there is no room.
    pub(crate) fn make_room(
        &self,
        prefix: PrefixKey,
        bytes: u64,
        uses: &Mutex<Uses>,
        own: impl Fn(PrefixKey) -> Option<Arc<File>>,
    ) -> io::Result<(Vec<Victim>, Option<Incoming>)> {
        let lock_held = self.folder.lock()?;
        let contents = self.folder.scan()?;
        let mut view = lock(&self.view);
        let mut gone = view.refresh(&contents);
        let protected = view.accounts.prefixes().filter(|&prefix| self.is_used(prefix, &own, &lock_held)).collect();
        view.accounts.protect(protected);
        let wanted = bytes + contents.incoming;
        let (granted, victims) = view.accounts.reserve(prefix, wanted, &lock(uses));
        for victim in victims {
            let Some(name) = view.forget(victim.block) else { continue };
            self.folder.remove(&name)?;
            gone.push(victim);
        }
        if granted < wanted {
            view.accounts.give_back(granted);
            return Ok((gone, None));
        }
        view.accounts.give_back(contents.incoming);
        let incoming = self.folder.begin(bytes, &lock_held);
        if incoming.is_err() {
            view.accounts.give_back(bytes);
        }
        Ok((gone, Some(incoming?)))
    }

    fn is_used(&self, prefix: PrefixKey, own: &impl Fn(PrefixKey) -> Option<Arc<File>>, held: &Locked) -> bool {
        self.folder.is_used_by_others(prefix, own(prefix).as_deref(), held)
    }

    /// Adds a published block, for which room was made.
    pub(crate) fn add(&self, name: Name, bytes: u64, last_hit: Arc<LastHit>) -> u32 {
        let mut view = lock(&self.view);
        // A scan since then has added it already.
        if let Some(known) = view.known.get(&name) {
            let id = known.id;
            view.accounts.give_back(bytes);
            return id;
        }
        view.add(name, bytes, last_hit)
    }

    /// Records that a file of pages is shorter than its reservation.
    pub(crate) fn shrink(&self, block: Victim, bytes: u64) {
        lock(&self.view).accounts.resize(block, bytes);
    }

    /// Returns the room of a block that was not published.
    pub(crate) fn give_back(&self, bytes: u64) {
        lock(&self.view).accounts.give_back(bytes);
    }

    /// Forgets a block that cannot be read, and deletes a broken one.
    pub(crate) fn drop_block(&self, block: Victim, trouble: &Trouble) {
        match trouble {
            Trouble::Later(_) => return,
            Trouble::OtherFormat(format) => {
                self.other_format.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(format, "a block of another version is left alone");
                return;
            }
            Trouble::Gone | Trouble::Broken(_) => {}
        }
        let name = {
            let mut view = lock(&self.view);
            view.accounts.drop_block(block);
            view.forget(block.block)
        };
        if let (Some(name), Trouble::Broken(why)) = (name, trouble) {
            self.corrupt.fetch_add(1, Ordering::Relaxed);
            let path = self.folder.path(&name);
            tracing::warn!(block = %path.display(), why, "a broken block is removed; its rows are computed again");
            let _ = self.folder.remove(&name);
        }
    }
}

impl View {
    /// Updates the accounts to the content of the folder; returns the blocks that are gone.
    fn refresh(&mut self, contents: &Contents) -> Vec<Victim> {
        let there: HashSet<&Name> = contents.blocks.iter().map(|(name, _)| name).collect();
        let gone = self.known.iter().filter(|(name, _)| !there.contains(name));
        let gone: Vec<Victim> = gone.map(|(name, k)| Victim { prefix: name.prefix, block: k.id }).collect();
        for victim in &gone {
            self.accounts.drop_block(*victim);
            self.forget(victim.block);
        }
        for (name, bytes) in &contents.blocks {
            match self.known.get(name) {
                // Blocks never change; a file of pages is truncated when it is full.
                Some(known) => self.accounts.resize(Victim { prefix: name.prefix, block: known.id }, *bytes),
                None => {
                    self.accounts.take(*bytes);
                    self.add(name.clone(), *bytes, Arc::default());
                }
            }
        }
        gone
    }

    /// Returns the blocks whose name `is_wanted`, by number.
    fn list(&self, is_wanted: impl Fn(&Name) -> bool) -> Vec<BlockRef> {
        let wanted = self.known.iter().filter(|(name, _)| is_wanted(name));
        let block_ref =
            |(n, k): (&Name, &Known)| BlockRef { id: k.id, name: n.clone(), len: k.len, last_hit: k.last_hit.clone() };
        let mut blocks: Vec<BlockRef> = wanted.map(block_ref).collect();
        blocks.sort_by_key(|block| block.id);
        blocks
    }

    fn add(&mut self, name: Name, bytes: u64, last_hit: Arc<LastHit>) -> u32 {
        self.next = (self.next + 1) % u32::MAX;
        let id = self.next;
        self.accounts.hold(Victim { prefix: name.prefix, block: id }, bytes, last_hit.clone());
        self.names.insert(id, name.clone());
        self.known.insert(name, Known { id, len: bytes, last_hit });
        id
    }

    fn forget(&mut self, id: u32) -> Option<Name> {
        let name = self.names.remove(&id)?;
        self.known.remove(&name);
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    /// A stopwatch that is set by hand, in seconds.
    #[derive(Default)]
    struct Hand(AtomicU64);

    impl Stopwatch for Hand {
        fn nanos(&self) -> u64 {
            self.0.load(Relaxed) * 1_000_000_000
        }
    }

    #[test]
    fn a_disk_that_failed_is_to_be_counted_on_again_before_anything_was_written() {
        let (folder, hand) = (tempfile::tempdir().expect("a folder"), Arc::new(Hand::default()));
        let disk = Disk { folder: folder.path().to_owned(), bytes: 1 << 20, sources: false };
        let disk = DiskTier::open(&disk, hand.clone()).expect("opens");
        disk.stop("full");
        assert!(disk.is_left_alone() && !disk.wants(PrefixKey([1; 32]), 1, &Mutex::default()));
        hand.0.store(30, Relaxed);
        assert!(!disk.is_left_alone() && disk.wants(PrefixKey([1; 32]), 1, &Mutex::default()));
        assert_eq!(disk.stopped().as_deref(), Some("full"), "until something was");
    }
}
